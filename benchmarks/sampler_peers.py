"""How do other toolkits' samplers compare? .venv/with-samplers/bin/python benchmarks/sampler_peers.py

The same shuffled utterances, like the paper's set 1, for all; target 50 s. The time includes the creation of a sampler
and one iteration over its first epoch; cuts and datasets exist before. Contenders take turns. Ratios compare utterances
per second (ours over the other): medians of all rounds, with a 95% bootstrap interval. Ours is
`LengthMatchedBatchSampler` for batches of numbers, and `LengthMatchedCutSampler` for lhotse's CutSets, each with
`exponent=1`, so that every utterance occurs once, as with the others. The others have different goals: in lhotse and
SpeechBrain the target limits a batch including its padding, and only the row with one sampler per language uses groups.
Needs lhotse and SpeechBrain, which have their own environment (`make bench-samplers`).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from corpora import BATCH_DURATION, SET_1, like_set_1
from lhotse import CutSet, MonoCut, SupervisionSegment
from lhotse.dataset import DynamicBucketingSampler, RoundRobinSampler, SimpleCutSampler
from measuring import ResultTable, seconds_in_turns, shown
from speechbrain.dataio.dataset import DynamicItemDataset
from speechbrain.dataio.sampler import DynamicBatchSampler

from ctcdro import LengthMatchedBatchSampler
from ctcdro.integrations.lhotse import LengthMatchedCutSampler
from ctcdro.sampling.batch_arrays import Durations, Indices, Matching, PackedBatches

LANGUAGES = list(SET_1)
NUM_BUCKETS = 30


class Corpus(NamedTuple):
    """The same utterances, in the format of each sampler."""

    durations: Durations
    groups: Indices
    cuts: CutSet
    cuts_of: list[CutSet]
    """One per group."""
    dataset: DynamicItemDataset


def make_corpus(num_utterances: int) -> Corpus:
    durations, groups = like_set_1(num_utterances)
    cuts = []
    for number, (duration, group) in enumerate(zip(durations.tolist(), groups.tolist(), strict=True)):
        spoken = SupervisionSegment(str(number), str(number), 0.0, duration, language=LANGUAGES[group])
        cuts.append(MonoCut(id=str(number), start=0.0, duration=duration, channel=0, supervisions=[spoken]))
    of_group = [[cuts[number] for number in np.flatnonzero(groups == group)] for group in range(len(LANGUAGES))]
    annotation = {str(number): {"duration": duration} for number, duration in enumerate(durations.tolist())}
    return Corpus(
        durations,
        groups,
        CutSet.from_cuts(cuts),
        [CutSet.from_cuts(own) for own in of_group],
        DynamicItemDataset(annotation),
    )


# The contenders. Each creates a sampler, and returns the batches of its first epoch.


def ours(corpus: Corpus) -> Iterable[list[int]]:
    return LengthMatchedBatchSampler(corpus.durations, corpus.groups, BATCH_DURATION, exponent=1.0)


def ours_of_cuts(corpus: Corpus) -> Iterable[CutSet]:
    return LengthMatchedCutSampler(corpus.cuts, BATCH_DURATION, exponent=1.0)


def lhotse_bucketing(corpus: Corpus) -> Iterable[CutSet]:
    return _bucketing(corpus.cuts)


def lhotse_simple(corpus: Corpus) -> Iterable[CutSet]:
    return SimpleCutSampler(corpus.cuts, max_duration=BATCH_DURATION, shuffle=True)


def lhotse_by_language(corpus: Corpus) -> Iterable[CutSet]:
    return RoundRobinSampler(*(_bucketing(cuts) for cuts in corpus.cuts_of))


def _bucketing(cuts: CutSet) -> DynamicBucketingSampler:
    return DynamicBucketingSampler(cuts, max_duration=BATCH_DURATION, num_buckets=NUM_BUCKETS, shuffle=True)


def speechbrain_dynamic(corpus: Corpus) -> Iterable[list[int]]:
    sampler = DynamicBatchSampler(
        corpus.dataset, BATCH_DURATION, num_buckets=NUM_BUCKETS, length_func=lambda example: example["duration"]
    )
    return islice(sampler, len(sampler))  # one more batch would pack the next epoch


class Contender(NamedTuple):
    batches: Callable[[Corpus], Iterable[Any]]
    compared_with: int
    """Position of our sampler that returns batches of the same kind."""


CONTENDERS = {
    "`LengthMatchedBatchSampler`": Contender(ours, 0),
    "`LengthMatchedCutSampler`": Contender(ours_of_cuts, 1),
    "lhotse's `DynamicBucketingSampler`": Contender(lhotse_bucketing, 1),
    "lhotse's `SimpleCutSampler`": Contender(lhotse_simple, 1),
    "lhotse's `RoundRobinSampler` of a `DynamicBucketingSampler` for each language": Contender(lhotse_by_language, 1),
    "SpeechBrain's `DynamicBatchSampler`": Contender(speechbrain_dynamic, 0),
}


def walk(contender: Contender, corpus: Corpus) -> None:
    for _ in contender.batches(corpus):
        pass


def packed(contender: Contender, corpus: Corpus) -> PackedBatches:
    """The first epoch as utterance numbers, each of which occurs once."""
    batches = [
        [int(cut.id) for cut in batch] if isinstance(batch, CutSet) else batch for batch in contender.batches(corpus)
    ]
    indices = np.concatenate(batches)
    assert np.array_equal(np.sort(indices), np.arange(len(corpus.durations)))
    return PackedBatches(indices, np.cumsum([0, *map(len, batches)]))


def share_of_one_group(batches: PackedBatches, groups: Indices) -> float:
    own = groups[batches.indices]
    starts = batches.offsets[:-1]
    return float(np.mean(np.minimum.reduceat(own, starts) == np.maximum.reduceat(own, starts)))


def main(sizes: tuple[int, ...] = (3_600, 60_000), num_rounds: int = 7) -> dict[str, ResultTable]:
    warnings.filterwarnings("ignore", message="You are using DynamicBucketingSampler with an eagerly read CutSet")
    table = ResultTable(
        "utterances",
        "sampler",
        "utterances per second",
        "speed of ours relative to it",
        "batches within 2% of the target",
        "standard deviation of totals (s)",
        "padded over real audio",
        "batches of one group",
    )
    for size in sizes:
        corpus = make_corpus(size)
        seconds = seconds_in_turns([partial(walk, one, corpus) for one in CONTENDERS.values()], num_rounds)
        for number, (name, contender) in enumerate(CONTENDERS.items()):
            batches = packed(contender, corpus)
            matching = Matching.of(batches, corpus.durations, BATCH_DURATION)
            is_ours = number == contender.compared_with
            over = "" if is_ours else shown(seconds[:, number] / seconds[:, contender.compared_with])
            table.add(
                f"{size:,}",
                name,
                f"{size / np.median(seconds[:, number]):,.0f}",
                over,
                f"{matching.share_within:.1%}",
                f"{matching.total_std:.2f}",
                f"{matching.padding:.3f}",
                f"{share_of_one_group(batches, corpus.groups):.0%}",
            )
    return {"sampler-peers": table}


if __name__ == "__main__":
    main()
