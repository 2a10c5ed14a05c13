"""Augmentation of audio in training: speed perturbation, silence at the edges, and noise.

The augmentation of an utterance is a pure function of its samples, the seed, the epoch and its index. It therefore does
not depend on workers, processes or restarts.

Reference:
    Ko et al., Audio Augmentation for Speech Recognition, 2015, https://doi.org/10.21437/Interspeech.2015-711
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..runtime.extras import extra
from .audio import SAMPLE_RATE, Samples
from .noise import add_noise, quiet_noise

with extra("data", "Augmenting audio"):
    import soxr


@dataclass(frozen=True)
class AudioAugmentation:
    """Changes the speed of an utterance, then adds silence before and after it, then noise.

    Attributes:
        speeds: speeds to choose from, relative to the original; tempo and pitch change together. Empty: no change.
        edge_silence_seconds: maximum length of the silence at each edge: noise like that of the quietest part of the
            utterance. The length is uniformly distributed.
        noise_snr_db: range of the ratio of speech to pink noise, in decibels; None for no noise.
        min_samples, max_samples: limits of the encoder. A speed or silence that would exceed them is not applied.
    """

    speeds: tuple[float, ...] = ()
    edge_silence_seconds: float = 0.0
    noise_snr_db: tuple[float, float] | None = None
    seed: int = 0
    min_samples: int = 1
    max_samples: int | None = None

    def __call__(self, samples: Samples, epoch: int, index: int) -> Samples:
        rng = np.random.default_rng([self.seed, epoch, index])
        if self.speeds:
            samples = self._within_limits(samples, change_speed(samples, self.speeds[rng.integers(len(self.speeds))]))
        if self.edge_silence_seconds:
            samples = self._within_limits(samples, add_silence(samples, self.edge_silence_seconds, rng))
        if self.noise_snr_db is not None:
            samples = add_noise(samples, rng.uniform(*self.noise_snr_db), rng).astype(np.float32)
        return samples

    def _within_limits(self, samples: Samples, changed: Samples) -> Samples:
        is_allowed = self.min_samples <= len(changed) <= (self.max_samples or len(changed))
        return changed if is_allowed else samples


def change_speed(samples: Samples, speed: float) -> Samples:
    """Resamples audio, so that it is `speed` times as fast."""
    return samples if speed == 1 else soxr.resample(samples, SAMPLE_RATE * speed, SAMPLE_RATE)


def add_silence(samples: Samples, max_seconds: float, rng: np.random.Generator) -> Samples:
    """Adds quiet noise of up to `max_seconds` before and after an utterance, each with a probability of one half."""
    lengths = rng.integers(round(max_seconds * SAMPLE_RATE) + 1, size=2) * rng.integers(2, size=2)
    before, after = lengths.tolist()
    noise = quiet_noise(samples, before + after, rng).astype(np.float32)
    return np.concatenate([noise[:before], samples, noise[before:]])
