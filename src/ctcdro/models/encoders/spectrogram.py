"""Encoders on mel features: wav2vec 2.0 BERT, Whisper and Parakeet."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from ..log_mel import HOP, WINDOW, KaldiFbank, ParakeetLogMel, WhisperLogMel
from ..masks import Number, real_frames
from ..spec_augment import SpecAugment
from .base import PretrainedEncoder, hidden_layers


class W2vBertEncoder(PretrainedEncoder):
    """wav2vec 2.0 BERT: Conformer layers on Kaldi's filter bank."""

    def __init__(self, network: Any) -> None:
        # A frame stacks two windows.
        super().__init__(network, min_samples=WINDOW + HOP, frame_stride=2 * HOP, first_frame_center=(WINDOW + HOP) / 2)
        self.features = KaldiFbank(network.config.feature_projection_input_dim // KaldiFbank.stacked)

    def num_frames(self, num_samples: Number) -> Number:
        return self.features.num_frames(num_samples)

    def make_exportable(self) -> None:
        self.features.replace_fft()

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

    def num_frames(self, num_samples: Number) -> Number:
        return (self.features.num_frames(num_samples) + 1) // 2

    def make_exportable(self) -> None:
        self.features.replace_fft()

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


class ParakeetEncoder(PretrainedEncoder):
    """Parakeet's encoder (FastConformer): convolutions that combine eight windows to one frame, then Conformer layers.

    Its batch norms use the statistics of the checkpoint in training, too. Those of a batch would depend on padding.
    """

    def __init__(self, network: Any) -> None:
        config = network.config
        super().__init__(
            network,
            min_samples=WINDOW,  # two windows, because the variance over one is undefined
            frame_stride=config.subsampling_factor * HOP,
            first_frame_center=0.0,
        )
        self.features = ParakeetLogMel(config.num_mel_bins)

    def train(self, mode: bool = True) -> ParakeetEncoder:
        super().train(mode)
        for module in self.modules():
            if isinstance(module, nn.BatchNorm1d):
                module.eval()
        return self

    def add_spec_augment(self) -> None:
        """Masks the log-mel features in training."""
        self.augment = SpecAugment()

    def num_frames(self, num_samples: Number) -> Number:
        num_frames, config = self.features.num_frames(num_samples), self.network.config
        for _ in range(self.network.subsampling.num_layers):
            num_frames = (num_frames - 1) // config.subsampling_conv_stride + 1
        return num_frames

    def make_exportable(self) -> None:
        self.features.replace_fft()

    def forward(self, audio: Tensor, num_samples: Tensor, *, all_layers: bool = True) -> tuple[Tensor, ...]:
        features, num_windows = self.features(audio, num_samples), self.features.num_frames(num_samples)
        if self.augment is not None:
            features = self.augment(features, num_windows)
        mask = real_frames(num_windows, features.shape[1], audio.device).long()
        return hidden_layers(self.network(features, attention_mask=mask, output_hidden_states=all_layers), all_layers)
