"""Does sampling from a stream need constant memory? .venv/with-lhotse/bin/python benchmarks/lhotse_stream.py

Cuts with durations like the paper's set 1, generated on the fly; target 50 s; a buffer of 10,000 cuts for each sampler
that has one. Each row is a separate process. Memory is the peak of the process minus its memory before the first cut.
Times are CPU times. "One group" is the share of batches whose cuts all have one language. Needs lhotse, which has its
own environment (`make test-with-lhotse`).
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
import warnings
from collections.abc import Iterable, Iterator
from itertools import islice

import numpy as np
from corpora import BATCH_DURATION, SET_1
from lhotse import CutSet, MonoCut, SupervisionSegment
from lhotse.dataset import DynamicBucketingSampler, DynamicCutSampler, RoundRobinSampler
from measuring import ResultTable, peak_memory

from ctcdro.integrations.lhotse import LengthMatchedCutSampler, LengthMatchedStreamSampler

LANGUAGES = list(SET_1)


class Stream:
    """Cuts of some languages, the same in every iteration."""

    def __init__(self, num_cuts: int, languages: list[str] = LANGUAGES) -> None:
        self.num_cuts, self.languages = num_cuts, languages

    def __iter__(self) -> Iterator[MonoCut]:
        rng = np.random.default_rng(0)
        for start in range(0, self.num_cuts, 10_000):
            drawn = rng.standard_normal(min(10_000, self.num_cuts - start))
            for number, deviation in enumerate(drawn.tolist(), start):
                language = self.languages[number % len(self.languages)]
                mean, spread = SET_1[language]
                duration = min(max(mean + spread * deviation, 0.5), 20.0)
                name = f"{language}-{number}"
                spoken = SupervisionSegment(name, name, 0.0, duration, language=language)
                yield MonoCut(id=name, start=0.0, duration=duration, channel=0, supervisions=[spoken])


def one_at_a_time(num_cuts: int, buffer_size: int) -> Iterable[Iterable[MonoCut]]:
    return ([cut] for cut in Stream(num_cuts))


def streamed(num_cuts: int, buffer_size: int) -> LengthMatchedStreamSampler:
    return LengthMatchedStreamSampler(CutSet(Stream(num_cuts)), LANGUAGES, BATCH_DURATION, buffer_size)


def eager(num_cuts: int, buffer_size: int) -> LengthMatchedCutSampler:
    return LengthMatchedCutSampler(list(Stream(num_cuts)), BATCH_DURATION, exponent=1.0)


def bucketing(num_cuts: int, buffer_size: int) -> DynamicBucketingSampler:
    return DynamicBucketingSampler(
        CutSet(Stream(num_cuts)), max_duration=BATCH_DURATION, shuffle=True, num_buckets=30, buffer_size=buffer_size
    )


def round_robin(num_cuts: int, buffer_size: int) -> RoundRobinSampler:
    """One stream per language, an advantage over the other samplers."""
    share = -(-num_cuts // len(LANGUAGES))
    return RoundRobinSampler(
        *(
            DynamicCutSampler(
                CutSet(Stream(share, [language])),
                max_duration=BATCH_DURATION,
                shuffle=True,
                shuffle_buffer_size=-(-buffer_size // len(LANGUAGES)),
            )
            for language in LANGUAGES
        )
    )


SAMPLERS = {
    "reading alone": one_at_a_time,
    "LengthMatchedStreamSampler": streamed,
    "LengthMatchedCutSampler (eager)": eager,
    "lhotse's DynamicBucketingSampler": bucketing,
    "lhotse's RoundRobinSampler of DynamicCutSamplers": round_robin,
}


def measure(name: str, num_cuts: int, buffer_size: int) -> dict[str, float]:
    """Iterates over one epoch without keeping batches."""
    warnings.simplefilter("ignore")
    before, start = peak_memory(), time.process_time()
    num_batches = num_seen = num_within = num_single = 0
    totals = squares = padded = 0.0
    for batch in SAMPLERS[name](num_cuts, buffer_size):
        durations = [cut.duration for cut in batch]
        total = sum(durations)
        num_batches += 1
        num_seen += len(durations)
        num_within += abs(total - BATCH_DURATION) <= 0.02 * BATCH_DURATION
        num_single += len({cut.supervisions[0].language for cut in batch}) == 1
        totals += total
        squares += (total - BATCH_DURATION) ** 2
        padded += max(durations) * len(durations)
    seconds = time.process_time() - start
    return {
        "num_seen": num_seen,
        "memory": (peak_memory() - before) / 1e6,
        "speed": num_seen / seconds,
        "within": num_within / num_batches,
        "std": (squares / num_batches - (totals / num_batches - BATCH_DURATION) ** 2) ** 0.5,
        "padding": padded / totals,
        "single": num_single / num_batches,
    }


def measure_resuming(num_cuts: int, buffer_size: int) -> dict[str, float]:
    """Stops after two thirds of the batches, and resumes with a new sampler."""
    sampler = streamed(num_cuts, buffer_size)
    num_batches = sum(1 for _ in islice(sampler, int(2 / 3 * num_cuts / 6.6)))
    state = sampler.state_dict()
    num_read = state["read"][0]
    start = time.process_time()
    for _ in islice(Stream(num_cuts), num_read):
        pass
    reading = time.process_time() - start
    resumed = streamed(num_cuts, buffer_size)
    resumed.load_state_dict(state)
    start = time.process_time()
    next(iter(resumed))
    return {
        "num_batches": num_batches,
        "num_read": num_read,
        "resuming": time.process_time() - start,
        "reading": reading,
    }


def in_a_process(*arguments: object) -> dict[str, float]:
    command = [sys.executable, __file__, *map(str, arguments)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def main(sizes: tuple[int, ...] = (10_000, 100_000, 1_000_000), buffer_size: int = 10_000) -> dict[str, ResultTable]:
    table = ResultTable(
        "cuts",
        "sampler",
        "memory (MB)",
        "batches within 2% of the target",
        "standard deviation of totals (s)",
        "padded over real audio",
        "batches of one group",
        "cuts per second",
    )
    for size in sizes:
        for name in SAMPLERS:
            got = in_a_process("measure", name, size, buffer_size)
            quality = [""] * 4
            if name != "reading alone":
                quality = [f"{got['within']:.1%}", f"{got['std']:.2f}", f"{got['padding']:.2f}"]
                quality.append(f"{got['single']:.0%}")
            table.add(f"{size:,}", name, f"{got['memory']:.0f}", *quality, f"{got['speed']:,.0f}")
    got = in_a_process("resuming", sizes[-1], buffer_size)
    print(
        f"Resuming after {got['num_batches']:,} batches, when {got['num_read']:,} cuts had been read, took "
        f"{got['resuming'] / got['reading']:.2f} times as long as reading these cuts."
    )
    return {"lhotse-streams": table}


if __name__ == "__main__":
    if len(sys.argv) == 1:
        main()
    elif sys.argv[1] == "measure":
        print(json.dumps(measure(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))))
    else:
        print(json.dumps(measure_resuming(int(sys.argv[2]), int(sys.argv[3]))))
