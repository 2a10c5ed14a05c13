"""The training data of ESPnet: durations, groups, and batches of utterance ids."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt
from espnet2.fileio.read_text import load_num_sequence_text, read_2columns_text
from espnet2.samplers.abs_sampler import AbsSampler

from ...sampling.adaptive import AdaptiveBatchSampler
from ...sampling.samplers import LengthMatchedBatchSampler
from ...speech.manifest import Groups


@dataclass(frozen=True)
class Corpus:
    ids: list[str]
    durations: npt.NDArray[np.float64]
    groups: Groups


def read_corpus(shape_file: str | Path, utt2category: str | Path, rate: float) -> Corpus:
    """Reads the utterances of an ESPnet data folder, for the samplers.

    Args:
        shape_file: length of each utterance, one line such as "utterance 45120" or "utterance 282,80" per utterance.
        utt2category: group of each utterance, one line "utterance group" per utterance.
        rate: length units per second: the sampling rate, or frames per second.
    """
    lengths = load_num_sequence_text(shape_file, loader_type="csv_int")
    durations = np.array([length[0] for length in lengths.values()]) / rate
    names, numbers = np.unique(Categories(utt2category).of(lengths), return_inverse=True)
    return Corpus(list(lengths), durations, Groups(names.tolist(), numbers))


@dataclass(frozen=True)
class Categories:
    """The group of each utterance, from an utt2category file that is read when first needed."""

    path: str | Path

    @cached_property
    def _group_of(self) -> dict[str, str]:
        if not Path(self.path).is_file():
            raise ValueError(
                f"{self.path}: no such file; expected one line 'utterance group' per training utterance. Write it, or "
                "set `utt2category` to another file."
            )
        return read_2columns_text(self.path)

    def of(self, ids: Iterable[str]) -> list[str]:
        groups = []
        for id in ids:
            group = self._group_of.get(id)
            if not group or len(group.split()) > 1:
                found = "no line" if group is None else repr(group)
                raise ValueError(f"{self.path}: expected the group of utterance {id!r}, one word; found {found}.")
            groups.append(group)
        return groups


@dataclass(eq=False)
class KeySampler(AbsSampler):
    """Wraps a ctcdro sampler for ESPnet: `generate` returns the batches of utterance ids of an epoch.

    ESPnet calls it at the start of each epoch, so adaptive shares change once per epoch, and are a function of the
    checkpoint from which a run resumes.
    """

    ids: Sequence[str]
    sampler: LengthMatchedBatchSampler
    longest_first: bool  # within a batch; some of ESPnet's encoders require it

    def __len__(self) -> int:
        return len(self.sampler)

    def __iter__(self) -> Iterator[tuple[str, ...]]:
        return iter(self.generate(self.sampler.seed))

    def generate(self, seed: int) -> list[tuple[str, ...]]:
        epoch = seed - self.sampler.seed  # ESPnet requests epoch n with its seed + n
        if isinstance(self.sampler, AdaptiveBatchSampler):
            self.sampler.start_at(epoch)  # ESPnet's checkpoints have no state of the sampler
        else:
            self.sampler.set_epoch(epoch)
        duration = self.sampler.durations.__getitem__
        return [
            tuple(self.ids[number] for number in sorted(batch, key=duration, reverse=self.longest_first))
            for batch in self.sampler
        ]
