"""Reverberation and level: pure functions, which keep the number of samples.

Samples are floats between -1 and 1.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ..speech.noise import fast_size

Samples: TypeAlias = npt.NDArray[np.float64]

DECAY = np.log(1000.0)  # 60 dB, the definition of reverberation time
DIRECT_TO_ROOM = 2.0  # energy of the direct sound divided by that of the reverberation
LOUDNESS = 0.05  # root mean square; -26 dB relative to full scale
PEAK = 0.99


def add_room(samples: Samples, reverberation: float, sample_rate: int, rng: np.random.Generator) -> Samples:
    """Adds reverberation: convolves with noise that decays by 60 dB in `reverberation` seconds."""
    times = np.arange(1, int(3 * reverberation * sample_rate / 2) + 1) / sample_rate
    if not len(times):
        return samples
    room = rng.standard_normal(len(times)) * np.exp(-DECAY * times / reverberation)
    room /= np.sqrt(DIRECT_TO_ROOM * np.sum(room**2))
    size = fast_size(len(samples) + len(room))
    response = np.fft.rfft(np.concatenate([[0.0], room]), size)
    return samples + np.fft.irfft(np.fft.rfft(samples, size) * response, size)[: len(samples)]


def set_level(samples: Samples) -> Samples:
    """Scales samples to a common loudness, or less if that would clip them."""
    return samples * min(LOUDNESS / np.sqrt(np.mean(samples**2)), PEAK / np.max(np.abs(samples)))
