"""Noise: pure functions of samples and a random generator."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

WINDOW = 400  # samples of a spectrum, 25 ms


def add_noise(samples: npt.NDArray[Any], snr_db: float, rng: np.random.Generator) -> npt.NDArray[np.float64]:
    """Adds pink noise with a signal-to-noise ratio in decibels, over the whole utterance. Silence stays silent."""
    noise = pink_noise(len(samples), rng)
    return samples + noise * np.sqrt(np.mean(samples**2) / np.mean(noise**2) / 10 ** (snr_db / 10))


def pink_noise(num_samples: int, rng: np.random.Generator) -> npt.NDArray[np.float64]:
    """Noise at 16 kHz with the same energy in each octave, like much background noise."""
    size = fast_size(num_samples)
    real, imaginary = rng.standard_normal((2, size // 2 + 1))
    spectrum = (real + 1j * imaginary) / np.sqrt(np.maximum(np.arange(size // 2 + 1), size / 320))  # flat below 50 Hz
    spectrum[0] = 0.0
    return np.fft.irfft(spectrum, size)[:num_samples]


def quiet_noise(samples: npt.NDArray[Any], num_samples: int, rng: np.random.Generator) -> npt.NDArray[np.float64]:
    """Noise with the level and the spectrum of the quietest tenth of an utterance, as in a pause before or after it."""
    window = np.hanning(WINDOW)
    padded = np.pad(samples, (0, max(0, WINDOW - len(samples))))
    windows = np.lib.stride_tricks.sliding_window_view(padded, WINDOW)[:: WINDOW // 2]
    power = np.square(np.abs(np.fft.rfft(windows * window)))
    quietest = np.argsort(power.sum(1))[: max(1, len(power) // 10)]
    response = np.sqrt(power[quietest].mean(0) / np.square(window).sum())
    size = fast_size(num_samples)
    places = np.linspace(0, WINDOW // 2, size // 2 + 1)
    white = np.fft.rfft(rng.standard_normal(size))
    return np.fft.irfft(white * np.interp(places, np.arange(len(response)), response), size)[:num_samples]


def fast_size(num_samples: int) -> int:
    """The next power of two: Fourier transforms of other sizes may take ten times as long."""
    return 1 << (num_samples - 1).bit_length()
