"""Objectives: the losses of a batch and their groups -> one number to minimize.

    erm()                   the plain sum, to compare with
    group_dro()             Algorithm 1 of the paper
    ctc_dro()               Algorithm 2 of the paper
    ctc_dro_unsmoothed()    its ablation: Algorithm 2 with the weight update of Algorithm 1
    CTCDROLoss              ctc_dro() as a drop-in for `torch.nn.CTCLoss`

All are modules called as `objective(losses, groups)`, with losses of any kind, one for each utterance. What one can
rely on:

* `weights` is on the simplex and carries no gradient;
* `state_dict()` holds all that later updates depend on, as tensors only: a run restored at any batch continues exactly;
* a loss of +inf, from a transcript that does not fit its frames, is skipped: it is excluded from the update, the value
  and the gradient, and counted in `num_skipped`;
* a loss of NaN or -inf is returned, so that a diverged model never looks like a good one. It does not change the
  weights, so a step that is skipped because of it leaves the objective intact, on every rank;
* in evaluation mode the result is the plain sum without +inf, and the weights do not change;
* where `torch.distributed` runs, losses are pooled over its ranks and all ranks hold the same weights, bit for bit.
  Ranks must therefore call the objective equally often in training mode; the samplers of `ctcdro.sampling` do;
* the host never waits for the device.
"""

from __future__ import annotations

import json
import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import ModuleType
from typing import Any, Literal, TypeAlias, TypedDict, Unpack, get_args

import torch
import torch.distributed
from torch import Tensor, nn

from ..runtime.arguments import is_whole_number
from . import steps_python as on_host
from . import steps_tensor as on_device
from .ctc import ctc_losses
from .weights import BOUND, Exponent, add_and_normalize, exponential_exponent, not_negative, smoothed_exponent

Reduction: TypeAlias = Literal["sum", "mean"]

# Group numbers, or names if the objective was created with `group_names`.
Groups: TypeAlias = Tensor | Sequence[int] | Sequence[str]

# Once this many sums are pending per group, on average, a group without any is reported as absent.
ABSENT_AFTER = 100


class Shared(TypedDict, total=False):
    """Arguments that every objective takes."""

    group_names: Sequence[str] | None
    """The name of each group, in the order of their numbers. A state that was saved for other groups is then
    refused."""
    process_group: torch.distributed.ProcessGroup | None
    """The ranks of `torch.distributed` that see different data, over which losses are pooled; by default all."""


def erm(num_groups: int, *, reduction: Reduction = "sum", **shared: Unpack[Shared]) -> Objective:
    """Empirical risk minimization: every loss counts the same. The baseline, on the same footing as `ctc_dro`.

    Args:
        num_groups: how many groups there are.
        reduction: "sum" or "mean" of the losses of a batch.
        **shared: `group_names` and `process_group`; see `Shared`.

    Example:
        >>> erm(num_groups=2)(torch.tensor([3.0, 4.0]), torch.tensor([0, 1]))
        tensor(7.)
    """
    return ERM(num_groups, reduction=reduction, **shared)


def group_dro(num_groups: int, *, step_size: float, **shared: Unpack[Shared]) -> Objective:
    r"""Group DRO (Algorithm 1 of the paper; Sagawa et al., 2020).

    Every batch updates the weights with the mean loss :math:`L_g` of each group in it; the result is :math:`\sum_g q_g
    L_g`, over the groups in the batch. Algorithm 1 as printed multiplies by :math:`q_g` once more in its last line,
    which its authors do not do.

    On several ranks the batches of all ranks count as one: the mean of what they return is what one process would
    return.

    Args:
        num_groups: how many groups there are.
        step_size: eta_q of the paper, which tries 1e-3 and 1e-4.
        **shared: `group_names` and `process_group`; see `Shared`.

    Example:
        >>> objective = group_dro(num_groups=2, step_size=0.01)
        >>> objective(torch.tensor([30.0, 50.0, 20.0]), torch.tensor([0, 0, 1]))
        tensor(30.9967)
        >>> objective.weights
        tensor([0.5498, 0.4502])
    """
    exponent = partial(exponential_exponent, step_size=not_negative("step_size", step_size))
    return GroupDRO(num_groups, exponent=exponent, **shared)


def ctc_dro(
    num_groups: int,
    *,
    step_size: float,
    smoothing: float,
    reduction: Reduction = "sum",
    loss_scales: Sequence[float] | None = None,
    **shared: Unpack[Shared],
) -> Objective:
    r"""CTC-DRO (Algorithm 2 of the paper).

    For each batch: the sum of its losses joins those of its group that wait; once every group has one, the weights are
    updated with each group's mean (`ctcdro.smoothed_update`), and none wait any more; then the batch counts with the
    new weights, :math:`|G| \sum_i q_{g(i)} \ell_i`. A batch may mix groups; the sum of each is one entry. Feed it
    batches of one total duration (`ctcdro.LengthMatchedBatchSampler`), or sums will not be comparable.

    Args:
        num_groups: how many groups there are.
        step_size: eta_q of the paper, which tries 1e-3 and 1e-4.
        smoothing: alpha of the paper, which tries 0.1, 0.5 and 1.
        reduction: "sum" is the paper's. "mean" divides the result by the number of losses that were not skipped, as
            the authors' code does; the weights are updated from the sum in either case. With batches of unequal size
            these are two different algorithms.
        loss_scales: one for each group; the update of the weights sees a group's loss times its scale, the gradient
            does not. Not in the paper. In batches of one duration, groups are compared by their loss a second; with
            `scales_per_label` they are compared by their loss a label.
        **shared: `group_names` and `process_group`; see `Shared`.

    Example:
        >>> objective = ctc_dro(num_groups=2, step_size=1e-3, smoothing=0.5)
        >>> objective(torch.tensor([120.0, 80.0]), torch.tensor([0, 0]))
        tensor(200.)
        >>> objective(torch.tensor([60.0, 40.0]), torch.tensor([1, 1]))
        tensor(95.0042)
        >>> objective.weights
        tensor([0.5250, 0.4750])
    """
    exponent = partial(
        smoothed_exponent,
        step_size=not_negative("step_size", step_size),
        smoothing=not_negative("smoothing", smoothing),
    )
    return CTCDRO(num_groups, exponent=exponent, reduction=reduction, loss_scales=loss_scales, **shared)


def ctc_dro_unsmoothed(
    num_groups: int,
    *,
    step_size: float,
    reduction: Reduction = "sum",
    loss_scales: Sequence[float] | None = None,
    **shared: Unpack[Shared],
) -> Objective:
    """CTC-DRO without smoothing, the paper's ablation "- Smooth": `ctc_dro` with the weight update of `group_dro`.

    Example:
        >>> objective = ctc_dro_unsmoothed(num_groups=2, step_size=1e-3)
        >>> objective(torch.tensor([200.0, 100.0]), torch.tensor([0, 1]))
        tensor(304.9958)
    """
    exponent = partial(exponential_exponent, step_size=not_negative("step_size", step_size))
    return CTCDRO(num_groups, exponent=exponent, reduction=reduction, loss_scales=loss_scales, **shared)


def scales_per_label(num_labels: Sequence[float], durations: Sequence[float]) -> list[float]:
    """Scales with which `ctc_dro` compares groups by their loss a label instead of their loss a second.

    A language with many characters a second has much loss a second even where few of its characters are wrong, and one
    with few has little where most are; the weights then go to the wrong one. The mean of the scales is one, so that
    step sizes keep their meaning.

    Args:
        num_labels: (G,) labels in all utterances of each group.
        durations: (G,) seconds of all utterances of each group.

    Example:
        >>> scales_per_label([1500, 500], durations=[100, 100])  # 15 and 5 characters a second
        [0.5, 1.5]
    """
    if len(num_labels) != len(durations) or not all(x > 0 for x in (*num_labels, *durations)):
        raise ValueError(
            "`num_labels` and `durations` must have a positive number for each group; "
            f"got {list(num_labels)} and {list(durations)}."
        )
    seconds_a_label = [seconds / number for seconds, number in zip(durations, num_labels, strict=True)]
    mean = sum(seconds_a_label) / len(seconds_a_label)
    return [seconds / mean for seconds in seconds_a_label]


class CTCDROLoss(nn.Module):
    """CTC-DRO in the place of `torch.nn.CTCLoss`: the same arguments, and the group of each utterance.

    There is no `zero_infinity`: an utterance whose transcript does not fit into its frames is always skipped, and
    counted in `num_skipped`. Call `eval()` before validation, as you do for the model; otherwise the weights change.

    Args:
        num_groups, step_size, smoothing, reduction, group_names, process_group, loss_scales: as for `ctc_dro`.
        blank: the label that stands for no output.

    Example:
        >>> criterion = CTCDROLoss(num_groups=6, step_size=1e-4, smoothing=0.1)
        >>> log_probs = torch.zeros(50, 2, 20).log_softmax(-1)  # (frames, utterances, labels)
        >>> targets, groups = torch.randint(1, 20, (2, 10)), torch.tensor([3, 3])
        >>> criterion(log_probs, targets, torch.tensor([50, 40]), torch.tensor([10, 7]), groups).shape
        torch.Size([])
    """

    def __init__(
        self,
        num_groups: int,
        step_size: float,
        smoothing: float,
        blank: int = 0,
        reduction: Reduction = "sum",
        group_names: Sequence[str] | None = None,
        process_group: torch.distributed.ProcessGroup | None = None,
        loss_scales: Sequence[float] | None = None,
    ) -> None:
        super().__init__()
        self.blank = blank
        self.objective = ctc_dro(
            num_groups,
            step_size=step_size,
            smoothing=smoothing,
            reduction=reduction,
            loss_scales=loss_scales,
            group_names=group_names,
            process_group=process_group,
        )

    @property
    def weights(self) -> Tensor:
        """(G,) the weight of each group."""
        return self.objective.weights

    @property
    def num_skipped(self) -> Tensor:
        """(G,) utterances skipped because their transcript does not fit their frames."""
        return self.objective.num_skipped

    def forward(
        self,
        log_probs: Tensor,
        targets: Tensor,
        input_lengths: Tensor | list[int],
        target_lengths: Tensor | list[int],
        groups: Groups,
    ) -> Tensor:
        """Returns the number to minimize.

        Args:
            log_probs, targets, input_lengths, target_lengths: as for `ctc_losses`.
            groups: (N,) the group of each utterance, as a number; or as a name, with `group_names`.
        """
        return self.objective(ctc_losses(log_probs, targets, input_lengths, target_lengths, self.blank), groups)

    def extra_repr(self) -> str:
        return f"blank={self.blank}"


class Objective(nn.Module, ABC):
    """What all objectives share. Make one with `erm`, `group_dro`, `ctc_dro` or `ctc_dro_unsmoothed`."""

    log_weights: Tensor
    """(G,)"""
    pending: Tensor
    """(2, G): for each group the sum of the losses that wait for the next update, and how many they are."""
    num_skipped: Tensor
    """(G,) losses of +inf, which were skipped."""

    # How many losses of a group count in a batch; see `on_device.gather`.
    count_at_most = math.inf

    _settings: Mapping[str, float] = {}

    def __init__(
        self,
        num_groups: int,
        *,
        reduction: Reduction = "sum",
        group_names: Sequence[str] | None = None,
        process_group: torch.distributed.ProcessGroup | None = None,
    ) -> None:
        super().__init__()
        if reduction not in get_args(Reduction):
            raise ValueError(
                f'`reduction` must be "sum" (the paper) or "mean" (the authors\' code); got {reduction!r}.'
            )
        if not is_whole_number(num_groups) or num_groups < 1:
            raise ValueError(f"`num_groups` must be a whole number, at least 1; got {num_groups!r}.")
        if group_names is not None and not (
            len(group_names) == len(set(group_names)) == num_groups
            and all(isinstance(name, str) for name in group_names)
        ):
            raise ValueError(
                f"`group_names` must be {num_groups} different names, one for each group; got {list(group_names)}."
            )
        if process_group is not None and torch.distributed.get_rank(process_group) < 0:
            raise ValueError("`process_group` must have this rank in it, or its losses would be weighed by nothing.")
        self.num_groups = num_groups = int(num_groups)
        self.reduction = reduction
        self.group_names = None if group_names is None else list(group_names)
        self._process_group = process_group
        self._warned_of: set[str] = set()
        # Whatever the default: half precision would round small steps away.
        self.register_buffer("log_weights", torch.full((num_groups,), -math.log(num_groups), dtype=torch.float32))
        self.register_buffer("pending", torch.zeros(2, num_groups, dtype=torch.float32))
        self.register_buffer("num_skipped", torch.zeros(num_groups, dtype=torch.int64))
        self.register_load_state_dict_pre_hook(_refuse_bad_state)

    @property
    def weights(self) -> Tensor:
        """(G,) the weight of each group, on the simplex."""
        return self.log_weights.exp()

    def forward(self, losses: Tensor, groups: Groups) -> Tensor:
        """Returns the number to minimize, shape ().

        Args:
            losses: (B,) one per utterance.
            groups: (B,) the group of each utterance, as a number; or as a name, with `group_names`.
        """
        groups = self._numbers(groups)
        if losses.ndim != 1 or losses.shape != groups.shape:
            raise ValueError(
                "`losses` and `groups` must both have one entry for each utterance, shape (batch,); "
                f"got {tuple(losses.shape)} and {tuple(groups.shape)}."
            )
        if not losses.is_floating_point():
            raise ValueError(f"`losses` must be floating-point numbers; got {losses.dtype}.")
        if groups.is_floating_point() or groups.is_complex() or groups.dtype == torch.bool:
            raise ValueError(f"`groups` must be whole numbers, the group of each utterance; got {groups.dtype}.")
        if losses.dtype in (torch.float16, torch.bfloat16):
            losses = losses.to(torch.float32)  # sums of them may be beyond these
        steps = on_host if on_host.can_read(losses, groups) else on_device
        if not self.training:
            if steps is on_host:
                self._warn_if_all_skipped(losses, groups)
            return losses.masked_fill(losses == math.inf, 0.0).sum()
        if steps is on_device or groups.dtype != torch.int64:
            groups = groups.to(losses.device, torch.int64, non_blocking=True)
        num_kept = (losses != math.inf).sum() if self.reduction == "mean" else None
        kept = self._gather(losses, groups, steps)
        if steps is on_host and kept is not losses:
            self._warn_if_all_skipped(losses, groups)
        loss = self._weigh(kept, groups, steps)
        return loss if num_kept is None else loss / num_kept.clamp(min=1)

    def _numbers(self, groups: Groups) -> Tensor:
        if isinstance(groups, Tensor):
            return groups
        names = [group for group in groups if isinstance(group, str)] if isinstance(groups, Iterable) else []
        if not names:
            numbers = torch.as_tensor(groups)
            return numbers if numbers.numel() else numbers.to(torch.int64)
        if self.group_names is None:
            raise ValueError(
                f"`groups` has names ({names[0]!r}, ...), but this objective has no group names. Create it with "
                "`group_names`, or pass group numbers."
            )
        number_of = {name: number for number, name in enumerate(self.group_names)}
        unknown = [name for name in groups if name not in number_of]
        if unknown and self.training:  # evaluation does not use groups
            raise ValueError(
                f"`groups` has {unknown[0]!r}, which is not in `group_names`: {', '.join(self.group_names)}."
            )
        return torch.tensor([number_of.get(name, 0) for name in names])

    def _warn_if_all_skipped(self, losses: Tensor, groups: Tensor) -> None:
        if len(losses) and bool((losses == math.inf).all()):
            # In evaluation, groups may be unknown to the objective.
            which = f" (groups: {self._named(groups.unique().tolist())})" if self.training else ""
            self._warn_once(
                "all skipped",
                f"Every loss of a batch is infinite{which}: no transcript fits its frames. The batch is skipped. Check "
                "`input_lengths`, which count frames after subsampling, and `target_lengths`.",
            )

    def _warn_once(self, kind: str, message: str) -> None:
        if kind not in self._warned_of:
            self._warned_of.add(kind)
            warnings.warn(message, stacklevel=6)  # where the objective is called

    def _named(self, groups: Iterable[int]) -> str:
        return ", ".join(str(group) if self.group_names is None else self.group_names[group] for group in groups)

    def _gather(self, losses: Tensor, groups: Tensor, steps: ModuleType) -> Tensor:
        """Adds the finite losses of all ranks to the pending sums; returns those of this rank, zero for +inf."""
        if not _is_distributed():
            return steps.gather(self.pending, self.num_skipped, losses, groups, self.count_at_most)
        totals = self.pending.new_zeros(3, self.num_groups)
        losses = steps.gather(totals[:2], totals[2], losses, groups, self.count_at_most)
        torch.distributed.all_reduce(totals, group=self._process_group)  # all ranks reach this line
        self.pending.add_(totals[:2])
        self.num_skipped.add_(totals[2].to(torch.int64))
        return losses

    @abstractmethod
    def _weigh(self, losses: Tensor, groups: Tensor, steps: ModuleType) -> Tensor:
        """Updates the weights from the pending sums, and returns the number to minimize.

        Args:
            losses: (B,) of this rank; those of +inf are zero.
            groups: (B,) of this rank.
            steps: `on_host` or `on_device`.
        """

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Objective:
        # `model.half()` must not round the weights of a criterion that is part of the model; devices are followed.
        return super()._apply(lambda tensor: fn(tensor) if tensor.is_meta else tensor.to(fn(tensor).device), recurse)

    def extra_repr(self) -> str:
        settings = {"num_groups": self.num_groups, **self._settings, "reduction": self.reduction}
        return ", ".join(f"{name}={value!r}" for name, value in settings.items())

    def get_extra_state(self) -> Tensor:
        return torch.tensor(list(json.dumps(self.group_names).encode()), dtype=torch.uint8)

    def set_extra_state(self, state: Tensor) -> None:
        """Nothing to do: `_refuse_bad_state` has checked the names."""


class ERM(Objective):
    def _weigh(self, losses: Tensor, groups: Tensor, steps: ModuleType) -> Tensor:
        self.pending.zero_()
        return losses.sum()


class GroupDRO(Objective):
    def __init__(self, num_groups: int, *, exponent: Exponent, **shared: Unpack[Shared]) -> None:
        super().__init__(num_groups, reduction="sum", **shared)
        self.exponent = exponent
        self._settings = getattr(exponent, "keywords", {})

    def _weigh(self, losses: Tensor, groups: Tensor, steps: ModuleType) -> Tensor:
        sums, numbers = self.pending[0], self.pending[1].clamp(min=1)
        means = (sums / numbers).clamp(-BOUND, BOUND)  # zero for a group that is not in the batch
        self.log_weights.copy_(add_and_normalize(self.log_weights, self.exponent(means, self.weights)))
        self.pending.zero_()
        # Each rank has a part of every group, and gradients are averaged over ranks, not summed: hence their number.
        num_ranks = torch.distributed.get_world_size(self._process_group) if _is_distributed() else 1
        return torch.dot((num_ranks * self.weights / numbers)[groups].to(losses.dtype), losses)


class CTCDRO(Objective):
    """See `ctc_dro` and `ctc_dro_unsmoothed`."""

    count_at_most = 1.0  # the sum over a group in a batch is one entry, of however many losses

    loss_scales: Tensor | None
    """(G,)"""

    def __init__(
        self,
        num_groups: int,
        *,
        exponent: Exponent,
        reduction: Reduction,
        loss_scales: Sequence[float] | None = None,
        **shared: Unpack[Shared],
    ) -> None:
        super().__init__(num_groups, reduction=reduction, **shared)
        self.exponent = exponent
        self._settings = getattr(exponent, "keywords", {})
        if loss_scales is not None and not (
            len(loss_scales) == num_groups and all(0 < scale < math.inf for scale in loss_scales)
        ):
            raise ValueError(
                f"`loss_scales` must be {num_groups} positive numbers, one for each group; got {list(loss_scales)}."
            )
        scales = None if loss_scales is None else torch.tensor(loss_scales, dtype=torch.float32)
        self.register_buffer("loss_scales", scales, persistent=False)  # a setting, as the step size is

    def _weigh(self, losses: Tensor, groups: Tensor, steps: ModuleType) -> Tensor:
        steps.update_when_complete(self.log_weights, self.pending, self.exponent, self.loss_scales)
        if steps is on_host and "absent" not in self._warned_of:
            self._warn_of_absent_groups()
        return steps.weighted_sum(self.log_weights, losses, groups, self.num_groups)

    def _warn_of_absent_groups(self) -> None:
        _, counts = self.pending.tolist()
        if sum(counts) >= ABSENT_AFTER * self.num_groups:  # some group has none, or there would have been an update
            absent = [group for group, count in enumerate(counts) if count == 0]
            self._warn_once(
                "absent",
                f"Group weights have not changed for at least {max(counts):,.0f} batches, because none had a finite "
                f"loss of these groups: {self._named(absent)}. An update needs every group. Check their data, sample "
                "them more often, or create the objective without them.",
            )


def _is_distributed() -> bool:
    return torch.distributed.is_available() and torch.distributed.is_initialized()


def _refuse_bad_state(module: nn.Module, state_dict: dict[str, Any], prefix: str, *_: Any) -> None:
    """Runs before a state is loaded, so that a rejected state leaves the objective unchanged."""
    assert isinstance(module, Objective)
    if f"{prefix}log_weights" not in state_dict:
        return  # not ours to report: PyTorch lists missing keys
    num_saved = len(state_dict[f"{prefix}log_weights"])
    saved = json.loads(bytes(state_dict.get(f"{prefix}_extra_state", torch.tensor([])).tolist()) or "null")
    both_named = saved is not None and module.group_names is not None
    if num_saved != module.num_groups or (both_named and saved != module.group_names):
        raise ValueError(
            f"`state_dict` holds the weights of {num_saved} groups{_listed(saved)}, "
            f"but this objective has {module.num_groups}{_listed(module.group_names)}; weights would go to the wrong "
            "groups. Load it with the groups it was saved with, in that order."
        )
    for name in ("log_weights", "pending"):
        tensor = state_dict.get(f"{prefix}{name}")
        if type(tensor) is Tensor and not tensor.is_meta and not bool(tensor.isfinite().all()):
            raise ValueError(
                f"`state_dict` has values in `{prefix}{name}` that are not finite: {tensor.tolist()!s:.200}. Load an "
                "earlier checkpoint."
            )


def _listed(names: list[str] | None) -> str:
    return "" if names is None else f" ({', '.join(names)})"
