"""Subtitles: short texts with times, in the formats SubRip (SRT) and WebVTT.

A cue has at most two lines of 42 columns and lasts at most 7 s. It ends at a pause of 1 s or at the end of a segment.
A cue stays visible for at least 1 s, unless the next one begins earlier.
"""

from __future__ import annotations

import html
import unicodedata
from collections.abc import Iterator
from typing import NamedTuple

from .transcript import RecordingTranscript, Segment, TimedCharacter

MAX_COLUMNS = 42
MAX_LINES = 2
MAX_SECONDS = 7.0
MIN_SECONDS = 1.0
PAUSE_SECONDS = 1.0


class Cue(NamedTuple):
    start: float
    end: float
    lines: list[str]


def make_cues(transcript: RecordingTranscript) -> list[Cue]:
    """The cues of a transcript, in order and without overlap."""
    cues = [cue for segment in transcript.segments for cue in _segment_cues(segment)]
    following = [*(cue.start for cue in cues), float("inf")][1:]
    return [
        cue._replace(end=min(max(cue.end, cue.start + MIN_SECONDS), start))
        for cue, start in zip(cues, following, strict=True)
    ]


def to_srt(transcript: RecordingTranscript) -> str:
    """The subtitles as an SRT file."""
    blocks = []
    for number, cue in enumerate(make_cues(transcript), start=1):
        text = "\n".join(cue.lines).replace("-->", "->")  # readers take it for a line of times
        blocks.append(f"{number}\n{_clock(cue.start, ',')} --> {_clock(cue.end, ',')}\n{text}\n")
    return "\n".join(blocks)


def to_vtt(transcript: RecordingTranscript) -> str:
    """The subtitles as a WebVTT file."""
    blocks = ["WEBVTT\n"]
    for cue in make_cues(transcript):
        text = html.escape("\n".join(cue.lines), quote=False)
        blocks.append(f"{_clock(cue.start, '.')} --> {_clock(cue.end, '.')}\n{text}\n")
    return "\n".join(blocks)


class _Chunk(NamedTuple):
    """A word, or a part of a word that is longer than a line."""

    text: str
    start: float
    end: float
    begins_word: bool


def _segment_cues(segment: Segment) -> Iterator[Cue]:
    lines: list[str] = []
    start = end = 0.0
    for chunk in _chunks(segment):
        extended = _append(lines, chunk)
        is_full = len(extended) > MAX_LINES or chunk.end - start > MAX_SECONDS
        if lines and (is_full or chunk.start - end >= PAUSE_SECONDS):
            yield Cue(start, end, lines)
            extended = _append([], chunk)
            start = chunk.start
        elif not lines:
            start = chunk.start
        lines, end = extended, chunk.end
    if lines:
        yield Cue(start, end, lines)


def _append(lines: list[str], chunk: _Chunk) -> list[str]:
    if not lines:
        return [chunk.text]
    joined = lines[-1] + (" " if chunk.begins_word else "") + chunk.text
    return [*lines[:-1], joined] if _columns(joined) <= MAX_COLUMNS else [*lines, chunk.text]


def _chunks(segment: Segment) -> Iterator[_Chunk]:
    for word in segment.words:
        part: list[TimedCharacter] = []
        begins_word = True
        for character in word.characters:
            if part and _columns("".join(one.text for one in part) + character.text) > MAX_COLUMNS:
                yield _chunk(part, begins_word)
                part, begins_word = [], False
            part.append(character)
        yield _chunk(part, begins_word)


def _chunk(characters: list[TimedCharacter], begins_word: bool) -> _Chunk:
    text = "".join(character.text for character in characters)
    return _Chunk(text, characters[0].start, characters[-1].end, begins_word)


def _columns(text: str) -> int:
    """Columns on a screen: Chinese characters take two, and combining marks none."""
    return sum(
        2 if unicodedata.east_asian_width(letter) in "WF" else not unicodedata.combining(letter) for letter in text
    )


def _clock(seconds: float, separator: str) -> str:
    milliseconds = round(seconds * 1000)
    minutes, rest = divmod(milliseconds, 60_000)
    return f"{minutes // 60:02}:{minutes % 60:02}:{rest // 1000:02}{separator}{rest % 1000:03}"
