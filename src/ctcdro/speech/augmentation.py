"""Augmentation of audio in training: speed perturbation and noise.

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
from .noise import add_noise

with extra("data", "Augmenting audio"):
    import soxr


@dataclass(frozen=True)
class AudioAugmentation:
    """Changes the speed of an utterance, then adds noise.

    Attributes:
        speeds: speeds to choose from, relative to the original; tempo and pitch change together. Empty: no change.
        noise_snr_db: range of the ratio of speech to pink noise, in decibels; None for no noise.
        min_samples, max_samples: limits of the encoder. A speed that would exceed them is not applied.
    """

    speeds: tuple[float, ...] = ()
    noise_snr_db: tuple[float, float] | None = None
    seed: int = 0
    min_samples: int = 1
    max_samples: int | None = None

    def __call__(self, samples: Samples, epoch: int, index: int) -> Samples:
        rng = np.random.default_rng([self.seed, epoch, index])
        if self.speeds:
            samples = self._change_speed(samples, self.speeds[rng.integers(len(self.speeds))])
        if self.noise_snr_db is not None:
            samples = add_noise(samples, rng.uniform(*self.noise_snr_db), rng).astype(np.float32)
        return samples

    def _change_speed(self, samples: Samples, speed: float) -> Samples:
        changed = change_speed(samples, speed)
        is_allowed = self.min_samples <= len(changed) <= (self.max_samples or len(changed))
        return changed if is_allowed else samples


def change_speed(samples: Samples, speed: float) -> Samples:
    """Resamples audio, so that it is `speed` times as fast."""
    return samples if speed == 1 else soxr.resample(samples, SAMPLE_RATE * speed, SAMPLE_RATE)
