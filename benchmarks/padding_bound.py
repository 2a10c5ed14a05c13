"""How much padding do length-matched batches need at least? .venv/bin/python benchmarks/padding_bound.py

The least padding of batches of one group whose totals are all within a tolerance of the target. It is a linear program:
how many batches of each composition, so that every utterance is in one, with as little padded audio as possible. There
are too many compositions to list, so they are generated: the dual prices of the lengths say which composition would
save most, and a knapsack recursion finds it. At the end, none is left that would save anything. Fractions of batches
are allowed, so no packing of the same lengths, rounded to 0.1 s, needs less padding.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from corpora import BATCH_DURATION, like_set_1
from measuring import ResultTable
from sampler_matching import by_first_fit
from scipy.optimize import linprog
from scipy.sparse import csc_array, hstack, identity

from ctcdro import LengthMatchedBatchSampler
from ctcdro.sampling.batch_arrays import Durations, Indices, Matching, PackedBatches
from ctcdro.sampling.packing import bands_or_best_fit

STEP = 0.1  # resolution of lengths in seconds
PENALTY = 20.0  # cost of a second outside any batch: more than the padding of any batch
NEGLIGIBLE = 1e-6

Counts = npt.NDArray[np.int64]


def least_padded(durations: Durations, batch_duration: float, tolerance: float) -> float:
    """The least seconds including padding, over all packings with totals within the relative tolerance."""
    lengths, num_of = np.unique(np.rint(durations / STEP).astype(int), return_counts=True)
    target = batch_duration / STEP
    totals = range(int(np.ceil((1 - tolerance) * target - 1e-9)), int((1 + tolerance) * target + 1e-9) + 1)
    compositions = identity(len(lengths), format="csc")  # one utterance outside any batch
    costs = PENALTY * lengths.astype(float)
    while True:
        solution = linprog(costs, A_eq=compositions, b_eq=num_of, method="highs")
        prices = solution.eqlin.marginals
        better = better_compositions(lengths, prices, totals)
        if not len(better):
            break
        longest = lengths[(better > 0).cumsum(axis=1).argmax(axis=1)]
        compositions = hstack([compositions, csc_array(better.T)], format="csc")
        costs = np.append(costs, longest * better.sum(axis=1))
    num_outside = solution.x[: len(lengths)].sum()
    if num_outside > NEGLIGIBLE:
        raise ValueError(f"{num_outside:g} utterances fit no batch within {tolerance:.1%} of {batch_duration:g} s.")
    return float(solution.fun * STEP)


def better_compositions(lengths: Counts, prices: npt.NDArray[np.float64], totals: range) -> Counts:
    """(compositions, lengths) the best batch for each longest length, if its prices exceed its padded seconds."""
    num = len(lengths)
    # What an utterance adds to a batch whose longest has length number `row`.
    gains = np.where(np.tri(num, dtype=bool), prices[None] - lengths[:, None], -np.inf)
    best = np.full((num, totals.stop), -np.inf)
    best[:, 0] = 0.0
    last = np.zeros((num, totals.stop), dtype=int)
    for total in range(lengths[0], totals.stop):
        fitting = int(np.searchsorted(lengths, total, side="right"))
        candidates = best[:, total - lengths[:fitting]] + gains[:, :fitting]
        last[:, total] = candidates.argmax(axis=1)
        best[:, total] = candidates[np.arange(num), last[:, total]]
    reached = best[:, totals.start :]
    rows = np.flatnonzero(reached.max(axis=1) > NEGLIGIBLE)
    found = np.zeros((len(rows), num), dtype=int)
    for composition, row in zip(found, rows, strict=True):
        total = totals.start + int(reached[row].argmax())
        while total:
            composition[last[row, total]] += 1
            total -= lengths[last[row, total]]
    return found


def corpora(num_utterances: int) -> dict[str, tuple[Durations, Indices]]:
    rng = np.random.default_rng(0)
    one_group = np.zeros(num_utterances, dtype=np.int64)
    alike, varied = rng.normal(14.5, 1, num_utterances), rng.uniform(2, 16, num_utterances)
    return {
        "like the paper's set 1": like_set_1(6 * num_utterances),
        "uniform from 1 to 20 s": (rng.uniform(1, 20, num_utterances), one_group),
        "log-normal, up to 40 s": (rng.lognormal(1.6, 0.8, num_utterances).clip(0.5, 40.0), one_group),
        "60% near 14.5 s, others 2 to 16 s": (
            np.where(rng.random(num_utterances) < 0.6, alike, varied),
            one_group,
        ),
    }


def by_bands(durations: Durations, groups: Indices) -> PackedBatches:
    """Every group by bands or best fit, which pack small groups."""
    parts = []
    for group in range(groups.max() + 1):
        members = np.flatnonzero(groups == group)
        members = members[np.argsort(-durations[members], kind="stable")]
        longest_first = durations[members]
        packed = bands_or_best_fit(longest_first, BATCH_DURATION).pack(longest_first, np.random.default_rng(0))
        parts.append(PackedBatches(members[packed.indices], packed.offsets))
    return PackedBatches.join(parts)


def main(num_utterances: int = 3333) -> dict[str, ResultTable]:
    table = ResultTable(
        "durations",
        "bound, totals within 2%",
        "bound, totals within 0.5%",
        "packing",
        "padded over real audio",
        "batches within 2% of the target",
        "standard deviation of totals (s)",
    )
    for name, (durations, groups) in corpora(num_utterances).items():
        bounds = []
        for tolerance in (0.02, 0.005):
            members = [durations[groups == group] for group in range(groups.max() + 1)]
            padded = sum(least_padded(each, BATCH_DURATION, tolerance) for each in members)
            bounds.append(f"{padded / durations.sum():.3f}")
        packings = {
            "`LengthMatchedBatchSampler`": LengthMatchedBatchSampler(durations, groups, BATCH_DURATION, 1.0).plan(0),
            "bands": by_bands(durations, groups),
            "first-fit decreasing": by_first_fit(durations, groups),
        }
        for packing, batches in packings.items():
            matching = Matching.of(batches, durations, BATCH_DURATION)
            table.add(
                name,
                *bounds,
                packing,
                f"{matching.padding:.3f}",
                f"{matching.share_within:.1%}",
                f"{matching.total_std:.2f}",
            )
    return {"padding-bound": table}


if __name__ == "__main__":
    main()
