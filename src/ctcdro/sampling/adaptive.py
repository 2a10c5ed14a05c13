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
from .samplers import LengthMatchedBatchSampler, Numbers, order


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
    counts: list[int]
    """(G,) batches per group."""
    taken: list[int]
    """(G,) batches per group in earlier rounds of the epoch."""
    credit: list[float]
    """(G,) batches that each group is owed after this round; they sum to zero."""

    @property
    def stop(self) -> int:
        return self.start + sum(self.counts)


class AdaptiveBatchSampler(LengthMatchedBatchSampler):
    """Like `LengthMatchedBatchSampler`, with shares of the batches in proportion to the weights of an objective.

    The objective then no longer multiplies losses by its weights. Batches are planned in rounds of
    `num_groups` batches. When the first batch of a round is requested, the current weights become its shares. Each
    epoch starts new passes over the utterances of every group.

    The state includes the rounds that a `DataLoader` has requested ahead of time. Resuming is exact with the same
    number of ranks and workers.

    Args:
        durations, groups, batch_duration, seed, rank, world_size, group_names: as for `LengthMatchedBatchSampler`.
        objective: such as `ctcdro.error_weighted(…)`, with the same groups.
        exponent: as for `LengthMatchedBatchSampler`. Shares are the product of its shares and the weights.

    Example:
        >>> import ctcdro
        >>> objective = ctcdro.error_weighted(2, signal="error_rate")
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
        self._planned: tuple[int, PackedBatches] | None = None  # start and batches of the latest round
        self._latest_passes: dict[int, tuple[int, PackedBatches]] = {}

    def set_epoch(self, epoch: int) -> None:
        if epoch != self.epoch:
            self._forget_rounds()
        super().set_epoch(epoch)

    def state_dict(self, num_taken: int | None = None) -> dict[str, Any]:
        state = super().state_dict(num_taken)
        return {**state, "rounds": self.rounds_from(state["position"])}

    def rounds_from(self, position: int) -> list[dict[str, Any]]:
        """The planned rounds that are needed to resume at a position, for a state."""
        # Always at least one round, if there is any: the next one continues from it.
        needed = [turn for turn in self._rounds if turn.stop > position] or self._rounds[-1:]
        return [asdict(turn) for turn in needed]

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self._forget_rounds()
        self._rounds = [_read_round(record, self.num_groups) for record in state.get("rounds", [])]

    def plan(self, epoch: int) -> PackedBatches:
        """The batches of an epoch if the weights stayed as they are now."""
        rounds: list[Round] = []
        while not rounds or rounds[-1].stop < self.num_batches:
            rounds.append(self._next_round(rounds))
        return PackedBatches.join([self._plan_round(epoch, turn) for turn in rounds])

    def batch_getter(self) -> Callable[[int], list[int]]:
        if self._resume_at is None:
            self._forget_rounds()
        return self._batch

    def _batch(self, number: int) -> list[int]:
        if self._rounds and number < self._rounds[0].start:
            return []  # finished before the loaded state was saved; for loops that skip finished batches themselves
        # All ranks plan a round in the same step, when the first of them needs it: weights change between steps.
        rank, world_size = self.rank_and_world_size
        while not self._rounds or self._rounds[-1].stop < number - rank + world_size:
            self._rounds.append(self._next_round(self._rounds))
        turn = next(turn for turn in self._rounds if number < turn.stop)
        if self._planned is None or self._planned[0] != turn.start:
            self._planned = turn.start, self._plan_round(self.epoch, turn)
        return self._planned[1][number - turn.start]

    def _next_round(self, rounds: list[Round]) -> Round:
        zeros = [0] * self.num_groups
        last = rounds[-1] if rounds else Round(0, counts=zeros, taken=zeros, credit=[0.0] * self.num_groups)
        rest = self.num_batches - last.stop  # past the end, so that all ranks get the same number
        shares = self._num_batches_of * np.array(self.objective.weights.tolist())
        num_batches = min(self.num_groups, rest) if rest > 0 else self.num_groups
        counts, credit = apportion(num_batches, shares / shares.sum(), np.array(last.credit))
        taken = np.add(last.taken, last.counts)
        return Round(last.stop, counts.tolist(), taken.tolist(), credit.tolist())

    def _plan_round(self, epoch: int, turn: Round) -> PackedBatches:
        streams = []
        for group in np.flatnonzero(turn.counts).tolist():
            per_pass = self._packers[group].num_batches
            passes_per_epoch = -(-self.num_batches // per_pass) + 1  # if all batches are from this group
            start = epoch * passes_per_epoch * per_pass + turn.taken[group]
            streams.append(self._stretch(group, start, start + turn.counts[group]))
        rng = np.random.default_rng([self.seed, epoch, turn.start])
        return PackedBatches.join(streams).take(order(np.array(turn.counts), rng))

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


def apportion(num_batches: int, shares: Indices, credit: Indices) -> tuple[Indices, Indices]:
    """Distributes batches over groups by their shares; returns (G,) batches and the (G,) credit that remains.

    Each batch goes to the group that is owed most, so no group is ever owed more than one batch.

    Example:
        >>> counts, credit = apportion(5, np.array([0.5, 0.3, 0.2]), np.zeros(3))
        >>> counts.tolist(), credit.round(2).tolist()
        ([3, 1, 1], [-0.5, 0.5, 0.0])
    """
    counts, credit = np.zeros(len(shares), dtype=np.int64), credit.copy()
    for _ in range(num_batches):
        credit += shares
        group = int(credit.argmax())
        credit[group] -= 1
        counts[group] += 1
    return counts, credit


def _read_round(record: dict[str, Any], num_groups: int) -> Round:
    try:
        turn = Round(**record)
        if {len(turn.counts), len(turn.taken), len(turn.credit)} == {num_groups} and is_whole_number(turn.start):
            return turn
    except TypeError:
        pass
    raise ValueError(f"`state` must be the `state_dict()` of a sampler; got the round {record!s:.200}.")
