"""Warnings about utterances and groups that do not fit the batch duration."""

from __future__ import annotations

import logging
from collections.abc import Callable

import numpy as np

from .batch_arrays import Durations, Indices, Seconds

logger = logging.getLogger(__name__)

MAX_NAMED = 5  # groups to list in a warning; of further groups, only the number is reported

_ASK_UNITS = " Are durations and `batch_duration` both in seconds?"


def warn_of_long_utterances(durations: Durations, batch_duration: Seconds, where: Callable[[int], str] | None) -> None:
    too_long = np.flatnonzero(durations > batch_duration)
    if not len(too_long):
        return
    longest = int(too_long[durations[too_long].argmax()])
    name = f"number {longest}" if where is None else where(longest)
    question = _ASK_UNITS if 2 * len(too_long) > len(durations) else ""
    logger.warning(
        f"{len(too_long):,} of {len(durations):,} utterances are longer than `batch_duration` ({batch_duration:g} s) "
        f"and form their own batches. The longest, {name}, has {durations[longest]:g} s.{question} Raise "
        "`batch_duration`, or exclude long utterances."
    )


def warn_of_small_groups(
    too_small: Indices, audio: Durations, batch_duration: Seconds, exponent: float, name: Callable[[int], str]
) -> None:
    if not len(too_small):
        return
    smallest = too_small[audio[too_small].argsort(kind="stable")][:MAX_NAMED].tolist()
    listed = [f"{name(group)} ({audio[group]:g} s)" for group in smallest]
    listed += [f"{len(too_small) - MAX_NAMED:,} more"] if len(too_small) > MAX_NAMED else []
    treatment = "Their batches are short" if exponent == 1 else "Each batch repeats them"
    logger.warning(
        f"Some groups have less audio than one batch of {batch_duration:g} s: {', '.join(listed)}. {treatment}."
        f"{_ASK_UNITS if 2 * len(too_small) > len(audio) else ''}"
    )
