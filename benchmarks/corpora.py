"""Durations like those of the paper's language set 1, for the sampler benchmarks."""

from __future__ import annotations

import numpy as np

from ctcdro.packing import Durations, Indices

BATCH_DURATION = 50.0

# Mean and standard deviation of the durations in seconds, from the paper's table of dataset statistics.
SET_1 = {
    "ces": (4.0, 1.7),
    "cmn": (10.4, 3.5),
    "nan": (2.6, 0.7),
    "pol": (7.5, 3.0),
    "ron": (12.6, 3.1),
    "spa": (8.1, 2.2),
}


def like_set_1(num_utterances: int, seed: int = 0) -> tuple[Durations, Indices]:
    """Durations and groups, equally many of each group, normally distributed within half a second and 20 seconds."""
    rng = np.random.default_rng(seed)
    groups = np.arange(num_utterances) % len(SET_1)
    means, spreads = np.array(list(SET_1.values())).T
    return rng.normal(means[groups], spreads[groups]).clip(0.5, 20.0), groups
