"""`mel-small`: an encoder to be trained from scratch on a CPU, in minutes; needs nothing but torch.

80 log-mel bins (25 ms windows, every 10 ms), normalized per utterance, three frames stacked to one of 30 ms, and five
blocks of a depthwise convolution over 11 frames and two pointwise layers, 144 wide: 0.67 million parameters. There is
no dropout. A frame sees 0.8 s to either side, and no frame sees padding.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .convolution import Blocks
from .masks import normalized

SAMPLE_RATE = 16_000
WINDOW = 400
HOP = 160
FFT = 512


def mel_filters(num_bins: int, fft: int = FFT, lowest: float = 20.0, highest: float = 8_000.0) -> Tensor:
    """(fft // 2 + 1, num_bins) triangles that overlap by half, their corners at equal steps of 2595 log10(1 + f / 700).

    Example:
        >>> filters = mel_filters(80)
        >>> filters.shape, float(filters.max()) <= 1
        (torch.Size([257, 80]), True)
    """
    first, last = (2595 * math.log10(1 + frequency / 700) for frequency in (lowest, highest))
    corners = 700 * (10 ** (torch.linspace(first, last, num_bins + 2, dtype=torch.float64) / 2595) - 1)
    frequency = torch.linspace(0, SAMPLE_RATE / 2, fft // 2 + 1, dtype=torch.float64)[:, None]
    below, peak, above = corners[:-2], corners[1:-1], corners[2:]
    rising, falling = (frequency - below) / (peak - below), (above - frequency) / (above - peak)
    return torch.minimum(rising, falling).clamp(min=0).float()


class MelSmall(nn.Module):
    """The encoder. Its hidden layers are one: the last.

    Args:
        width: of its frames.
        num_blocks: depth.
        kernel: frames that a convolution sees; odd.
        expansion: by how much a block is wider inside.
        num_bins: mel bins.
        stacked: frames of 10 ms that make one of its own.

    Example:
        >>> encoder = MelSmall()
        >>> hidden, = encoder(torch.randn(2, 16_000), torch.tensor([16_000, 8_000]))
        >>> hidden.shape, encoder.num_frames(torch.tensor([16_000, 8_000]))
        (torch.Size([2, 33, 144]), tensor([33, 16]))
    """

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
        self.num_layers = 1
        self.min_samples = WINDOW
        self.max_samples: int | None = None
        self.stacked = stacked
        self.options: dict[str, Any] = {
            **{"width": width, "num_blocks": num_blocks, "kernel": kernel, "expansion": expansion},
            **{"num_bins": num_bins, "stacked": stacked},
        }
        self.enter = nn.Linear(stacked * num_bins, width)
        self.blocks = Blocks(num_blocks, width, kernel, expansion)
        self.leave = nn.LayerNorm(width)
        self.window: Tensor
        self.filters: Tensor
        self.register_buffer("window", torch.hann_window(WINDOW, periodic=False), persistent=False)
        self.register_buffer("filters", mel_filters(num_bins), persistent=False)

    def num_frames(self, num_samples: Tensor) -> Tensor:
        """Frames that come out for samples that go in."""
        return -(-_num_windows(num_samples) // self.stacked)

    def forward(self, audio: Tensor, num_samples: Tensor, *, all_layers: bool = False) -> tuple[Tensor, ...]:
        """(B, T) audio, (B,) samples -> one tensor, (B, F, D)."""
        features = self.log_mel(audio, num_samples)
        features = features.unflatten(1, (-1, self.stacked)).flatten(2)
        return (self.leave(self.blocks(self.enter(features), self.num_frames(num_samples))),)

    def log_mel(self, audio: Tensor, num_samples: Tensor) -> Tensor:
        """(B, F * stacked, num_bins) normalized log-mel bins, zero after the end of each utterance."""
        num_windows = _num_windows(num_samples)
        with torch.no_grad(), torch.autocast(audio.device.type, enabled=False):
            windows = audio.float().unfold(1, WINDOW, HOP) * self.window
            spectrum = torch.fft.rfft(windows, FFT)
            power = spectrum.real.square().addcmul_(spectrum.imag, spectrum.imag)
            features = normalized((power @ self.filters).clamp(min=1e-6).log(), num_windows)
            return F.pad(features, (0, 0, 0, -features.shape[1] % self.stacked))


def _num_windows(num_samples: Tensor) -> Tensor:
    return (num_samples - WINDOW) // HOP + 1
