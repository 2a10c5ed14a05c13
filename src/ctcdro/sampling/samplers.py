"""Batch samplers: the composition and order of batches.

`base` describes the guarantees of all samplers. A sampler already returns the batches of its rank: make sure that your
toolkit does not shard it again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ..runtime.arguments import is_number, is_whole_number
from .base import PlannedBatchSampler
from .batch_arrays import Durations, Indices, Matching, PackedBatches, Seconds, running_total
from .misfits import warn_of_long_utterances, warn_of_small_groups
from .packing import Packer

Numbers: TypeAlias = npt.ArrayLike | Sequence[float]

# The audio of a small group may not divide into batches: 1.4 batches of audio make one that is too long or two that are
# too short. If totals would be off by more than this fraction, and utterances may repeat, several copies are packed.
TOLERANCE = 0.05
MAX_COPIES = 50

MAX_REPEATS = 1000  # more repetitions of a group in one batch indicate a mistake, most likely in the units


class LengthMatchedBatchSampler(PlannedBatchSampler):
    """Batches of one group each, with total durations close to `batch_duration` (section 3.1 of the paper).

    Each group has an endless stream of passes over its utterances, packed differently in every pass. An epoch is the
    next part of all streams. The batches of a group are evenly spaced: with `exponent=0`, groups take turns, in a
    random order that is the same for all rounds of an epoch, and CTC-DRO can update its weights every round. The
    authors' sampler packs once for all epochs, by first-fit decreasing, and does not order groups.

    An epoch has as many batches as one pass over all audio needs, rounded to equal shares. An utterance longer than
    `batch_duration` forms its own batch. A group with less audio than one batch is repeated, or stays short with
    `exponent=1`. Both are logged as warnings.

    Args:
        durations: (n,) seconds per utterance.
        groups: (n,) group number of each utterance, from 0 to `num_groups` - 1, without gaps; or (n, G) rows of shares.
            An utterance is in the batches of the group with its largest share.
        batch_duration: seconds of speech per batch, summed over its utterances.
        exponent: sampling exponent. 0 gives every group the same share of the batches. 1 gives shares in proportion to
            the audio, and every utterance occurs exactly once per epoch. Values in between are temperature sampling.
        rank, world_size: by default those of `torch.distributed`.
        group_names: group names, ordered by group number, for warnings and errors.
        where: index of an utterance -> its name in a warning, such as `Manifest.where`; by default its number.

    Example:
        >>> sampler = LengthMatchedBatchSampler([4, 6, 5, 5, 2, 3, 3, 2], [0, 0, 0, 0, 1, 1, 1, 1], batch_duration=10)
        >>> [sorted(batch) for batch in sampler]  # group 1 fills only one batch, which occurs twice
        [[4, 5, 6, 7], [0, 1], [4, 5, 6, 7], [2, 3]]
    """

    def __init__(
        self,
        durations: Numbers,
        groups: Numbers,
        batch_duration: Seconds = 50.0,
        exponent: float = 0.0,
        seed: int = 0,
        rank: int | None = None,
        world_size: int | None = None,
        group_names: Sequence[str] | None = None,
        where: Callable[[int], str] | None = None,
    ) -> None:
        self.durations = _check_durations(durations)
        self.groups = _check_groups(groups, len(self.durations))
        self.group_names = check_group_names(group_names, int(self.groups.max()) + 1)
        options = check_matching_options(batch_duration, exponent) | {"seed": seed}
        super().__init__((self.durations, self.groups), options, rank, world_size)
        self.batch_duration = float(batch_duration)
        warn_of_long_utterances(self.durations, self.batch_duration, where)
        self._set_up_groups(exponent)

    def _set_up_groups(self, exponent: float) -> None:
        # numpy sorts small types by radix.
        by_group = np.argsort(self.groups.astype(np.min_scalar_type(self.groups.max())), kind="stable")
        members = np.split(by_group, np.cumsum(np.bincount(self.groups))[:-1])
        audio = np.array([self.durations[indices].sum() for indices in members])
        if exponent < 1 and audio.min() * MAX_REPEATS < self.batch_duration:
            raise ValueError(
                f"`groups`: {self._name(int(audio.argmin()))} has only {audio.min():g} s of audio, and would be "
                f"repeated over {MAX_REPEATS:,} times in a batch of {self.batch_duration:g} s. Remove the group, or "
                "lower `batch_duration`."
            )
        copies = [1 if exponent == 1 else num_copies(seconds, self.batch_duration) for seconds in audio]
        self._members = [np.tile(indices, num) for indices, num in zip(members, copies, strict=True)]
        self._packers = [Packer(self.durations[indices], self.batch_duration) for indices in self._members]
        self._batches_per_pass = np.array([packer.num_batches for packer in self._packers]) / copies
        self._num_batches_of = batches_of_epoch(self._batches_per_pass, exponent)
        self._set_aside_constant_batches()
        too_small = np.flatnonzero(audio < (1 - TOLERANCE) * self.batch_duration)
        warn_of_small_groups(too_small, audio, self.batch_duration, exponent, self._name)

    def _set_aside_constant_batches(self) -> None:
        """A group that fills one batch has the same in every pass; there may be very many such groups."""
        is_constant = np.array([packer.only_batch is not None for packer in self._packers])
        self._constant, self._varied = np.flatnonzero(is_constant), np.flatnonzero(~is_constant)
        batches = [self._members[group][self._packers[group].only_batch] for group in self._constant.tolist()]
        offsets = running_total([len(batch) for batch in batches]).astype(np.int64)
        self._constant_batches = PackedBatches(np.concatenate([self._members[0][:0], *batches]), offsets)

    @property
    def num_groups(self) -> int:
        return len(self._packers)

    @property
    def num_batches(self) -> int:
        return int(self._num_batches_of.sum())

    def plan(self, epoch: int) -> PackedBatches:
        streams = [
            self._constant_batches.take(np.repeat(np.arange(len(self._constant)), self._num_batches_of[self._constant]))
        ]
        for group in self._varied.tolist():
            num_batches = int(self._num_batches_of[group])
            streams.append(self._stretch(group, epoch * num_batches, (epoch + 1) * num_batches))
        groups = np.concatenate([self._constant, self._varied])
        by_group = np.argsort(np.repeat(groups, self._num_batches_of[groups]), kind="stable")
        in_turn = order(self._num_batches_of, np.random.default_rng([self.seed, epoch]))
        return PackedBatches.join(streams).take(by_group[in_turn])

    def report(self, epoch: int = 0) -> Matching:
        """How close the batches of an epoch are to `batch_duration`, and how much padding they need."""
        return Matching.of(self.plan(epoch), self.durations, self.batch_duration)

    def _stretch(self, group: int, start: int, stop: int) -> PackedBatches:
        """Batches number `start` to `stop` of the endless stream of a group."""
        packer, members = self._packers[group], self._members[group]
        passes = range(start // packer.num_batches, -(-stop // packer.num_batches))
        packed = PackedBatches.join([self._pass(group, number) for number in passes])
        wanted = packed.take(np.arange(start, stop) - passes.start * packer.num_batches)
        return PackedBatches(members[wanted.indices], wanted.offsets)

    def _pass(self, group: int, number: int) -> PackedBatches:
        """A pass over all utterances of a group."""
        return self._packers[group].pack(np.random.default_rng([self.seed, group, number, 1]))

    def _name(self, group: int) -> str:
        return f"group {group}" if self.group_names is None else self.group_names[group]


class FixedSizeBatchSampler(PlannedBatchSampler):
    """Batches of `batch_size` utterances; the last one may have fewer."""

    def __init__(
        self, data: Durations | Indices, batch_size: int, seed: int, rank: int | None, world_size: int | None
    ) -> None:
        if not is_whole_number(batch_size) or batch_size < 1:
            raise ValueError(f"`batch_size` must be a positive integer; got {batch_size!r}.")
        self.batch_size = int(batch_size)
        super().__init__((data,), {"batch_size": self.batch_size, "seed": seed}, rank, world_size)

    @property
    def num_batches(self) -> int:
        return -(-len(self._data[0]) // self.batch_size)

    def _cut(self, indices: Indices) -> PackedBatches:
        return PackedBatches(indices, np.append(np.arange(0, len(indices), self.batch_size), len(indices)))


class SimilarLengthBatchSampler(FixedSizeBatchSampler):
    """Batches of `batch_size` utterances of similar length, from any group; every utterance once per epoch.

    The authors' group DRO runs use such batches, of 4 utterances. This sampler also adds a few percent of noise to the
    lengths, so that batches differ between epochs.
    """

    def __init__(
        self, durations: Numbers, batch_size: int, seed: int = 0, rank: int | None = None, world_size: int | None = None
    ) -> None:
        self.durations = _check_durations(durations)
        super().__init__(self.durations, batch_size, seed, rank, world_size)

    def plan(self, epoch: int) -> PackedBatches:
        rng = np.random.default_rng([self.seed, epoch])
        blurred = self.durations * rng.uniform(0.97, 1.03, len(self.durations))
        batches = self._cut(np.argsort(blurred))
        return batches.take(rng.permutation(len(batches)))


class GroupUniformBatchSampler(FixedSizeBatchSampler):
    """Batches of `batch_size` utterances drawn with replacement: a random group, then a random utterance from it.

    This is the sampler of the original group DRO (Sagawa et al., 2020). An epoch draws as many utterances as the data
    has.
    """

    def __init__(
        self, groups: Numbers, batch_size: int, seed: int = 0, rank: int | None = None, world_size: int | None = None
    ) -> None:
        self.groups = _check_groups(groups)
        super().__init__(self.groups, batch_size, seed, rank, world_size)
        self._by_group = np.argsort(self.groups, kind="stable")
        self._sizes = np.bincount(self.groups)

    def plan(self, epoch: int) -> PackedBatches:
        rng = np.random.default_rng([self.seed, epoch])
        drawn = rng.integers(len(self._sizes), size=len(self.groups))
        within = rng.integers(self._sizes[drawn])
        begins = np.cumsum(self._sizes) - self._sizes
        return self._cut(self._by_group[begins[drawn] + within])


def order(num_batches_of: Indices, rng: np.random.Generator) -> Indices:
    """Interleaves the batches of all groups evenly. Batches of group 0 are numbered first, then those of group 1.

    An epoch is the interval from 0 to 1. A group with n batches has one in each n-th of it, always at the same point,
    which is random. Groups with the same number of batches therefore take turns. Random points in each n-th would bring
    some batches of a group close together and others far apart.
    """
    turns = np.arange(num_batches_of.sum()) - np.repeat(np.cumsum(num_batches_of) - num_batches_of, num_batches_of)
    points = np.repeat(rng.random(len(num_batches_of)), num_batches_of)
    return np.argsort((turns + points) / np.repeat(num_batches_of, num_batches_of), kind="stable")


def batches_of_epoch(batches_per_pass: Durations, exponent: float) -> Indices:
    """(G,) batches of each group in an epoch, which has as many as one pass over all groups."""
    shares = batches_per_pass**exponent
    return np.maximum(1, np.rint(batches_per_pass.sum() * shares / shares.sum())).astype(int)


def num_copies(audio: Seconds, batch_duration: Seconds) -> int:
    """The smallest number of copies of a group's audio that fills whole batches, up to `TOLERANCE`."""
    fewest = max(1, int(np.ceil((1 - TOLERANCE) * batch_duration / audio)))
    num_batches = np.arange(fewest, fewest + MAX_COPIES) * audio / batch_duration
    errors = np.abs(num_batches / np.maximum(1, np.rint(num_batches)) - 1)
    return fewest + int(np.argmax(errors <= max(TOLERANCE, errors.min())))


def check_matching_options(batch_duration: Seconds, exponent: float) -> dict[str, float]:
    """The options of a length-matched sampler, for its state."""
    if not (is_number(batch_duration) and 0 < batch_duration < np.inf):
        raise ValueError(f"`batch_duration` must be a positive number of seconds; got {batch_duration!r}.")
    if not (is_number(exponent) and 0 <= exponent <= 1):
        raise ValueError(
            f"`exponent` must be from 0 (equal shares) to 1 (shares in proportion to audio); got {exponent!r}."
        )
    return {"batch_duration": float(batch_duration), "exponent": float(exponent)}


def check_group_names(names: Sequence[str] | None, num_groups: int) -> list[str] | None:
    if names is not None and len(names) != num_groups:
        raise ValueError(f"`group_names` must have one name for each of {num_groups:,} groups; got {len(names):,}.")
    return None if names is None else list(names)


def _check_durations(durations: Numbers) -> Durations:
    array = _as_array("durations", durations)
    if array.dtype.kind not in "fiu":
        raise ValueError(f"`durations` must be numbers of seconds; got {array.dtype}.")
    array = array.astype(np.float64)
    wrong = np.flatnonzero(~(np.isfinite(array) & (array > 0)))
    if len(wrong):
        raise ValueError(
            f"`durations` must be positive numbers of seconds; utterance {wrong[0]} has {array[wrong[0]]:g} "
            f"({len(wrong)} such utterances). Remove them, or fix their durations."
        )
    return array


def _check_groups(groups: Numbers, num_utterances: int | None = None) -> Indices:
    array = np.asarray(groups)
    if array.ndim == 2 and len(array) and np.issubdtype(array.dtype, np.floating):
        array = array.argmax(axis=1)
    array = _as_array("groups", array)
    if not np.issubdtype(array.dtype, np.integer):
        raise ValueError(
            f"`groups` must be integers, the group number of each utterance; got {array.dtype}. "
            "`Manifest.groups()` converts names to numbers."
        )
    if num_utterances not in (None, len(array)):
        raise ValueError(
            f"`groups` and `durations` must have the same length; got {len(array):,} and {num_utterances:,}."
        )
    if array.min() < 0:
        raise ValueError(f"`groups` must be numbered from 0; utterance {array.argmin()} has {array.min()}.")
    empty = np.flatnonzero(np.bincount(np.minimum(array, len(array)).astype(np.int64)) == 0)
    if len(empty):
        raise ValueError(
            f"`groups`: group {empty[0]} has no utterances (numbers go up to {array.max()}), so weights could never be "
            "updated. Number the groups from 0 without gaps."
        )
    return array.astype(np.int64)


def _as_array(name: str, values: Numbers) -> npt.NDArray:
    array = np.asarray(values)
    if array.ndim != 1 or len(array) == 0:
        raise ValueError(f"`{name}` must have one entry per utterance, and at least one; got shape {array.shape}.")
    return array
