"""How long utterances are, group by group, as plain numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Lengths:
    """A histogram of lengths for each group, the shortest mean first."""

    edges: Floats
    heights: dict[str, Floats]
    """From 0 to 1: counts over the highest; what there is at all is high enough to be seen."""
    means: dict[str, float]


def length_histograms(durations: Mapping[str, Sequence[float] | Floats], num_bins: int = 50) -> Lengths:
    """Histograms of lengths on one axis.

    Raises:
        ValueError: if there is no group, or one without utterances.

    Example:
        >>> found = length_histograms({"long": [9.0, 10.0], "short": [1.0]}, num_bins=2)
        >>> found.means, [round(height, 2) for height in found.heights["short"].tolist()]
        ({'short': 1.0, 'long': 9.5}, [1.0, 0.0])
    """
    if not durations or not all(len(seconds) for seconds in durations.values()):
        raise ValueError("`durations` must have a group, and each group an utterance.")
    longest = max(float(np.max(seconds)) for seconds in durations.values()) * 1.001
    edges = np.linspace(0.0, longest, num_bins + 1)
    heights = {}
    for name in sorted(durations, key=lambda one: float(np.mean(durations[one]))):
        counts, _ = np.histogram(np.asarray(durations[name], dtype=np.float64), edges)
        # A single long utterance among thousands is still to be seen.
        heights[name] = np.where(counts > 0, np.maximum(counts / counts.max(), 0.07), 0.0)
    return Lengths(edges, heights, {name: float(np.mean(durations[name])) for name in heights})
