"""Heads that map hidden layers to label scores: one linear layer, the paper's Transformer, or convolutions.

B utterances, F frames, L layers of width D, V labels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar, Literal, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .convolution_blocks import Blocks
from .masks import centered, normalized, real_frames
from .spec_augment import SpecAugment

Head: TypeAlias = Literal["transformer", "linear", "convolution"]


class LinearHead(nn.Module):
    """One linear layer on the last hidden layer, like the `lm_head` of CTC models in `transformers`."""

    subsampling: ClassVar[int] = 1

    def __init__(self, width: int, num_labels: int) -> None:
        super().__init__()
        self.output = nn.Linear(width, num_labels)

    def num_frames(self, num_frames: Tensor) -> Tensor:
        return num_frames

    def forward(self, hidden: Sequence[Tensor], num_frames: Tensor) -> Tensor:
        """Layers, each (B, F, D) -> (B, F, V)."""
        return self.output(hidden[-1])


class LayerMix(nn.Module):
    """A sum of hidden layers with learned softmax weights, initially uniform; then, optionally, SpecAugment."""

    def __init__(self, num_layers: int, spec_augment: bool) -> None:
        super().__init__()
        self.scores = nn.Parameter(torch.zeros(num_layers))
        self.augment = SpecAugment() if spec_augment else None

    def forward(self, hidden: Sequence[Tensor], num_frames: Tensor) -> Tensor:
        """Layers, each (B, F, D) -> (B, F, D)."""
        shares = self.scores.softmax(0)
        mixed = shares[0] * hidden[0]
        for share, layer in zip(shares[1:], hidden[1:], strict=True):
            mixed = mixed + share * layer
        return mixed if self.augment is None else self.augment(mixed, num_frames)


class TransformerHead(nn.Module):
    """The head of the paper's experiments, as in ML-SUPERB 2.0.

    The steps are a learned sum of all hidden layers; SpecAugment; subtraction of the mean over the utterance; a linear
    layer to 80 features; subsampling by 2; two Transformer layers with pre-normalization; a linear layer to the labels.

    One strided convolution over time does the subsampling. The authors' code has two convolutions over time and
    features, which cost more than ten times as much as the rest of the head, and drop frames at the ends.
    """

    subsampling: ClassVar[int] = 2
    """Encoder frames per output frame. Output frame `n` is centered on encoder frame `n * subsampling`."""

    def __init__(
        self, width: int, num_layers: int, num_labels: int, *, spec_augment: bool = True, dropout: float = 0.1
    ) -> None:
        super().__init__()
        self.mix = LayerMix(num_layers, spec_augment)
        self.narrow = nn.Linear(width, 80)
        self.halve = nn.Conv1d(80, 256, kernel_size=3, stride=2, padding=1)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(256, 8, 1024, dropout, batch_first=True, norm_first=True) for _ in range(2)
        )
        self.norm = nn.LayerNorm(256)
        self.output = nn.Linear(256, num_labels)
        for parameter in self.parameters():
            if parameter.ndim > 1:
                nn.init.xavier_uniform_(parameter)

    def num_frames(self, num_frames: Tensor) -> Tensor:
        return (num_frames + 1) // 2

    def forward(self, hidden: Sequence[Tensor], num_frames: Tensor) -> Tensor:
        """Layers, each (B, F, D) -> (B, (F + 1) // 2, V)."""
        features = self.mix(hidden, num_frames)
        features = self.narrow(centered(features, num_frames))
        real = real_frames(num_frames, features.shape[1], features.device)
        features = F.relu(self.halve(features.masked_fill(~real[:, :, None], 0.0).transpose(1, 2))).transpose(1, 2)
        width = features.shape[2]
        positions = _positions(features.shape[1], width, features.device).to(features)
        features = self.dropout(features * math.sqrt(width) + positions)
        padding = ~real_frames(self.num_frames(num_frames), features.shape[1], features.device)
        for block in self.blocks:
            features = block(features, src_key_padding_mask=padding)
        return self.output(self.norm(features))


class ConvolutionHead(nn.Module):
    """A head for frozen encoders on a CPU: as small and fast as `mel-small`, on hidden layers instead of log-mel bins.

    The steps are a learned sum of all hidden layers; SpecAugment; normalization to zero mean and unit variance over the
    utterance; blocks of convolutions. The number of frames stays the same.
    """

    subsampling: ClassVar[int] = 1

    def __init__(self, width: int, num_layers: int, num_labels: int, *, spec_augment: bool = True) -> None:
        super().__init__()
        self.mix = LayerMix(num_layers, spec_augment)
        self.enter = nn.Linear(width, 144)
        self.blocks = Blocks(5, width=144, kernel=11, expansion=3)
        self.norm = nn.LayerNorm(144)
        self.output = nn.Linear(144, num_labels)

    def num_frames(self, num_frames: Tensor) -> Tensor:
        return num_frames

    def forward(self, hidden: Sequence[Tensor], num_frames: Tensor) -> Tensor:
        """Layers, each (B, F, D) -> (B, F, V)."""
        features = self.mix(hidden, num_frames)
        features = self.enter(normalized(features, num_frames, epsilon=1e-5))
        return self.output(self.norm(self.blocks(features, num_frames)))


def make_head(
    name: Head, width: int, num_layers: int, num_labels: int, *, spec_augment: bool = False
) -> LinearHead | TransformerHead | ConvolutionHead:
    """A head for an encoder with `num_layers` hidden layers. The linear head has no SpecAugment."""
    if name == "linear":
        return LinearHead(width, num_labels)
    head = TransformerHead if name == "transformer" else ConvolutionHead
    return head(width, num_layers, num_labels, spec_augment=spec_augment)


def _positions(size: int, width: int, device: torch.device) -> Tensor:
    """(size, width) sinusoidal position embeddings ("Attention Is All You Need")."""
    rates = torch.exp(torch.arange(0, width, 2, device=device) * (-math.log(10_000.0) / width))
    angles = torch.arange(size, device=device)[:, None] * rates
    return torch.stack([angles.sin(), angles.cos()], 2).flatten(1)
