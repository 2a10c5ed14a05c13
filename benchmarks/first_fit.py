"""First-fit decreasing, the packing of the authors' sampler, reimplemented for the sampler benchmarks.

Utterances, longest first, are put into the first batch that has room. A batch never exceeds the target.
"""

from __future__ import annotations

import numpy as np

from ctcdro.sampling.batch_arrays import Durations, PackedBatches


def first_fit_decreasing(durations: Durations, batch_duration: float) -> PackedBatches:
    batches: list[list[int]] = []
    totals: list[float] = []
    for number in np.argsort(-durations, kind="stable").tolist():
        duration = float(durations[number])
        for place, total in enumerate(totals):
            if total + duration <= batch_duration:
                batches[place].append(number)
                totals[place] += duration
                break
        else:
            batches.append([number])
            totals.append(duration)
    sizes = [len(batch) for batch in batches]
    return PackedBatches(
        np.concatenate([np.array(batch) for batch in batches]), np.concatenate([[0], np.cumsum(sizes)])
    )
