"""How long does planning an epoch take, and how much memory? .venv/bin/python benchmarks/sampler_planning.py

The creation of the sampler and the plan of its first epoch, compared with first-fit decreasing on the same durations.
The latter is quadratic (ten times the utterances take a hundred times as long), so it runs only on the smallest corpus.
Memory is that of the largest corpus: the peak of a separate process that creates durations, groups and sampler and
plans an epoch, minus the peak of one that only creates durations and groups.
"""

from __future__ import annotations

import time

from corpora import BATCH_DURATION, like_set_1
from first_fit import first_fit_decreasing
from measuring import ResultTable, in_own_process, seconds_of

from ctcdro import LengthMatchedBatchSampler


def make_and_plan(num_utterances: int) -> None:
    LengthMatchedBatchSampler(*like_set_1(num_utterances), BATCH_DURATION).plan(0)


def make_only(num_utterances: int) -> None:
    """Wraps `like_set_1`, so that both processes import the same modules."""
    like_set_1(num_utterances)


def main(sizes: tuple[int, ...] = (60_000, 600_000, 6_000_000)) -> dict[str, ResultTable]:
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
        repeats = 5 if size < 1_000_000 else 2
        first = seconds_of(lambda: LengthMatchedBatchSampler(durations, groups, BATCH_DURATION).plan(0), repeats)  # noqa: B023
        sampler = LengthMatchedBatchSampler(durations, groups, BATCH_DURATION)
        later = seconds_of(lambda: sampler.plan(1), repeats)  # noqa: B023
        peer = faster = memory = a_piece = ""
        if size == sizes[0]:
            start = time.perf_counter()
            for group in range(groups.max() + 1):
                first_fit_decreasing(durations[groups == group], BATCH_DURATION)
            peer_seconds = time.perf_counter() - start
            peer, faster = f"{peer_seconds:.1f}", f"{peer_seconds / first:.0f}"
        growth = "" if before is None else f"{first / before:.1f}"
        if size == sizes[-1]:
            held = in_own_process(make_and_plan, size).memory - in_own_process(make_only, size).memory
            memory, a_piece = f"{held / 1e6:,.0f}", f"{held / size:.0f}"
        table.add(f"{size:,}", peer, f"{first:.2f}", f"{later:.2f}", faster, growth, memory, a_piece)
        before = first
    return {"sampler-planning": table}


if __name__ == "__main__":
    main()
