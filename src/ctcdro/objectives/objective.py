"""The base class of all objectives: checks, skipped losses, ranks, and a state to resume from.

An objective is a module called as `objective(losses, groups)`, with losses of any kind, one per utterance, that returns
one number to minimize. Guarantees:

* `weights` is on the simplex and carries no gradient;
* `state_dict()` holds everything that later updates depend on, as tensors only: a run resumed at any batch is
  identical to an uninterrupted one;
* a loss of +inf, from a transcript that does not fit its frames, is skipped: it is excluded from the update, the value
  and the gradient, and counted in `num_skipped`;
* a loss of NaN or -inf is returned, so a diverged model never looks like a good one. It does not change the weights,
  on any rank, so training can skip such a step;
* in evaluation mode the result is the unweighted sum without +inf, and the weights do not change;
* with `torch.distributed`, losses are pooled over its ranks and all ranks hold the same weights, bit for bit. Ranks
  must therefore call the objective equally often in training mode; the samplers of `ctcdro.sampling` do;
* the host never waits for the device.
"""

from __future__ import annotations

import json
import math
import warnings
from abc import ABC
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, TypedDict, get_args

import torch
import torch.distributed
from torch import Tensor, nn

from ..runtime.arguments import is_whole_number
from ..runtime.ranks import is_distributed, rank_and_world_size
from . import host_memory
from .memberships import check_rows, largest_groups
from .numbers_by_group import Rates
from .pending_losses import add_losses, weighted_sum

Reduction: TypeAlias = Literal["sum", "mean"]

# Group numbers, or names if the objective was created with `group_names`; or (B, G) shares of groups.
Groups: TypeAlias = Tensor | Sequence[int] | Sequence[str]


class Shared(TypedDict, total=False):
    """Arguments that every objective takes."""

    group_names: Sequence[str] | None
    """Group names, ordered by group number. With names, a state that was saved for other groups is rejected."""
    process_group: torch.distributed.ProcessGroup | None
    """The `torch.distributed` ranks that train on different data, over which losses are pooled. Default: all."""


class Objective(nn.Module, ABC):
    """Base class of all objectives. Create one with `erm`, `group_dro`, `ctc_dro` or `ctc_dro_unsmoothed`."""

    log_weights: Tensor
    """(G,)"""
    pending: Tensor
    """(3, G); see `pending_losses.py`."""
    num_skipped: Tensor
    """(G,) losses of +inf, which were skipped."""

    entries_by_batch = False
    """Whether all losses of a group in one batch are one entry; see `add_losses`."""
    needs_characters = False
    """Whether calls in training mode need `num_characters`."""
    needs_error_rates = False
    """Whether `update_error_rates` has to be called after each validation."""
    prefers_shares = False
    """Whether integrations that create the sampler apply the weights as shares of batches (`AdaptiveBatchSampler`)."""

    def __init__(
        self,
        num_groups: int,
        *,
        settings: Mapping[str, Any],
        reduction: Reduction = "sum",
        group_names: Sequence[str] | None = None,
        process_group: torch.distributed.ProcessGroup | None = None,
    ) -> None:
        super().__init__()
        if reduction not in get_args(Reduction):
            raise ValueError(
                f'`reduction` must be "sum" (the paper) or "mean" (the authors\' code); got {reduction!r}.'
            )
        _check_groups(num_groups, group_names)
        if process_group is not None and torch.distributed.get_rank(process_group) < 0:
            raise ValueError("`process_group` does not include this rank. Pass a process group that includes it.")
        self.num_groups = num_groups = int(num_groups)
        self.settings = settings
        self.reduction = reduction
        self.group_names = None if group_names is None else list(group_names)
        self.scales_losses = True
        """Whether losses are multiplied by the weights; otherwise a sampler applies them."""
        self._process_group = process_group
        self._warned_of: set[str] = set()
        # float32 regardless of the default type: half precision would round small steps to zero.
        self.register_buffer("log_weights", torch.full((num_groups,), -math.log(num_groups), dtype=torch.float32))
        self.register_buffer("pending", torch.zeros(3, num_groups, dtype=torch.float32))
        self.register_buffer("num_skipped", torch.zeros(num_groups, dtype=torch.int64))
        self.register_load_state_dict_pre_hook(_reject_bad_state)

    @property
    def weights(self) -> Tensor:
        """(G,) the weight of each group, on the simplex."""
        return self.log_weights.exp()

    def update_error_rates(self, rates: Rates) -> None:
        """Sets the weights from error rates on held-out data, if `needs_error_rates`; rejected by other objectives."""
        raise ValueError(
            f"The weights of {type(self).__name__} do not follow error rates. Remove this call, or use "
            '`ctcdro.error_weighted(…, signal="error_rate")`.'
        )

    def update_budgets(self, rates: Rates, baseline_rates: Rates) -> None:
        """Guards the weights with the error rates of a baseline, if it has a guard; rejected by other objectives."""
        raise ValueError(
            f"The weights of {type(self).__name__} have no guard. Remove this call, or use `ctcdro.error_weighted(…)`."
        )

    def leave_weights_to_sampler(self) -> None:
        """Losses are no longer multiplied by the weights: `AdaptiveBatchSampler` applies them as shares of batches."""
        self.scales_losses = False

    def forward(self, losses: Tensor, groups: Groups, num_characters: Tensor | Sequence[int] | None = None) -> Tensor:
        """Returns the number to minimize, shape ().

        Args:
            losses: (B,) one per utterance.
            groups: (B,) the group of each utterance, as a number; or as a name, with `group_names`. For utterances in
                several groups: (B, G) rows of shares, each non-negative with the sum 1.
            num_characters: (B,) characters of each transcript; used where `needs_characters` is true.
        """
        numbers = self._group_numbers(groups)
        _check_batch(losses, numbers, self.num_groups)
        if losses.dtype in (torch.float16, torch.bfloat16):
            losses = losses.to(torch.float32)  # their sums may exceed the range of half precision
        on_host = host_memory.is_readable(losses, numbers)
        if not self.training:
            if on_host:
                self._warn_if_all_skipped(losses, numbers)
            return losses.masked_fill(losses == math.inf, 0.0).sum()
        numbers = self._to_device(numbers, losses.device, on_host)
        num_kept = (losses != math.inf).sum() if self.reduction == "mean" else None
        kept = self._add_to_pending(losses, numbers, self._characters(num_characters, len(losses)))
        if on_host and kept is not losses:
            self._warn_if_all_skipped(losses, numbers)
        loss = self._weigh(kept, numbers, on_host)
        return loss if num_kept is None else loss / num_kept.clamp(min=1)

    def _to_device(self, groups: Tensor, device: torch.device, on_host: bool) -> Tensor:
        """Group numbers as int64, rows of shares as they are or, for other devices, in single precision."""
        if groups.ndim == 2:
            check_rows(groups)
            return groups if on_host else groups.to(device, torch.float32, non_blocking=True)
        if on_host and groups.dtype == torch.int64:
            return groups
        return groups.to(device, torch.int64, non_blocking=True)

    def _weigh(self, losses: Tensor, groups: Tensor, on_host: bool) -> Tensor:
        """Updates the weights from the pending sums, and returns the number to minimize. By default, losses have no
        effect on the weights.

        Args:
            losses: (B,) of this rank, with zero in place of +inf.
            groups: (B,) or (B, G) of this rank.
            on_host: whether the host can read all values without waiting.
        """
        self.pending.zero_()
        return self._weighted_sum(losses, groups)

    def _weighted_sum(self, losses: Tensor, groups: Tensor) -> Tensor:
        if not self.scales_losses:
            return losses.sum()
        return weighted_sum(self.log_weights, losses, groups, factor=self.num_groups)

    def _add_to_pending(self, losses: Tensor, groups: Tensor, characters: Tensor | None) -> Tensor:
        """Adds the finite losses of all ranks to the pending sums; returns those of this rank, with zero for +inf."""
        if not is_distributed():
            return add_losses(self.pending, self.num_skipped, losses, groups, characters, self.entries_by_batch)
        totals = self.pending.new_zeros(4, self.num_groups)
        losses = add_losses(totals[:3], totals[3], losses, groups, characters, self.entries_by_batch)
        torch.distributed.all_reduce(totals, group=self._process_group)  # all ranks reach this line
        self.pending.add_(totals[:3])
        self.num_skipped.add_(totals[3].to(torch.int64))
        return losses

    def _num_ranks(self) -> int:
        return rank_and_world_size(self._process_group)[1]

    def _characters(self, num_characters: Tensor | Sequence[int] | None, batch_size: int) -> Tensor | None:
        if not self.needs_characters:
            return None
        if num_characters is None or len(num_characters) != batch_size:
            found = "none" if num_characters is None else f"{len(num_characters)} for {batch_size} losses"
            raise ValueError(
                f"`num_characters` must have one entry per utterance, because the weights of this objective follow the "
                f"loss per character; got {found}. Call it as `objective(losses, groups, num_characters)`."
            )
        return torch.as_tensor(num_characters)

    def _group_numbers(self, groups: Groups) -> Tensor:
        if isinstance(groups, Tensor):
            return groups
        names = [group for group in groups if isinstance(group, str)] if isinstance(groups, Iterable) else []
        if not names:
            numbers = torch.as_tensor(groups)
            return numbers if numbers.numel() else numbers.to(torch.int64)
        if self.group_names is None:
            raise ValueError(
                f"`groups` contains names ({names[0]!r}, ...), but this objective has no group names. Create it with "
                "`group_names`, or pass group numbers."
            )
        number_of = {name: number for number, name in enumerate(self.group_names)}
        unknown = [name for name in groups if name not in number_of]
        if unknown and self.training:  # evaluation does not use groups
            raise ValueError(
                f"`groups` contains {unknown[0]!r}, which is not in `group_names`: {', '.join(self.group_names)}."
            )
        return torch.tensor([number_of.get(name, 0) for name in names])

    def _warn_if_all_skipped(self, losses: Tensor, groups: Tensor) -> None:
        if len(losses) and bool((losses == math.inf).all()):
            # In evaluation, groups may be unknown to the objective.
            which = f" (groups: {self._names(largest_groups(groups).unique().tolist())})" if self.training else ""
            self._warn_once(
                "all skipped",
                f"Every loss of a batch is infinite{which}: no transcript fits its frames. The batch is skipped. Check "
                "`target_lengths` and `input_lengths`, which counts frames after subsampling.",
            )

    def _warn_once(self, kind: str, message: str) -> None:
        if kind not in self._warned_of:
            self._warned_of.add(kind)
            warnings.warn(message, stacklevel=6)  # where the objective is called

    def _names(self, groups: Iterable[int]) -> str:
        return ", ".join(str(group) if self.group_names is None else self.group_names[group] for group in groups)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Objective:
        # `model.half()` must not round the weights of a criterion that is part of the model. `model.to(device)` works.
        return super()._apply(lambda tensor: fn(tensor) if tensor.is_meta else tensor.to(fn(tensor).device), recurse)

    def extra_repr(self) -> str:
        settings = {"num_groups": self.num_groups, **self.settings, "reduction": self.reduction}
        return ", ".join(f"{name}={value!r}" for name, value in settings.items())

    def get_extra_state(self) -> Tensor:
        return torch.tensor(list(json.dumps(self.group_names).encode()), dtype=torch.uint8)

    def set_extra_state(self, state: Tensor) -> None:
        """Nothing to do: `_reject_bad_state` has checked the names."""


def _check_groups(num_groups: int, group_names: Sequence[str] | None) -> None:
    if not is_whole_number(num_groups) or num_groups < 1:
        raise ValueError(f"`num_groups` must be a positive integer; got {num_groups!r}.")
    if group_names is not None and not (
        len(group_names) == len(set(group_names)) == num_groups and all(isinstance(name, str) for name in group_names)
    ):
        raise ValueError(f"`group_names` must be {num_groups} different names, one per group; got {list(group_names)}.")


def _check_batch(losses: Tensor, groups: Tensor, num_groups: int) -> None:
    rows = (len(losses), num_groups) if losses.ndim else ()
    if losses.ndim != 1 or groups.shape not in (losses.shape, rows):
        raise ValueError(
            "`losses` and `groups` must both have one entry per utterance, shape (batch,), or `groups` one row of "
            f"shares per utterance, shape (batch, {num_groups}); "
            f"got {tuple(losses.shape)} and {tuple(groups.shape)}."
        )
    if not losses.is_floating_point():
        raise ValueError(f"`losses` must be floating-point numbers; got {losses.dtype}.")
    if groups.ndim == 2 and not groups.is_floating_point():
        raise ValueError(f"`groups` with one row per utterance must be floating-point shares; got {groups.dtype}.")
    if groups.ndim == 1 and (groups.is_floating_point() or groups.is_complex() or groups.dtype == torch.bool):
        raise ValueError(f"`groups` must be integers, the group number of each utterance; got {groups.dtype}.")


def _reject_bad_state(module: nn.Module, state_dict: dict[str, Any], prefix: str, *_: Any) -> None:
    """Runs before a state is loaded, so that a rejected state leaves the objective unchanged."""
    assert isinstance(module, Objective)
    if f"{prefix}log_weights" not in state_dict:
        return  # PyTorch reports missing keys
    num_saved = len(state_dict[f"{prefix}log_weights"])
    saved = json.loads(bytes(state_dict.get(f"{prefix}_extra_state", torch.tensor([])).tolist()) or "null")
    both_named = saved is not None and module.group_names is not None
    if num_saved != module.num_groups or (both_named and saved != module.group_names):
        raise ValueError(
            f"`state_dict` holds the weights of {num_saved} groups{_in_brackets(saved)}, "
            f"but this objective has {module.num_groups}{_in_brackets(module.group_names)}; weights would go to the "
            "wrong groups. Create the objective with the saved groups, in the saved order."
        )
    for name in ("log_weights", "pending"):
        tensor = state_dict.get(f"{prefix}{name}")
        if type(tensor) is Tensor and not tensor.is_meta and not bool(tensor.isfinite().all()):
            raise ValueError(
                f"`state_dict` has infinite or NaN values in `{prefix}{name}`: {tensor.tolist()!s:.200}. Load an "
                "earlier checkpoint."
            )


def _in_brackets(names: list[str] | None) -> str:
    return "" if names is None else f" ({', '.join(names)})"
