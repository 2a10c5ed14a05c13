"""Batches planned in rounds: shares of the groups that change during training, and a limit on repetitions.

A round is `num_groups` batches. It is planned when its first batch is requested, from the weights of an objective and
from what each group has already received. The state includes the rounds that are planned but not finished.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np
from torch import Tensor

from ..runtime.arguments import is_number, is_whole_number
from .base import PlannedBatchSampler
from .batch_arrays import Durations, Indices, PackedBatches


class Weighted(Protocol):
    """What a sampler needs of an objective."""

    @property
    def weights(self) -> Tensor: ...

    prefers_shares: bool

    def leave_weights_to_sampler(self) -> None: ...


@dataclass(frozen=True)
class Round:
    """Consecutive batches of an epoch that are planned together."""

    start: int
    """Number of its first batch in the epoch."""
    groups: list[int]
    """Group of each batch."""
    taken: list[int]
    """(G,) batches per group before this round, since the first epoch."""
    credit: list[float]
    """(G,) batches that each group is owed after this round; they sum to zero."""

    @property
    def stop(self) -> int:
        return self.start + len(self.groups)

    def taken_until(self, stop: int) -> list[int]:
        """(G,) batches per group before batch number `stop` of the epoch, which is in this round or the next one."""
        own = self.groups[: stop - self.start]
        return (np.array(self.taken) + np.bincount(own, minlength=len(self.taken))).tolist()


@dataclass(frozen=True)
class PassLimit:
    """A limit on how often the utterances of a group are repeated (UniMax: Chung et al., 2023, arXiv:2304.09151)."""

    max_passes: float
    """Passes over the utterances of a group, over the whole training."""
    total_batches: int
    """Batches of the whole training, over all ranks."""

    def __post_init__(self) -> None:
        if not (is_number(self.max_passes) and 0 < self.max_passes < np.inf):
            raise ValueError(f"`max_passes` must be a positive number; got {self.max_passes!r}.")
        if not is_whole_number(self.total_batches) or self.total_batches < 1:
            raise ValueError(f"`total_batches` must be a positive integer; got {self.total_batches!r}.")

    def most_batches(self, batches_per_pass: Durations) -> Indices:
        """(G,) batches that each group may have; at least one, so that no group is missing."""
        most = np.maximum(1, np.floor(self.max_passes * np.asarray(batches_per_pass) + 1e-9)).astype(int)
        if most.sum() < self.total_batches:
            raise ValueError(
                f"`max_passes`: {self.max_passes:g} passes over all groups are {most.sum():,} batches, fewer than the "
                f"{self.total_batches:,} of training. Raise it to {self._sufficient(batches_per_pass):g}, or train for "
                "fewer batches."
            )
        return most

    def _sufficient(self, batches_per_pass: Durations) -> float:
        """A limit that suffices although batches are whole: each group may lose up to one."""
        return math.ceil(100 * (self.total_batches + len(batches_per_pass)) / np.sum(batches_per_pass)) / 100

    def limit(self, shares: Durations, most: Indices, taken: Indices) -> Durations:
        """Shares at which no group uses up its batches before training ends; what a group loses goes to the others."""
        remaining = max(1, self.total_batches - int(taken.sum()))
        return cap_shares(shares, np.maximum(0, most - taken) / remaining)


class PlannedInRounds(PlannedBatchSampler):
    """Plans the order of groups in rounds. A class that inherits from it says what the batches of a group are.

    Ranks plan a round in the same step, so their weights must be the same. Resuming is exact with the same number of
    ranks and workers.
    """

    num_groups: int
    _num_batches_of: Indices
    """(G,) batches per group and epoch if all weights were equal."""
    _batches_per_pass: Durations
    """(G,) batches in which every utterance of the group occurs once."""
    _stretch: Callable[[int, int, int], PackedBatches]
    """Group, start, stop -> its batches number `start` to `stop`, of an endless stream."""

    def _set_up_rounds(self, objective: Weighted | None, limit: PassLimit | None) -> None:
        """To be called once groups are known."""
        if objective is not None:
            if len(objective.weights) != self.num_groups:
                raise ValueError(
                    f"`objective` has {len(objective.weights)} groups, but `groups` has {self.num_groups}. Create it "
                    f"with num_groups={self.num_groups}."
                )
            objective.leave_weights_to_sampler()
        self.objective = objective
        self._limit = limit
        self._most_batches = None if limit is None else limit.most_batches(self._batches_per_pass)
        self._rounds: list[Round] = []
        self._before = [0] * self.num_groups  # batches per group in earlier epochs
        self._planned: tuple[int, PackedBatches] | None = None  # start and batches of the latest round
        self._end_of_step = 0  # the batches before it are requested, by all ranks

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch of the next iteration, which continues after the batches of the current one."""
        if epoch != self.epoch:
            stop = self._end_of_step
            latest = next((turn for turn in reversed(self._rounds) if turn.start <= stop), None)
            self.start_at(epoch)
            if latest is not None:
                self._before = latest.taken_until(stop)

    def start_at(self, epoch: int) -> None:
        """Sets the epoch without a history, for loops that do not save the state of the sampler."""
        super().set_epoch(epoch)
        self._before = (self.epoch * self._num_batches_of).tolist()
        self._forget_rounds()

    def state_at(self, position: int) -> dict[str, Any]:
        # Always at least one round, if there is any: the next one continues from it.
        needed = [turn for turn in self._rounds if turn.stop > position] or self._rounds[-1:]
        return {**super().state_at(position), "before": self._before, "rounds": [asdict(turn) for turn in needed]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self._forget_rounds()
        self._end_of_step = state["position"]
        self._before = list(state["before"])
        self._rounds = [_read_round(record, self.num_groups) for record in state["rounds"]]

    def plan(self, epoch: int) -> PackedBatches:
        """The batches of an epoch if the weights stayed as they are now."""
        rounds: list[Round] = []
        before = self._before if epoch == self.epoch else (epoch * self._num_batches_of).tolist()
        while not rounds or rounds[-1].stop < self.num_batches:
            rounds.append(self._next_round(epoch, rounds, before))
        return PackedBatches.join([self._plan_round(turn) for turn in rounds])

    def _batch_getter(self) -> Callable[[int], list[int]]:
        if self._resume_at is None:
            self._forget_rounds()
        return self._batch

    def _batch(self, number: int) -> list[int]:
        if self._rounds and number < self._rounds[0].start:
            return []  # finished before the loaded state was saved; for loops that skip finished batches themselves
        # All ranks plan a round in the same step, when the first of them needs it: weights change between steps.
        rank, world_size = self.rank_and_world_size
        self._end_of_step = number - rank + world_size
        while not self._rounds or self._rounds[-1].stop < self._end_of_step:
            self._rounds.append(self._next_round(self.epoch, self._rounds, self._before))
        turn = next(turn for turn in self._rounds if number < turn.stop)
        if self._planned is None or self._planned[0] != turn.start:
            self._planned = turn.start, self._plan_round(turn)
        return self._planned[1][number - turn.start]

    def _next_round(self, epoch: int, rounds: list[Round], before: list[int]) -> Round:
        last = rounds[-1] if rounds else Round(0, groups=[], taken=before, credit=self._first_credit(epoch))
        rest = self.num_batches - last.stop  # past the end, so that all ranks get the same number
        num_batches = min(self.num_groups, rest) if rest > 0 else self.num_groups
        taken = last.taken_until(last.stop)
        groups, credit = take_turns(num_batches, self._shares(np.array(taken)), np.array(last.credit))
        return Round(last.stop, groups, taken, credit.tolist())

    def _shares(self, taken: Indices) -> Durations:
        weights = 1.0 if self.objective is None else np.array(self.objective.weights.tolist())
        shares = self._num_batches_of * weights
        shares = shares / shares.sum()
        if self._limit is not None and self._most_batches is not None:
            shares = self._limit.limit(shares, self._most_batches, taken)
        return shares

    def _first_credit(self, epoch: int) -> list[float]:
        """Much less than a batch: it only decides which of several groups with the same share comes first."""
        turns = np.random.default_rng([self.seed, epoch]).permutation(self.num_groups)
        return (turns / self.num_groups / 1000).tolist()

    def _plan_round(self, turn: Round) -> PackedBatches:
        counts = np.bincount(turn.groups, minlength=self.num_groups)
        streams = [
            self._stretch(group, turn.taken[group], turn.taken[group] + counts[group])
            for group in np.flatnonzero(counts).tolist()
        ]
        return PackedBatches.join(streams).take(np.argsort(np.argsort(turn.groups, kind="stable")))

    def _forget_rounds(self) -> None:
        self._rounds, self._planned, self._end_of_step = [], None, 0


def take_turns(num_batches: int, shares: Durations, credit: Durations) -> tuple[list[int], Durations]:
    """The group of each batch, evenly spaced by their shares, and the (G,) credit that remains.

    Each batch goes to the group that is owed most, so no group is ever owed more than one batch.

    Example:
        >>> groups, credit = take_turns(5, np.array([0.5, 0.3, 0.2]), np.zeros(3))
        >>> groups, credit.round(2).tolist()
        ([0, 1, 2, 0, 0], [-0.5, 0.5, 0.0])
    """
    groups, credit = [], credit.copy()
    for _ in range(num_batches):
        credit += shares
        groups.append(int(credit.argmax()))
        credit[groups[-1]] -= 1
    return groups, credit


def cap_shares(shares: Durations, highest: Durations) -> Durations:
    """Shares of at most `highest`. What exceeds it goes to the other groups, in proportion to their shares.

    Shares that do not exceed it are returned unchanged, and so are all if `highest` sums to less than one.

    Example:
        >>> cap_shares(np.array([0.5, 0.3, 0.2]), np.array([0.25, 0.5, 1.0])).round(4).tolist()
        [0.25, 0.45, 0.3]
    """
    if highest.sum() < 1:
        return shares
    capped, is_capped = shares, np.zeros(len(shares), dtype=bool)
    while (exceeding := ~is_capped & (capped > highest)).any():
        is_capped |= exceeding
        rest = shares[~is_capped].sum()
        factor = (1 - highest[is_capped].sum()) / rest if rest else 0.0
        capped = np.where(is_capped, highest, shares * factor)
    return capped


def _read_round(record: dict[str, Any], num_groups: int) -> Round:
    try:
        turn = Round(**record)
        lengths_fit = {len(turn.taken), len(turn.credit)} == {num_groups}
        if lengths_fit and is_whole_number(turn.start) and set(turn.groups) <= set(range(num_groups)):
            return turn
    except TypeError:
        pass
    raise ValueError(f"`state` must be the `state_dict()` of a sampler; got the round {record!s:.200}.")
