"""Encoders on mel features: wav2vec 2.0 BERT and Whisper."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor

from ..log_mel import HOP, WINDOW, KaldiFbank, WhisperLogMel
from ..masks import real_frames
from ..spec_augment import SpecAugment
from .base import PretrainedEncoder, hidden_layers


class W2vBertEncoder(PretrainedEncoder):
    """wav2vec 2.0 BERT: Conformer layers on Kaldi's filter bank."""

    def __init__(self, network: Any) -> None:
        # A frame stacks two windows.
        super().__init__(network, min_samples=WINDOW + HOP, frame_stride=2 * HOP, first_frame_center=(WINDOW + HOP) / 2)
        self.features = KaldiFbank(network.config.feature_projection_input_dim // KaldiFbank.stacked)

    def num_frames(self, num_samples: Tensor) -> Tensor:
        return self.features.num_frames(num_samples)

    def forward(self, audio: Tensor, num_samples: Tensor, *, all_layers: bool = True) -> tuple[Tensor, ...]:
        features = self.features(audio, num_samples)
        self._num_frames = self.num_frames(num_samples)
        mask = real_frames(self._num_frames, features.shape[1], audio.device).long()
        return hidden_layers(self.network(features, attention_mask=mask, output_hidden_states=all_layers), all_layers)


class WhisperEncoder(PretrainedEncoder):
    """Whisper's encoder, on audio of any length up to 30 s. `transformers` always pads to 30 s."""

    def __init__(self, network: Any) -> None:
        # Windows are centered on multiples of the hop, and a convolution halves their number.
        super().__init__(
            network,
            min_samples=WINDOW,
            max_samples=network.config.max_source_positions * 2 * HOP,
            frame_stride=2 * HOP,
            first_frame_center=0.0,
        )
        self.features = WhisperLogMel(network.config.num_mel_bins)
        network.embed_positions.requires_grad_(False)  # sinusoids, which `from_pretrained` makes trainable

    def add_spec_augment(self) -> None:
        """Masks the log-mel features in training."""
        self.augment = SpecAugment()

    def num_frames(self, num_samples: Tensor) -> Tensor:
        return -(-self.features.num_frames(num_samples) // 2)

    def forward(self, audio: Tensor, num_samples: Tensor, *, all_layers: bool = True) -> tuple[Tensor, ...]:
        from transformers.masking_utils import create_bidirectional_mask

        network = self.network
        features = self.features(audio, num_samples)
        if self.augment is not None:
            features = self.augment(features, self.features.num_frames(num_samples))
        # The first convolution writes to the padding, which the second would read.
        real = real_frames(self.features.num_frames(num_samples), features.shape[1], audio.device)
        hidden = F.gelu(network.conv1(features.transpose(1, 2))).masked_fill(~real[:, None], 0.0)
        hidden = F.gelu(network.conv2(hidden)).transpose(1, 2)
        hidden = hidden + network.embed_positions.weight[: hidden.shape[1]]
        hidden = F.dropout(hidden, network.dropout, self.training)
        mask = create_bidirectional_mask(
            config=network.config,
            inputs_embeds=hidden,
            attention_mask=real_frames(self.num_frames(num_samples), hidden.shape[1], audio.device),
        )
        layers = [hidden]
        for layer in network.layers:
            layers.append(layer(layers[-1], mask))
        last = network.layer_norm(layers[-1])
        return (*layers[:-1], last) if all_layers else (last,)
