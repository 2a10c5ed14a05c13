"""Helpers of the benchmarks: alternating measurements, separate processes, and ratios with intervals."""

from __future__ import annotations

import multiprocessing
import resource
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt


class ResultTable:
    """Results of a benchmark: printed as Markdown while they are measured; run.py stores them in docs/results.json."""

    def __init__(self, *columns: str) -> None:
        self.columns = columns
        self.rows: list[tuple[str, ...]] = []
        print(_markdown_row(columns), _markdown_row(["---"] * len(columns)), sep="\n", flush=True)

    def add(self, *cells: str) -> None:
        self.rows.append(cells)
        print(_markdown_row(cells), flush=True)


def _markdown_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def shown(ratios: npt.NDArray[np.float64], digits: int = 2) -> str:
    """The median, with a 95% bootstrap interval."""
    resampled = np.random.default_rng(0).choice(ratios, (2000, len(ratios)))
    low, high = np.quantile(np.median(resampled, axis=1), [0.025, 0.975])
    return f"{np.median(ratios):.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def seconds_of(function: Callable[[], object], repeats: int) -> float:
    """The minimum of several times, which is the least affected by other processes."""
    return float(seconds_in_turns([function], repeats, num_warm_up=0).min())


def processor_seconds_of(function: Callable[[], object], repeats: int) -> float:
    """The minimum of several processor times, for work in one thread on a machine that is also used by others."""
    seconds = []
    for _ in range(repeats):
        start = time.process_time()
        function()
        seconds.append(time.process_time() - start)
    return min(seconds)


def seconds_in_turns(
    functions: Sequence[Callable[[], object]],
    num_rounds: int,
    num_warm_up: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> npt.NDArray[np.float64]:
    """(rounds, functions) seconds; every round calls each function once, in random order.

    Args:
        clock: `time.process_time` counts the seconds of all threads, which other processes affect less.
    """
    seconds = np.zeros((num_rounds, len(functions)))
    for number in range(-num_warm_up, num_rounds):
        for which in np.random.default_rng(number + num_warm_up).permutation(len(functions)):
            start = clock()
            functions[which]()
            seconds[max(number, 0), which] = clock() - start
    return seconds


def peak_memory() -> int:
    """Peak memory of this process, in bytes."""
    # On Linux, `ru_maxrss` may be that of the parent process.
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    known = [1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM:")]
    return known[0] if known else 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


class Taken(NamedTuple):
    """Time and memory of a call in a separate process."""

    seconds: float
    """Excludes the start of the process."""
    memory: int
    """Peak memory in bytes, including the interpreter and all imports."""


def in_own_process(function: Callable[..., object], *arguments: Any) -> Taken:
    """Calls a function of a module in a separate process."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_call, args=(there, function, *arguments))
    process.start()
    there.close()
    try:
        return here.recv()
    finally:
        process.join()


def _call(link: Connection, function: Callable[..., object], *arguments: Any) -> None:
    start = time.perf_counter()
    function(*arguments)
    link.send(Taken(time.perf_counter() - start, peak_memory()))
