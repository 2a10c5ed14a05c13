"""Numbers that callers pass for every group: by group number, or by group name."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import torch
from torch import Tensor

# (G,) ordered by group number; or by group name, if the objective was created with `group_names`.
Rates: TypeAlias = Tensor | Sequence[float] | Mapping[str, float]


def numbers_by_group(
    name: str, values: Rates, num_groups: int, group_names: Sequence[str] | None, meaning: str = "error rate"
) -> Tensor:
    """(G,) finite, non-negative numbers, in single precision. Names of other groups are ignored.

    Args:
        name: the argument, for errors.
        meaning: of one number, for errors.
    """
    numbers = _by_number(name, values, group_names or [], meaning) if isinstance(values, Mapping) else values
    tensor = torch.as_tensor(numbers, dtype=torch.float32)
    if tensor.shape != (num_groups,) or not bool(((tensor >= 0) & (tensor < math.inf)).all()):
        raise ValueError(
            f"`{name}` must be {num_groups} finite, non-negative numbers, one per group; got {numbers!r:.200}."
        )
    return tensor


def _by_number(name: str, values: Mapping[str, float], group_names: Sequence[str], meaning: str) -> list[float]:
    missing = [group for group in group_names if group not in values]
    if missing or not group_names:
        found = "this objective has no group names" if not group_names else f"{', '.join(missing)} missing"
        raise ValueError(f"`{name}` must have the {meaning} of every group by name; {found}.")
    return [values[group] for group in group_names]
