"""Reverberation and noise: pure functions of samples and a random generator, which keep the number of samples.

Samples are floats between -1 and 1.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

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
    size = _fast_size(len(samples) + len(room))
    response = np.fft.rfft(np.concatenate([[0.0], room]), size)
    return samples + np.fft.irfft(np.fft.rfft(samples, size) * response, size)[: len(samples)]


def add_noise(samples: Samples, snr: float, rng: np.random.Generator) -> Samples:
    """Adds pink noise with a signal-to-noise ratio of `snr` decibels."""
    noise = pink_noise(len(samples), rng)
    return samples + noise * np.sqrt(np.mean(samples**2) / np.mean(noise**2) / 10 ** (snr / 10))


def pink_noise(num_samples: int, rng: np.random.Generator) -> Samples:
    """Noise with the same energy in each octave, like much background noise."""
    size = _fast_size(num_samples)
    real, imaginary = rng.standard_normal((2, size // 2 + 1))
    spectrum = (real + 1j * imaginary) / np.sqrt(np.maximum(np.arange(size // 2 + 1), size / 320))  # flat below 50 Hz
    spectrum[0] = 0.0
    return np.fft.irfft(spectrum, size)[:num_samples]


def set_level(samples: Samples) -> Samples:
    """Scales samples to a common loudness, or less if that would clip them."""
    return samples * min(LOUDNESS / np.sqrt(np.mean(samples**2)), PEAK / np.max(np.abs(samples)))


def _fast_size(num_samples: int) -> int:
    """The next power of two: Fourier transforms of other sizes may take ten times as long."""
    return 1 << (num_samples - 1).bit_length()
