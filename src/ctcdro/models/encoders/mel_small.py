"""`mel-small`: an encoder that trains from scratch on a CPU in minutes; does not need `transformers`.

The input is 80 log-mel bins, normalized per utterance, with three frames stacked to one of 30 ms. Five blocks of width
144 follow, each a depthwise convolution over 11 frames and two pointwise layers: 0.67 million parameters in total,
without dropout. A frame depends on 0.8 s of audio on either side, and never on padding.
"""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from ..convolution_blocks import Blocks
from ..log_mel import HOP, WINDOW, SmallLogMel, num_windows
from ..masks import Number
from ..spec_augment import SpecAugment

MEL_SMALL = "mel-small"
"""The name of `model.encoder`."""


class MelSmall(nn.Module):
    """The encoder. It has a single hidden layer.

    A block is `expansion` times as wide inside as outside. `stacked` frames of 10 ms form one frame.
    """

    num_layers = 1
    min_samples = WINDOW
    max_samples: int | None = None

    def __init__(
        self,
        width: int = 144,
        num_blocks: int = 5,
        kernel: int = 11,
        expansion: int = 3,
        num_bins: int = 80,
        stacked: int = 3,
    ) -> None:
        super().__init__()
        self.width = width
        self.stacked = stacked
        self.frame_stride = stacked * HOP
        self.first_frame_center = (WINDOW + (stacked - 1) * HOP) / 2
        self.options: dict[str, Any] = {
            **{"width": width, "num_blocks": num_blocks, "kernel": kernel, "expansion": expansion},
            **{"num_bins": num_bins, "stacked": stacked},
        }
        self.enter = nn.Linear(stacked * num_bins, width)
        self.blocks = Blocks(num_blocks, width, kernel, expansion)
        self.leave = nn.LayerNorm(width)
        self.log_mel = SmallLogMel(num_bins)  # after the layers, because `load` limits their size
        self.augment: SpecAugment | None = None

    def add_spec_augment(self) -> None:
        """Masks the log-mel bins in training."""
        self.augment = SpecAugment()

    def num_frames(self, num_samples: Number) -> Number:
        return (num_windows(num_samples) + self.stacked - 1) // self.stacked

    def make_exportable(self) -> None:
        self.log_mel.replace_fft()

    def forward(self, audio: Tensor, num_samples: Tensor, *, all_layers: bool = False) -> tuple[Tensor, ...]:
        """(B, T) audio, (B,) samples -> one tensor, (B, F, D)."""
        features = self.log_mel(audio, num_samples)
        if self.augment is not None:
            features = self.augment(features, num_windows(num_samples))
        features = F.pad(features, (0, 0, 0, -features.shape[1] % self.stacked))
        features = features.unflatten(1, (-1, self.stacked)).flatten(2)
        return (self.leave(self.blocks(self.enter(features), self.num_frames(num_samples))),)
