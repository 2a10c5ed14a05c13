"""Feature extraction in torch, for padded batches on any device.

`normalized_audio`, `WhisperLogMel`, `KaldiFbank` and `ParakeetLogMel` match the feature extractors of `transformers`;
`SmallLogMel` is the front end of `mel-small`. The features of an utterance do not depend on padding, and are zero after
its end.

All windows are 25 ms long and 10 ms apart.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..speech.audio import SAMPLE_RATE
from .masks import Number, centered, normalized, real_frames

WINDOW = SAMPLE_RATE // 40
HOP = SAMPLE_RATE // 100
FFT = 512
LOWEST, HIGHEST = 20.0, SAMPLE_RATE / 2  # frequencies of mel filters


def normalized_audio(audio: Tensor, num_samples: Tensor) -> Tensor:
    """(B, T) audio with zero mean and unit variance, like `Wav2Vec2FeatureExtractor(do_normalize=True)`.

    Computed in float64, because onnxruntime adds up all samples one after the other.
    """
    with torch.no_grad(), torch.autocast(audio.device.type, enabled=False):
        return normalized(audio.double()[:, :, None], num_samples).squeeze(2).float()


def num_windows(num_samples: Number) -> Number:
    """Windows that lie completely within the audio."""
    return (num_samples - WINDOW) // HOP + 1


def mel_filters(num_bins: int, fft: int = FFT) -> Tensor:
    """(fft // 2 + 1, num_bins) half-overlapping triangles, equally spaced on the scale 2595 log10(1 + f / 700)."""
    first, last = (2595 * math.log10(1 + frequency / 700) for frequency in (LOWEST, HIGHEST))
    corners = 700 * (10 ** (torch.linspace(first, last, num_bins + 2, dtype=torch.float64) / 2595) - 1)
    frequency = torch.linspace(0, HIGHEST, fft // 2 + 1, dtype=torch.float64)[:, None]
    below, peak, above = corners[:-2], corners[1:-1], corners[2:]
    rising, falling = (frequency - below) / (peak - below), (above - frequency) / (above - peak)
    return torch.minimum(rising, falling).clamp(min=0).float()


class LogMel(nn.Module):
    """A window function, (400,), and mel filters, (frequencies, bins).

    Features are computed in the precision of the window. In float32, the energy of quiet bins depends on the algorithm,
    and large encoders amplify the difference.
    """

    def __init__(self, window: Tensor, filters: Tensor) -> None:
        super().__init__()
        self.window: Tensor
        self.filters: Tensor
        self.kernel: Tensor | None
        self.register_buffer("window", window, persistent=False)
        self.register_buffer("filters", filters.to(window.dtype), persistent=False)
        self.register_buffer("kernel", None, persistent=False)

    def again(self) -> LogMel:
        """A new instance of the same class with as many bins."""
        make: Any = type(self)
        return make(self.filters.shape[1])

    def replace_fft(self) -> None:
        """Computes spectra with one matrix from now on: slower in torch, but part of every inference runtime.

        The spectrum of a window is linear in its samples, so the spectra of unit impulses are the matrix.
        """
        spectra = self._spectrum(torch.eye(WINDOW, dtype=torch.float64))
        self.kernel = torch.cat([spectra.real, spectra.imag], 1)

    def _spectrum(self, windows: Tensor) -> Tensor:
        """(..., 400) samples -> (..., frequencies) complex amplitudes."""
        return torch.fft.rfft(windows * self.window, 2 * (len(self.filters) - 1))

    def _bins(self, audio: Tensor, floor: float) -> Tensor:
        """(B, T) audio -> (B, F, bins) energies of its windows, at least `floor`."""
        if self.kernel is None:
            spectrum = self._spectrum(audio.unfold(1, WINDOW, HOP))
            power = spectrum.real.square().addcmul_(spectrum.imag, spectrum.imag)
        else:
            real, imaginary = (windows_of(audio).to(self.kernel) @ self.kernel).chunk(2, 2)
            power = real.square() + imaginary.square()
        return (power.to(self.filters) @ self.filters).clamp(min=floor)


def windows_of(audio: Tensor) -> Tensor:
    """(B, T) audio -> (B, F, 400), like `audio.unfold(1, WINDOW, HOP)`, with operations that every runtime has."""
    size = math.gcd(WINDOW, HOP)
    blocks = audio[:, : audio.shape[1] // size * size].unflatten(1, (-1, size))
    per_window, per_hop = WINDOW // size, HOP // size
    last = blocks.shape[1] - per_window
    return torch.cat([blocks[:, first : last + first + 1 : per_hop] for first in range(per_window)], 2)


class SmallLogMel(LogMel):
    """Log-mel bins with zero mean and unit variance over the utterance: one frame every 10 ms.

    Models amplify the rounding errors of quiet and of nearly constant bins. Training tolerates them, and is faster with
    them. In evaluation mode they are avoided, so that exported models agree.
    """

    def __init__(self, num_bins: int) -> None:
        super().__init__(torch.hann_window(WINDOW, periodic=False), mel_filters(num_bins))

    def _spectrum(self, windows: Tensor) -> Tensor:
        return super()._spectrum(windows if self.training else windows.double())

    @torch.no_grad()
    def energies(self, audio: Tensor) -> Tensor:
        """(B, T) audio -> (B, F, D) log-mel bins, not normalized."""
        with torch.autocast(audio.device.type, enabled=False):
            return self._bins(audio.float(), floor=1e-6).log()

    @torch.no_grad()
    def forward(self, audio: Tensor, num_samples: Tensor) -> Tensor:
        """(B, T) audio, (B,) samples -> (B, F, D)."""
        with torch.autocast(audio.device.type, enabled=False):
            num_frames = num_windows(num_samples)
            energies = self.energies(audio)
            if not self.training:  # the variance of a constant bin is the rounding error of its mean
                energies = centered(energies, num_frames)
            return normalized(energies, num_frames)


class WhisperLogMel(LogMel):
    """The log-mel spectrogram of `WhisperFeatureExtractor`, without padding to 30 s: one frame every 10 ms."""

    def __init__(self, num_bins: int) -> None:
        from transformers.audio_utils import mel_filter_bank

        filters = mel_filter_bank(
            WINDOW // 2 + 1, num_bins, 0.0, HIGHEST, SAMPLE_RATE, norm="slaney", mel_scale="slaney"
        )
        super().__init__(torch.hann_window(WINDOW, dtype=torch.float64), torch.from_numpy(filters))

    def num_frames(self, num_samples: Number) -> Number:
        return (num_samples + HOP - 1) // HOP

    @torch.no_grad()
    def forward(self, audio: Tensor, num_samples: Tensor) -> Tensor:
        """(B, T) audio, (B,) samples -> (B, F, D)."""
        num_frames, size = self.num_frames(num_samples), self.num_frames(audio.shape[1])
        with torch.autocast(audio.device.type, enabled=False):
            # Reflection padding at the start, silence at the end. Two windows after the last frame still contain audio
            # and are included in the maximum over bins.
            audio = F.pad(audio.float()[:, None], (WINDOW // 2, 0), mode="reflect")[:, 0]
            audio = F.pad(audio, (0, WINDOW + (size + 1) * HOP - audio.shape[1]))
            features = self._bins(audio, floor=1e-10).log10()
            features = torch.maximum(features, features.amax((1, 2), keepdim=True) - 8.0)
            features = ((features[:, :size] + 4.0) / 4.0).float()
        return features.masked_fill(~real_frames(num_frames, size, audio.device)[:, :, None], 0.0)


class KaldiFbank(LogMel):
    """The filter bank of `SeamlessM4TFeatureExtractor`, which follows Kaldi: normalized, with pairs of frames stacked
    to one frame every 20 ms."""

    stacked = 2

    def __init__(self, num_bins: int = 80) -> None:
        from transformers.audio_utils import mel_filter_bank, window_function

        filters = mel_filter_bank(
            FFT // 2 + 1, num_bins, LOWEST, HIGHEST, SAMPLE_RATE, mel_scale="kaldi", triangularize_in_mel_space=True
        )
        window = window_function(WINDOW, "povey", periodic=False)
        super().__init__(torch.from_numpy(window), torch.from_numpy(filters))

    def num_frames(self, num_samples: Number) -> Number:
        return num_windows(num_samples) // self.stacked

    def _spectrum(self, windows: Tensor) -> Tensor:
        windows = windows.to(self.window) * 2**15
        windows = windows - windows.mean(-1, keepdim=True)
        windows = windows - 0.97 * torch.cat([windows[..., :1], windows[..., :-1]], -1)
        return super()._spectrum(windows)

    @torch.no_grad()
    def forward(self, audio: Tensor, num_samples: Tensor) -> Tensor:
        """(B, T) audio, (B,) samples -> (B, F, D)."""
        num_frames, size = self.num_frames(num_samples), self.num_frames(audio.shape[1])
        with torch.autocast(audio.device.type, enabled=False):
            bins = self._bins(audio.float(), floor=1.192092955078125e-07)
            features = normalized(bins.log(), num_windows(num_samples), correction=1).float()
        features = features[:, : size * self.stacked].unflatten(1, (size, self.stacked)).flatten(2)
        return features.masked_fill(~real_frames(num_frames, size, audio.device)[:, :, None], 0.0)


class ParakeetLogMel(LogMel):
    """The log-mel bins of `ParakeetFeatureExtractor`, normalized: one frame every 10 ms."""

    preemphasis = 0.97

    def __init__(self, num_bins: int) -> None:
        from transformers.audio_utils import mel_filter_bank

        filters = mel_filter_bank(FFT // 2 + 1, num_bins, 0.0, HIGHEST, SAMPLE_RATE, norm="slaney", mel_scale="slaney")
        super().__init__(torch.hann_window(WINDOW, periodic=False, dtype=torch.float64), torch.from_numpy(filters))

    @property
    def extractor_settings(self) -> dict[str, Any]:
        """The settings of the feature extractor, in the form of its `preprocessor_config.json`."""
        return {
            "feature_extractor_type": "ParakeetFeatureExtractor",
            **{"feature_size": self.filters.shape[1], "sampling_rate": SAMPLE_RATE, "padding_value": 0.0},
            **{"hop_length": HOP, "win_length": WINDOW, "n_fft": FFT, "preemphasis": self.preemphasis},
            **{"padding_side": "right", "return_attention_mask": True},
        }

    def num_frames(self, num_samples: Number) -> Number:
        return num_samples // HOP

    @torch.no_grad()
    def forward(self, audio: Tensor, num_samples: Tensor) -> Tensor:
        """(B, T) audio, (B,) samples -> (B, F, D)."""
        num_frames = self.num_frames(num_samples)
        with torch.autocast(audio.device.type, enabled=False):
            audio = audio.to(self.window)
            audio = audio - self.preemphasis * F.pad(audio, (1, -1))
            audio = audio.masked_fill(~real_frames(num_samples, audio.shape[1], audio.device), 0.0)
            bins = self._bins(F.pad(audio, (WINDOW // 2, WINDOW // 2)), floor=0.0)[:, : self.num_frames(audio.shape[1])]
            features = centered((bins + 2.0**-24).log(), num_frames)
            count = (num_frames - 1).to(features, non_blocking=True)[:, None, None]
            return (features / ((features.square().sum(1, keepdim=True) / count).sqrt() + 1e-5)).float()
