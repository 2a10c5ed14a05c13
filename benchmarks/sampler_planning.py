"""How long does planning an epoch take, and how much memory? .venv/bin/python benchmarks/sampler_planning.py

The creation of the sampler and the plan of its first epoch, in processor time, compared with first-fit decreasing on
the same durations. The latter is quadratic (ten times the utterances take a hundred times as long), so it runs on one
corpus only. A second table has very many small groups. Memory is that of the largest corpus: the peak of a separate
process that creates durations, groups and sampler and plans an epoch, minus the peak of one that only creates durations
and groups.
"""

from __future__ import annotations

import logging

import numpy as np
from corpora import BATCH_DURATION, like_set_1
from first_fit import first_fit_decreasing
from measuring import ResultTable, in_own_process, processor_seconds_of

from ctcdro import LengthMatchedBatchSampler
from ctcdro.sampling.batch_arrays import Durations, Indices

COMPARED = 60_000  # utterances that first-fit decreasing packs too
PER_SMALL_GROUP = 3


def make_and_plan(num_utterances: int) -> None:
    LengthMatchedBatchSampler(*like_set_1(num_utterances), BATCH_DURATION).plan(0)


def make_only(num_utterances: int) -> None:
    """Wraps `like_set_1`, so that both processes import the same modules."""
    like_set_1(num_utterances)


def times(durations: Durations, groups: Indices, exponent: float, repeats: int) -> tuple[float, float]:
    """Seconds for the sampler and its first epoch, and for a later epoch."""
    samplers: list[LengthMatchedBatchSampler] = []

    def make_and_plan_first() -> None:
        samplers[:] = [LengthMatchedBatchSampler(durations, groups, BATCH_DURATION, exponent=exponent)]
        samplers[0].plan(0)

    first = processor_seconds_of(make_and_plan_first, repeats)
    return first, processor_seconds_of(lambda: samplers[0].plan(1), repeats)


def pack_by_first_fit(durations: Durations, groups: Indices) -> None:
    for group in range(groups.max() + 1):
        first_fit_decreasing(durations[groups == group], BATCH_DURATION)


def by_size(sizes: tuple[int, ...]) -> ResultTable:
    table = ResultTable(
        "utterances",
        "first-fit decreasing (s)",
        "sampler and first epoch (s)",
        "later epoch (s)",
        "speed relative to first-fit decreasing",
        "growth for ten times the utterances",
        "memory (MB)",
        "bytes per utterance",
    )
    before = None
    for size in sizes:
        durations, groups = like_set_1(size)
        first, later = times(durations, groups, 0.0, repeats=5 if size < 1_000_000 else 2)
        peer = faster = memory = a_piece = ""
        if size == COMPARED:
            peer_seconds = processor_seconds_of(lambda: pack_by_first_fit(durations, groups), 2)  # noqa: B023
            peer, faster = f"{peer_seconds:.1f}", f"{peer_seconds / first:.0f}"
        growth = "" if before is None else f"{first / before:.1f}"
        if size == sizes[-1]:
            held = in_own_process(make_and_plan, size).memory - in_own_process(make_only, size).memory
            memory, a_piece = f"{held / 1e6:,.0f}", f"{held / size:.0f}"
        table.add(f"{size:,}", peer, f"{first:.3f}", f"{later:.3f}", faster, growth, memory, a_piece)
        before = first
    return table


def by_number_of_groups(numbers: tuple[int, ...]) -> ResultTable:
    table = ResultTable(
        "groups",
        "exponent",
        "sampler and first epoch (s)",
        "later epoch (s)",
        "growth for ten times the groups",
    )
    logging.disable(logging.WARNING)  # of groups with less audio than one batch
    for exponent in (0.0, 1.0):
        before = None
        for number in numbers:
            groups = np.repeat(np.arange(number), PER_SMALL_GROUP)
            durations = np.random.default_rng(0).uniform(2.0, 12.0, len(groups))
            first, later = times(durations, groups, exponent, repeats=3 if number <= 1000 else 1)
            growth = "" if before is None else f"{first / before:.1f}"
            table.add(f"{number:,}", f"{exponent:g}", f"{first:.2f}", f"{later:.2f}", growth)
            before = first
    logging.disable(logging.NOTSET)
    return table


def main(
    sizes: tuple[int, ...] = (600, 6_000, 60_000, 600_000, 6_000_000),
    numbers: tuple[int, ...] = (100, 1000, 10_000, 100_000),
) -> dict[str, ResultTable]:
    return {"sampler-planning": by_size(sizes), "sampler-groups": by_number_of_groups(numbers)}


if __name__ == "__main__":
    main()
