"""Objectives whose weights change once per round: whenever every group has a pending loss."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import torch
from torch import Tensor

from ..runtime.arguments import is_whole_number
from .objective import Objective

# Groups without a pending entry are reported once the others have this many on average.
ABSENT_AFTER = 100

# An update needs one pending entry of every group. Shares of several batches may add up to slightly less than 1.
ONE_ENTRY = 0.999


class RoundObjective(Objective):
    """Updates its weights whenever every group has a pending loss, then weights the batch with the new weights."""

    entries_by_batch = True

    num_batches: Tensor
    """() batches of all ranks in training mode; counted only if there is a warm-up."""

    def __init__(self, num_groups: int, *, warmup_batches: int = 0, **options: Any) -> None:
        if not is_whole_number(warmup_batches) or warmup_batches < 0:
            raise ValueError(f"`warmup_batches` must be a non-negative integer; got {warmup_batches!r}.")
        super().__init__(num_groups, **options)
        self._warmup_batches = int(warmup_batches)
        self.register_buffer("num_batches", torch.zeros((), dtype=torch.int64))

    @abstractmethod
    def _next_state(self, pending: Tensor) -> dict[str, Tensor]:
        """New values of buffers, by name, computed in the precision of the (3, G) pending sums.

        On devices that the host must not wait for, the values are computed for every batch and used if an update is
        due.
        """

    def _weigh(self, losses: Tensor, groups: Tensor, on_host: bool) -> Tensor:
        if on_host:
            self._update_on_host()
        else:
            self._update_on_device()
        if self._warmup_batches:
            self.num_batches.add_(self._num_ranks())
        return self._weighted_sum(losses, groups)

    def _update_on_device(self) -> None:
        """Lines 11 to 20 of Algorithm 2. Both branches are computed; the device selects one."""
        is_complete, is_warm = (self.pending[1] >= ONE_ENTRY).all(), self.num_batches >= self._warmup_batches
        for name, value in self._next_state(self.pending).items():
            buffer = self.get_buffer(name)
            buffer.copy_(value.where(is_complete & is_warm, buffer))
        self.pending.masked_fill_(is_complete | ~is_warm, 0.0)

    def _update_on_host(self) -> None:
        """Like `_update_on_device`, but in host memory and double precision, and only if an update is due."""
        is_warm = not self._warmup_batches or int(self.num_batches) >= self._warmup_batches
        _, entries, _ = self.pending.tolist()
        if is_warm and min(entries) >= ONE_ENTRY:
            for name, value in self._next_state(self.pending.double()).items():
                self.get_buffer(name).copy_(value)
            self.pending.zero_()
        elif not is_warm:
            self.pending.zero_()
        elif "absent" not in self._warned_of:
            self._warn_of_absent_groups(entries)

    def _warn_of_absent_groups(self, entries: list[float]) -> None:
        if sum(entries) >= ABSENT_AFTER * self.num_groups:
            absent = [group for group, number in enumerate(entries) if number < ONE_ENTRY]
            self._warn_once(
                "absent",
                f"Group weights have not changed for at least {max(entries):,.0f} batches, because these groups had no "
                f"batch with a finite loss: {self._names(absent)}. An update needs every group. Check their data, "
                "sample them more often, or create the objective without them.",
            )
