"""Checks of the samplers' data: durations and groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from .packed_batches import Durations, Indices

Numbers: TypeAlias = npt.ArrayLike | Sequence[float]


def check_durations(durations: Numbers) -> Durations:
    array = _as_array("durations", durations)
    if array.dtype.kind not in "fiu":
        raise ValueError(f"`durations` must be numbers of seconds; got {array.dtype}.")
    array = array.astype(np.float64)
    wrong = np.flatnonzero(~(np.isfinite(array) & (array > 0)))
    if len(wrong):
        raise ValueError(
            f"`durations` must be positive seconds; utterance {wrong[0]} has {array[wrong[0]]:g} "
            f"({len(wrong)} such in all). Remove these utterances, or fix their durations."
        )
    return array


def check_groups(groups: Numbers, num_utterances: int | None = None) -> Indices:
    array = _as_array("groups", groups)
    if not np.issubdtype(array.dtype, np.integer):
        raise ValueError(
            f"`groups` must be whole numbers, the group of each utterance; got {array.dtype}. "
            "`Manifest.groups()` numbers names."
        )
    if num_utterances is not None and len(array) != num_utterances:
        raise ValueError(
            f"`groups` has {len(array):,} entries, `durations` {num_utterances:,}; each utterance needs both."
        )
    if array.min() < 0:
        raise ValueError(f"`groups` must be numbered from 0; utterance {array.argmin()} has {array.min()}.")
    empty = np.setdiff1d(np.arange(min(array.max(), len(array)) + 1), array)
    if len(empty):
        raise ValueError(
            f"`groups` has no utterance of group {empty[0]} (numbers go up to {array.max()}); weights would never be "
            "updated. Number the groups that have utterances from 0 on."
        )
    return array.astype(np.int64)


def _as_array(name: str, values: Numbers) -> npt.NDArray:
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise ValueError(f"`{name}` must have one number for each utterance: {error}") from error
    if array.ndim != 1 or len(array) == 0:
        raise ValueError(f"`{name}` must have one entry for each of one or more utterances; got shape {array.shape}.")
    return array
