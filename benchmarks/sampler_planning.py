"""How long does planning an epoch take? .venv/bin/python benchmarks/sampler_planning.py

Making the sampler and planning its first epoch, beside first-fit decreasing of the same durations, which is run only on
the smallest corpus: it is quadratic, and ten times the utterances would take it the hundredfold time.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from corpora import BATCH_DURATION, like_set_1
from first_fit import first_fit_decreasing

from ctcdro import LengthMatchedBatchSampler


def seconds_of(function: Callable[[], object], repeats: int) -> float:
    """The least of several times: what the work takes when nothing disturbs it."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def main(sizes: tuple[int, ...] = (60_000, 600_000, 6_000_000)) -> str:
    lines = [
        "| utterances | first-fit decreasing | first epoch, sampler made | a later epoch | times as fast | "
        "growth for ten times the utterances |",
        "|---|---|---|---|---|---|",
    ]
    before = None
    for size in sizes:
        durations, groups = like_set_1(size)
        repeats = 5 if size < 1_000_000 else 2
        first = seconds_of(lambda: LengthMatchedBatchSampler(durations, groups, BATCH_DURATION).plan(0), repeats)  # noqa: B023
        sampler = LengthMatchedBatchSampler(durations, groups, BATCH_DURATION)
        later = seconds_of(lambda: sampler.plan(1), repeats)  # noqa: B023
        peer, faster = "", ""
        if size == sizes[0]:
            start = time.perf_counter()
            for group in range(groups.max() + 1):
                first_fit_decreasing(durations[groups == group], BATCH_DURATION)
            peer_seconds = time.perf_counter() - start
            peer, faster = f"{peer_seconds:.1f} s", f"{peer_seconds / first:.0f}"
        growth = "" if before is None else f"{first / before:.1f}"
        lines.append(f"| {size:,} | {peer} | {first:.2f} s | {later:.2f} s | {faster} | {growth} |")
        print(lines[-1], flush=True)
        before = first
    return "\n".join(lines)


if __name__ == "__main__":
    main()
