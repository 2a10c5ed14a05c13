"""Splits a recording at its pauses into pieces as long as utterances.

CTC recognizers are trained on utterances: one language each, normalized over their length. A recording that fits the
window is one piece. A longer one is cut in the middle of every pause that is long enough. If the window has none, it is
cut at its longest short pause. If there is none either, such as in music, the next piece overlaps the last by
`OVERLAP` seconds; labels count up to the middle of the overlap, so that each has context on both sides.

A frame is quiet if it is much quieter than the loudest frame shortly before it, and than the loudest shortly after it.
This adapts to the level of each voice and needs no estimate of the background noise.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..speech.audio import SAMPLE_RATE, Samples

HOP = SAMPLE_RATE // 100
HOPS_PER_SECOND = SAMPLE_RATE // HOP

DROP_DB = 25.0
CONTEXT_SECONDS = 2.0
PAUSE_SECONDS = 0.5
SHORT_PAUSE_SECONDS = 0.1
MIN_PIECE_SECONDS = 0.6
OVERLAP = 2.0


class Piece(NamedTuple):
    start: int
    """First sample, counted from the start of the recording."""
    samples: Samples
    kept: range
    """Samples whose labels count; the others are context."""
    continues: bool
    """Whether it continues the piece before it, without a pause."""


def split_at_pauses(blocks: Iterable[Samples], window_seconds: float) -> Iterator[Piece]:
    """The pieces of a recording, each of at most `window_seconds`; the kept samples of all pieces are the recording.

    Holds at most a window and a block in memory.
    """
    window = round(window_seconds * SAMPLE_RATE)
    overlap = min(round(OVERLAP * SAMPLE_RATE), window // 2)
    buffer = _Buffer(blocks)
    if len(buffer.peek(window + 1)) <= window:
        samples = buffer.peek(window)
        if len(samples):
            yield Piece(0, samples, range(len(samples)), continues=False)
        return
    start = kept_from = 0
    while len(samples := buffer.peek(window)):
        is_last = len(buffer.peek(window + 1)) <= window
        cut = find_cut(samples, kept_from - start, must_cut=not is_last)
        end = start + (cut or len(samples))
        kept_to = end - overlap // 2 if cut is None and not is_last else end
        yield Piece(start, samples[: end - start], range(kept_from, kept_to), continues=kept_from > start)
        buffer.drop(end - start if kept_to == end else end - start - overlap)
        start, kept_from = (end, end) if kept_to == end else (end - overlap, kept_to)


def find_cut(samples: Samples, earliest: int, must_cut: bool) -> int | None:
    """The sample at the middle of the first long pause; if there is none and `must_cut`, of the longest short one.

    Pauses before the sample `earliest` do not count: they belong to the piece before this one.
    """
    first, last = quiet_runs(loudness(samples))
    length, middle = last - first, (first + last) // 2
    is_inside = (middle >= MIN_PIECE_SECONDS * HOPS_PER_SECOND) & (last < len(samples) // HOP)
    is_inside &= middle * HOP > earliest
    long = np.flatnonzero(is_inside & (length >= PAUSE_SECONDS * HOPS_PER_SECOND))
    if len(long):
        return int(middle[long[0]]) * HOP
    short = np.flatnonzero(is_inside & (length >= SHORT_PAUSE_SECONDS * HOPS_PER_SECOND))
    if must_cut and len(short):
        return int(middle[short[np.argmax(length[short])]]) * HOP
    return None


def loudness(samples: Samples) -> npt.NDArray[np.float32]:
    """(F,) decibels of each 10 ms, smoothed over 50 ms."""
    num_hops = len(samples) // HOP
    power = np.einsum("fh,fh->f", *[samples[: num_hops * HOP].reshape(num_hops, HOP)] * 2) / HOP
    decibels = 10 * np.log10(power + 1e-10)
    return np.convolve(np.pad(decibels, 2, mode="edge"), np.full(5, 0.2), mode="valid") if num_hops else decibels


def quiet_runs(decibels: npt.NDArray[np.float32]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """First frame of each run of quiet frames, and the frame after its last."""
    loudest_before = _running_maximum(decibels, round(CONTEXT_SECONDS * HOPS_PER_SECOND))
    loudest_after = _running_maximum(decibels[::-1], round(CONTEXT_SECONDS * HOPS_PER_SECOND))[::-1]
    is_quiet = decibels < np.minimum(loudest_before, loudest_after) - DROP_DB
    change = np.diff(is_quiet.astype(np.int8), prepend=0, append=0)
    return np.flatnonzero(change == 1), np.flatnonzero(change == -1)


def _running_maximum(values: npt.NDArray[np.float32], width: int) -> npt.NDArray[np.float32]:
    """The maximum of each value and the `width - 1` before it."""
    padded = np.concatenate([np.full(width - 1, -np.inf, dtype=values.dtype), values])
    return np.lib.stride_tricks.sliding_window_view(padded, width).max(axis=1) if len(values) else values


class _Buffer:
    """The next samples of a stream of blocks."""

    def __init__(self, blocks: Iterable[Samples]) -> None:
        self._blocks = iter(blocks)
        self._samples: Samples = np.zeros(0, dtype=np.float32)

    def peek(self, number: int) -> Samples:
        """The next samples: `number` of them, or fewer at the end."""
        parts = [self._samples]
        available = len(self._samples)
        while available < number and (block := next(self._blocks, None)) is not None:
            parts.append(block)
            available += len(block)
        if len(parts) > 1:
            self._samples = np.concatenate(parts)
        return self._samples[:number]

    def drop(self, number: int) -> None:
        self._samples = self._samples[number:]
