"""Encoders on raw audio: wav2vec 2.0 (XLS-R, MMS), HuBERT, WavLM and data2vec."""

from __future__ import annotations

import math
import warnings
from contextlib import nullcontext
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.parametrize import is_parametrized, remove_parametrizations

from ..log_mel import normalized_audio
from ..masks import Number, normalized, real_frames
from .base import PretrainedEncoder, hidden_layers


class WaveformEncoder(PretrainedEncoder):
    """Convolutions on the audio, optionally normalized to zero mean and unit variance, then Transformer layers."""

    def __init__(self, network: Any, normalize: bool) -> None:
        config = network.config
        convolutions = list(zip(config.conv_kernel, config.conv_stride, strict=True))
        min_samples = 1
        for kernel, stride in reversed(convolutions):
            min_samples = (min_samples - 1) * stride + kernel
        stride = math.prod(config.conv_stride)
        super().__init__(network, min_samples, frame_stride=stride, first_frame_center=min_samples / 2)
        self.convolutions = convolutions
        self.normalize = normalize
        self.has_group_norm = getattr(config, "feat_extract_norm", "layer") == "group"
        if self.has_group_norm:
            first = network.feature_extractor.conv_layers[0]
            first.layer_norm = _PaddedGroupNorm(first.layer_norm)
        if getattr(config, "conv_pos_batch_norm", False):
            warnings.warn(
                f"This {self.family} encoder uses batch normalization (conv_pos_batch_norm): its output for an "
                "utterance depends slightly on padding and on the other utterances in the batch.",
                stacklevel=2,
            )
        self._padding: Tensor | None = None
        if self.family == "data2vec-audio":
            for layer in network.encoder.pos_conv_embed.layers:
                layer.register_forward_pre_hook(self._zero_padding)

    @property
    def options(self) -> dict[str, Any]:
        return {**super().options, "normalize": self.normalize}

    def num_frames(self, num_samples: Number) -> Number:
        for kernel, stride in self.convolutions:
            num_samples = (num_samples - kernel) // stride + 1
        return num_samples

    def checkpoint_gradients(self, **options: Any) -> None:
        if self.family == "wavlm":
            options["context_fn"] = lambda: (nullcontext(), _WavLMQuiet())
        super().checkpoint_gradients(**options)
        if self.has_group_norm:  # recomputation would use the lengths of a later batch
            self.network.feature_extractor.conv_layers[0].gradient_checkpointing = False

    def make_exportable(self) -> None:
        if self.has_group_norm:
            first = self.network.feature_extractor.conv_layers[0]
            first.layer_norm = _MaskedGroupNorm(first.layer_norm)
        self._compute_weight_norm()

    def speed_up_inference(self) -> None:
        self._compute_weight_norm()
        if next(self.network.parameters()).device.type == "cpu":
            first, *others = [layer.conv for layer in self.network.feature_extractor.conv_layers]
            if not self.has_group_norm:  # which uses the usual layout
                first.forward = partial(_convolve_samples, first)
            for convolution in others:
                convolution.forward = partial(_convolve_frames, convolution)

    def _compute_weight_norm(self) -> None:
        """Replaces the weight norm of the positional convolution, computed in each call, by its result."""
        for module in self.network.modules():
            if is_parametrized(module):
                for name in list(module.parametrizations):
                    remove_parametrizations(module, name)

    def forward(self, audio: Tensor, num_samples: Tensor, *, all_layers: bool = True) -> tuple[Tensor, ...]:
        if self.normalize:
            audio = normalized_audio(audio, num_samples)
        if self.has_group_norm:
            kernel, stride = self.convolutions[0]
            norm = self.network.feature_extractor.conv_layers[0].layer_norm
            norm.lengths = (num_samples - kernel) // stride + 1
        self._num_frames = num_frames = self.num_frames(num_samples)
        self._padding = ~real_frames(num_frames, self.num_frames(audio.shape[1]), audio.device)[:, None]
        mask = real_frames(num_samples, audio.shape[1], audio.device).long()
        with _WavLMQuiet() if self.family == "wavlm" else nullcontext():
            output = self.network(audio, attention_mask=mask, output_hidden_states=all_layers)
        self._padding = None
        return hidden_layers(output, all_layers)

    def _zero_padding(self, module: nn.Module, inputs: tuple[Tensor]) -> Tensor:
        """Zeros the padding before each of data2vec's positional convolutions, because the previous one wrote to it."""
        assert self._padding is not None
        return inputs[0].masked_fill(self._padding, 0.0)


def _convolve_samples(convolution: nn.Conv1d, audio: Tensor) -> Tensor:
    """The first convolution, over (B, 1, T) audio. The result is (B, D, F), stored as (B, F, D)."""
    windows = audio[:, 0].unfold(1, convolution.kernel_size[0], convolution.stride[0])
    return F.linear(windows, convolution.weight.flatten(1), convolution.bias).transpose(1, 2)


def _convolve_frames(convolution: nn.Conv1d, hidden: Tensor) -> Tensor:
    """A convolution over (B, D, F), stored as (B, F, D): the layout of the norms, and of the Transformer layers.

    torch has this layout only for images. In any other, it would copy the input and the output several times.
    """
    images = hidden.unsqueeze(2).contiguous(memory_format=torch.channels_last)
    weight, stride, padding = convolution.weight.unsqueeze(2), (1, *convolution.stride), (0, *convolution.padding)
    return F.conv2d(images, weight, convolution.bias, stride, padding, groups=convolution.groups).squeeze(2)


class _WavLMQuiet(warnings.catch_warnings):
    """Hides a torch warning about WavLM's attention call."""

    def __enter__(self) -> None:
        super().__enter__()
        warnings.filterwarnings("ignore", message="Support for mismatched key_padding_mask")


class _PaddedGroupNorm(nn.GroupNorm):
    """The group norm over time of the base models, computed over each utterance without its padding."""

    def __init__(self, norm: nn.GroupNorm) -> None:
        super().__init__(norm.num_groups, norm.num_channels, norm.eps)
        self.weight, self.bias = norm.weight, norm.bias
        self.lengths = torch.zeros(0)

    def forward(self, hidden: Tensor) -> Tensor:
        size = hidden.shape[2]
        lengths = self.lengths.tolist()
        if min(lengths) == size:
            return super().forward(hidden)
        rows = [
            F.pad(super(_PaddedGroupNorm, self).forward(row[None, :, :length]), (0, size - length))
            for row, length in zip(hidden, lengths, strict=True)
        ]
        return torch.cat(rows)


class _MaskedGroupNorm(_PaddedGroupNorm):
    """The same for all utterances at once. It needs more memory. A group is one channel in all of these models.

    Means are computed in float64, because onnxruntime adds up all frames one after the other.
    """

    def forward(self, hidden: Tensor) -> Tensor:
        frames = normalized(hidden.transpose(1, 2).double(), self.lengths, epsilon=self.eps).to(hidden)
        return (frames * self.weight + self.bias).transpose(1, 2)
