"""How close are batches to the target, and do they repeat? .venv/bin/python benchmarks/sampler_matching.py

Utterances like the paper's set 1, target 50 s, compared with first-fit decreasing: from 10,000 to 30 per language. The
paper's sets have about 600.
"""

from __future__ import annotations

import numpy as np
from corpora import BATCH_DURATION, like_set_1
from first_fit import first_fit_decreasing
from measuring import ResultTable

from ctcdro import LengthMatchedBatchSampler
from ctcdro.sampling.batch_arrays import Durations, Indices, Matching, PackedBatches


def by_first_fit(durations: Durations, groups: Indices) -> PackedBatches:
    parts = []
    for group in range(groups.max() + 1):
        members = np.flatnonzero(groups == group)
        packed = first_fit_decreasing(durations[members], BATCH_DURATION)
        parts.append(PackedBatches(members[packed.indices], packed.offsets))
    return PackedBatches.join(parts)


def share_repeated(earlier: PackedBatches, later: PackedBatches) -> float:
    """Share of the batches that occur again, with the same utterances."""
    known = {frozenset(batch) for batch in earlier}
    return sum(frozenset(batch) in known for batch in later) / len(later)


def main(sizes: tuple[int, ...] = (60_000, 20_000, 3_600, 180)) -> dict[str, ResultTable]:
    table = ResultTable(
        "utterances",
        "sampler",
        "batches within 2% of the target",
        "standard deviation of totals (s)",
        "padded over real audio",
        "batches repeated in the next epoch",
    )
    for size in sizes:
        durations, groups = like_set_1(size)
        plans = {"first-fit decreasing": (by_first_fit(durations, groups),) * 2}
        for exponent in (0.0, 1.0):
            sampler = LengthMatchedBatchSampler(durations, groups, BATCH_DURATION, exponent=exponent)
            plans[f"length-matched, exponent {exponent:g}"] = (sampler.plan(0), sampler.plan(1))
        for name, (now, later) in plans.items():
            matching = Matching.of(now, durations, BATCH_DURATION)
            table.add(
                f"{size:,}",
                name,
                f"{matching.share_within:.1%}",
                f"{matching.total_std:.2f}",
                f"{matching.padding:.3f}",
                f"{share_repeated(now, later):.1%}",
            )
    return {"sampler-matching": table}


if __name__ == "__main__":
    main()
