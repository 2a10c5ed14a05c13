"""The mean of the channels of audio."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def mean_of_channels(samples: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """(frames,) or (frames, channels) samples -> (frames,)."""
    if samples.ndim == 1:
        return samples
    # Channel by channel: much faster than `mean(axis=1)` for a few channels.
    total = samples[:, 0].copy()
    with np.errstate(over="ignore", invalid="ignore"):  # checked by the caller
        for channel in range(1, samples.shape[1]):
            total += samples[:, channel]
    total /= samples.shape[1]
    return total
