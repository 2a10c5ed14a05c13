"""Estimates the signal-to-noise ratio of speech from its own pauses."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

FRAME = 320
"""Samples: 20 ms at 16 kHz."""
LOWEST, HIGHEST = 10, 95
"""Percentiles of frame energies that stand for noise and for speech."""
QUIETEST = 1e-10
"""Energy of digital silence."""


def estimate_snr(samples: npt.NDArray[Any]) -> float:
    """Decibels between loud and quiet frames, which is high for clean speech with pauses, and low in noise.

    The estimate ranks recordings; it is not a measurement. Speech without pauses looks noisy.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> speech = np.sin(np.arange(32_000)) * (np.arange(32_000) // 8_000 % 2)
        >>> round(estimate_snr(speech + 0.01 * rng.standard_normal(32_000)))
        37
    """
    frames = np.asarray(samples, np.float64)[: len(samples) // FRAME * FRAME].reshape(-1, FRAME)
    if not len(frames):
        return 0.0
    quiet, loud = np.percentile(np.maximum((frames**2).mean(axis=1), QUIETEST), [LOWEST, HIGHEST])
    return float(10 * np.log10(loud / quiet))
