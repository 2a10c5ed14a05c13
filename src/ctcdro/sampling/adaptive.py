"""Length-matched batches with shares that follow the group weights during training.

Group weights can act as factors on the losses of equally frequent groups, or as shares of the batches. The expected
gradient is the same. With shares, the model sees a group with a high weight more often, instead of taking larger steps
on it. Gradient clipping and optimizers that normalize the gradient, such as Adam, undo factors, but not shares.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np
from torch import Tensor

from ..runtime.arguments import is_whole_number
from .batch_arrays import Indices, PackedBatches, Seconds
from .samplers import LengthMatchedBatchSampler, Numbers


class Weighted(Protocol):
    """What the sampler needs of an objective."""

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

    @property
    def next_taken(self) -> list[int]:
        """(G,) batches per group after this round."""
        return (np.array(self.taken) + np.bincount(self.groups, minlength=len(self.taken))).tolist()


class AdaptiveBatchSampler(LengthMatchedBatchSampler):
    """Like `LengthMatchedBatchSampler`, with shares of the batches in proportion to the weights of an objective.

    The objective then no longer multiplies losses by its weights. Batches are planned in rounds of
    `num_groups` batches. When the first batch of a round is requested, the current weights become its shares.
    Passes over the utterances of a group continue from one epoch to the next, so a group with a small share is still
    seen completely.

    The state includes the rounds that a `DataLoader` has requested ahead of time. Resuming is exact with the same
    number of ranks and workers.

    Args:
        durations, groups, batch_duration, seed, rank, world_size, group_names: as for `LengthMatchedBatchSampler`.
        objective: such as `ctcdro.error_weighted(…)`, with the same groups.
        exponent: as for `LengthMatchedBatchSampler`. Shares are the product of its shares and the weights.

    Example:
        >>> import ctcdro
        >>> objective = ctcdro.error_weighted(2, power=1.0, signal="error_rate")
        >>> objective.update_error_rates([0.8, 0.2])
        >>> durations, groups = [5.0] * 80, [0, 1] * 40
        >>> sampler = AdaptiveBatchSampler(durations, groups, objective, batch_duration=10.0)
        >>> sum(groups[batch[0]] == 0 for batch in sampler), len(sampler)
        (32, 40)
    """

    def __init__(
        self,
        durations: Numbers,
        groups: Numbers,
        objective: Weighted,
        batch_duration: Seconds = 50.0,
        exponent: float = 0.0,
        seed: int = 0,
        rank: int | None = None,
        world_size: int | None = None,
        group_names: Sequence[str] | None = None,
    ) -> None:
        super().__init__(durations, groups, batch_duration, exponent, seed, rank, world_size, group_names)
        if len(objective.weights) != self.num_groups:
            raise ValueError(
                f"`objective` has {len(objective.weights)} groups, but `groups` has {self.num_groups}. Create it with "
                f"num_groups={self.num_groups}."
            )
        objective.leave_weights_to_sampler()
        self.objective = objective
        self._rounds: list[Round] = []
        self._before = [0] * self.num_groups  # batches per group in earlier epochs
        self._planned: tuple[int, PackedBatches] | None = None  # start and batches of the latest round
        self._latest_passes: dict[int, tuple[int, PackedBatches]] = {}

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch of the next iteration, which continues after the batches of the current one."""
        if epoch != self.epoch:
            last = self._rounds[-1] if self._rounds else None
            self.start_at(epoch)
            if last is not None:
                self._before = last.next_taken

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
        while not self._rounds or self._rounds[-1].stop < number - rank + world_size:
            self._rounds.append(self._next_round(self.epoch, self._rounds, self._before))
        turn = next(turn for turn in self._rounds if number < turn.stop)
        if self._planned is None or self._planned[0] != turn.start:
            self._planned = turn.start, self._plan_round(turn)
        return self._planned[1][number - turn.start]

    def _next_round(self, epoch: int, rounds: list[Round], before: list[int]) -> Round:
        last = rounds[-1] if rounds else Round(0, groups=[], taken=before, credit=self._first_credit(epoch))
        rest = self.num_batches - last.stop  # past the end, so that all ranks get the same number
        shares = self._num_batches_of * np.array(self.objective.weights.tolist())
        num_batches = min(self.num_groups, rest) if rest > 0 else self.num_groups
        groups, credit = take_turns(num_batches, shares / shares.sum(), np.array(last.credit))
        return Round(last.stop, groups, last.next_taken, credit.tolist())

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

    def _pass(self, group: int, number: int) -> PackedBatches:
        if self._latest_passes.get(group, (None,))[0] != number:
            self._latest_passes[group] = number, super()._pass(group, number)
        return self._latest_passes[group][1]

    def _forget_rounds(self) -> None:
        self._rounds, self._planned = [], None


def make_sampler(
    durations: Numbers, groups: Numbers, objective: Weighted | None, *options: Any, **named_options: Any
) -> LengthMatchedBatchSampler:
    """A sampler with adaptive shares if the objective prefers them, otherwise with fixed shares."""
    if objective is not None and objective.prefers_shares:
        return AdaptiveBatchSampler(durations, groups, objective, *options, **named_options)
    return LengthMatchedBatchSampler(durations, groups, *options, **named_options)


def take_turns(num_batches: int, shares: Indices, credit: Indices) -> tuple[list[int], Indices]:
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


def _read_round(record: dict[str, Any], num_groups: int) -> Round:
    try:
        turn = Round(**record)
        lengths_fit = {len(turn.taken), len(turn.credit)} == {num_groups}
        if lengths_fit and is_whole_number(turn.start) and set(turn.groups) <= set(range(num_groups)):
            return turn
    except TypeError:
        pass
    raise ValueError(f"`state` must be the `state_dict()` of a sampler; got the round {record!s:.200}.")
