"""From hidden layers to scores of labels: a linear layer, or the head of the paper's experiments.

B utterances, F frames, D wide, L layers, V labels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .frames import centred, real_frames
from .spec_augment import SpecAugment


class LinearHead(nn.Module):
    """One linear layer on the last hidden layer, the `lm_head` of `transformers`' CTC models."""

    def __init__(self, width: int, num_labels: int) -> None:
        super().__init__()
        self.output = nn.Linear(width, num_labels)

    def num_frames(self, num_frames: Tensor) -> Tensor:
        """As many come out as go in."""
        return num_frames

    def forward(self, hidden: Sequence[Tensor] | Tensor, num_frames: Tensor) -> Tensor:
        """Layers, each (B, F, D) -> (B, F, V)."""
        return self.output(hidden[-1])


class TransformerHead(nn.Module):
    """The head of the paper's experiments, as in ML-SUPERB 2.0.

    A sum of all hidden layers, weighted by a softmax that starts uniform; SpecAugment; less the mean of the utterance;
    linear to 80; half as many frames; two Transformer layers, normalised before each part; linear to the labels.

    Frames are halved by one strided convolution over time. The code behind the paper has two convolutions over time
    and features there, which cost more than ten times as much as all the rest of the head, and drop frames at the ends.

    Example:
        >>> head = TransformerHead(width=32, num_layers=3, num_labels=20).eval()
        >>> head(torch.randn(3, 2, 9, 32), torch.tensor([9, 6])).shape
        torch.Size([2, 5, 20])
    """

    def __init__(
        self,
        width: int,
        num_layers: int,
        num_labels: int,
        *,
        spec_augment: bool = True,
        bottleneck: int = 80,
        model_width: int = 256,
        num_heads: int = 8,
        inner_width: int = 1024,
        num_blocks: int = 2,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        self.layer_scores = nn.Parameter(torch.zeros(num_layers))
        self.augment = SpecAugment() if spec_augment else None
        self.narrow = nn.Linear(width, bottleneck)
        self.halve = nn.Conv1d(bottleneck, model_width, kernel_size=3, stride=2, padding=1)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(model_width, num_heads, inner_width, dropout, batch_first=True, norm_first=True)
            for _ in range(num_blocks)
        )
        self.norm = nn.LayerNorm(model_width)
        self.output = nn.Linear(model_width, num_labels)
        for parameter in (parameter for parameter in self.parameters() if parameter.ndim > 1):
            nn.init.xavier_uniform_(parameter)

    def num_frames(self, num_frames: Tensor) -> Tensor:
        """Frames that come out for frames that go in: half of them, rounded up."""
        return (num_frames + 1) // 2

    def forward(self, hidden: Sequence[Tensor] | Tensor, num_frames: Tensor) -> Tensor:
        """Layers, each (B, F, D) -> (B, (F + 1) // 2, V)."""
        shares = self.layer_scores.softmax(0)
        features = shares[0] * hidden[0]
        for share, layer in zip(shares[1:], hidden[1:], strict=True):
            features = features + share * layer
        if self.augment is not None:
            features = self.augment(features, num_frames)
        features = self.narrow(centred(features, num_frames))
        there = real_frames(num_frames, features.shape[1], features.device)
        features = F.relu(self.halve(features.masked_fill(~there[:, :, None], 0.0).transpose(1, 2))).transpose(1, 2)
        width = features.shape[2]
        features = self.dropout(features * math.sqrt(width) + _positions(features.shape[1], width).to(features))
        padding = ~real_frames(self.num_frames(num_frames), features.shape[1], features.device)
        for block in self.blocks:
            features = block(features, src_key_padding_mask=padding)
        return self.output(self.norm(features))


def _positions(size: int, width: int) -> Tensor:
    """(size, width) sines and cosines of "Attention Is All You Need"."""
    angles = torch.arange(size)[:, None] * torch.exp(torch.arange(0, width, 2) * (-math.log(10_000.0) / width))
    return torch.stack([angles.sin(), angles.cos()], 2).flatten(1)
