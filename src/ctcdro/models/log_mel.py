"""Raw audio -> what pretrained encoders were trained on, as `transformers`' feature extractors make it, but in torch:
for whole batches, on any device.

Padding changes nothing: features of an utterance are the same alone and in a batch, and zero after its end.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .masks import normalized, real_frames

WINDOW = 400
HOP = 160


def normalized_audio(audio: Tensor, num_samples: Tensor) -> Tensor:
    """(B, T) audio with zero mean and unit variance, as `Wav2Vec2FeatureExtractor(do_normalize=True)` has it.

    Example:
        >>> normalized_audio(torch.tensor([[2.0, 4.0, 0.0]]), torch.tensor([2]))
        tensor([[-1.,  1.,  0.]])
    """
    with torch.no_grad(), torch.autocast(audio.device.type, enabled=False):
        return normalized(audio.float()[:, :, None], num_samples).squeeze(2)


class WhisperLogMel(nn.Module):
    """The log-mel spectrogram of `WhisperFeatureExtractor`, without its padding to 30 s: one frame every 10 ms."""

    def __init__(self, num_bins: int) -> None:
        from transformers.audio_utils import mel_filter_bank

        super().__init__()
        self.window: Tensor
        self.filters: Tensor
        filters = mel_filter_bank(WINDOW // 2 + 1, num_bins, 0.0, 8_000.0, 16_000, norm="slaney", mel_scale="slaney")
        self.register_buffer("window", torch.hann_window(WINDOW), persistent=False)
        self.register_buffer("filters", torch.from_numpy(filters).float(), persistent=False)

    def num_frames(self, num_samples: Tensor) -> Tensor:
        """Frames for samples."""
        return -(-num_samples // HOP)

    @torch.no_grad()
    def forward(self, audio: Tensor, num_samples: Tensor) -> Tensor:
        """(B, T) audio, (B,) samples -> (B, F, D)."""
        num_frames = self.num_frames(num_samples)
        size = int(num_frames.max())
        with torch.autocast(audio.device.type, enabled=False):
            # Before the beginning is its mirror image, after the end is silence. Two windows more than there are
            # frames still hear the end, and count when the loudest bin is looked for.
            audio = F.pad(audio.float()[:, None], (WINDOW // 2, 0), mode="reflect")[:, 0]
            audio = F.pad(audio, (0, WINDOW + (size + 1) * HOP - audio.shape[1]))
            spectrum = torch.stft(audio, WINDOW, HOP, window=self.window, center=False, return_complex=True)
            power = spectrum.real.square().addcmul_(spectrum.imag, spectrum.imag)
            features = (power.transpose(1, 2) @ self.filters).clamp(min=1e-10).log10()
            features = torch.maximum(features, features.amax((1, 2), keepdim=True) - 8.0)
            features = (features[:, :size] + 4.0) / 4.0
        return features.masked_fill(~real_frames(num_frames, size, audio.device)[:, :, None], 0.0)


class KaldiFbank(nn.Module):
    """The filter bank of `SeamlessM4TFeatureExtractor`, which is Kaldi's: normalized, pairs of frames side by side, one
    pair every 20 ms."""

    def __init__(self, num_bins: int = 80, stacked: int = 2) -> None:
        from transformers.audio_utils import mel_filter_bank, window_function

        super().__init__()
        self.stacked = stacked
        self.window: Tensor
        self.filters: Tensor
        filters = mel_filter_bank(
            257, num_bins, 20, 8_000, 16_000, norm=None, mel_scale="kaldi", triangularize_in_mel_space=True
        )
        window = window_function(WINDOW, "povey", periodic=False)
        self.register_buffer("window", torch.from_numpy(window).float(), persistent=False)
        self.register_buffer("filters", torch.from_numpy(filters).float(), persistent=False)

    def num_frames(self, num_samples: Tensor) -> Tensor:
        """Frames for samples."""
        return self._num_windows(num_samples) // self.stacked

    @torch.no_grad()
    def forward(self, audio: Tensor, num_samples: Tensor) -> Tensor:
        """(B, T) audio, (B,) samples -> (B, F, D)."""
        num_frames = self.num_frames(num_samples)
        size = int(num_frames.max())
        with torch.autocast(audio.device.type, enabled=False):
            windows = audio.float().unfold(1, WINDOW, HOP) * 2**15
            windows = windows - windows.mean(-1, keepdim=True)
            windows = windows - 0.97 * torch.cat([windows[..., :1], windows[..., :-1]], -1)
            spectrum = torch.fft.rfft(windows * self.window, 512)
            power = spectrum.real.square().addcmul_(spectrum.imag, spectrum.imag)
            features = (power @ self.filters).clamp(min=1.192092955078125e-07).log()
            features = normalized(features, self._num_windows(num_samples), correction=1)
        features = features[:, : size * self.stacked].unflatten(1, (size, self.stacked)).flatten(2)
        return features.masked_fill(~real_frames(num_frames, size, audio.device)[:, :, None], 0.0)

    def _num_windows(self, num_samples: Tensor) -> Tensor:
        return (num_samples - WINDOW) // HOP + 1
