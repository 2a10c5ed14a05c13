"""What the speech of a language is to be like, and the specs of the demonstration."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

SHORTEST, LONGEST = 0.4, 20.0  # seconds of an utterance
SLOWEST, FASTEST = 80, 450  # words a minute that eSpeak NG can do
MOST_MINUTES = 100_000


@dataclass(frozen=True)
class SpeechSpec:
    """What the speech of one language is like.

    Example:
        >>> SpeechSpec(duration=4.0, spread=1.7, snr=(10.0, 20.0)).num_speakers
        4
        >>> SpeechSpec(train_minutes=0)
        Traceback (most recent call last):
        ValueError: `train_minutes` must be a number from 0.01 to 100000; got 0.
    """

    duration: float = 4.0
    """Mean of the utterances, in seconds; each has between 0.4 and 20."""
    spread: float = 1.5
    """Standard deviation of their durations, in seconds."""
    words_per_minute: tuple[float, float] = (120.0, 160.0)
    """Slowest and fastest speaker, as eSpeak NG counts."""
    num_words: int = 500
    """How many words sentences are made of: the most frequent, or all where there are fewer."""
    num_speakers: int = 4
    snr: tuple[float, float] | None = None
    """Speech over noise, least and most, in decibels; None for no noise."""
    reverberation: float = 0.0
    """Seconds in which the echo of the room falls by 60 decibels; 0 for no room."""
    train_minutes: float = 10.0
    dev_minutes: float = 2.0
    test_minutes: float = 5.0

    def __post_init__(self) -> None:
        _check_number(self, "duration", SHORTEST, LONGEST)
        _check_number(self, "spread", 0, LONGEST)
        _check_number(self, "reverberation", 0, 10)
        _check_number(self, "train_minutes", 0.01, MOST_MINUTES)
        _check_number(self, "dev_minutes", 0, MOST_MINUTES)
        _check_number(self, "test_minutes", 0, MOST_MINUTES)
        for name, least, most in (("num_words", 2, 100_000), ("num_speakers", 1, 1_000)):
            value = getattr(self, name)
            is_right = isinstance(value, int) and least <= value <= most
            _check(is_right, self, name, f"a whole number from {least} to {most:,}")
        for name, least, most in (("words_per_minute", SLOWEST, FASTEST), ("snr", -30, 100)):
            value = getattr(self, name)
            is_right = (value is None and name == "snr") or (
                _is_range(value) and least <= value[0] and value[1] <= most
            )
            _check(is_right, self, name, f"two numbers from {least} to {most}, the smaller first")


def _check_number(spec: SpeechSpec, name: str, least: float, most: float) -> None:
    value = getattr(spec, name)
    _check(_is_number(value) and least <= value <= most, spec, name, f"a number from {least:g} to {most:g}")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_range(value: Any) -> bool:
    return isinstance(value, tuple | list) and len(value) == 2 and all(map(_is_number, value)) and value[0] <= value[1]


def _check(is_right: bool, spec: SpeechSpec, name: str, expected: str) -> None:
    if not is_right:
        raise ValueError(f"`{name}` must be {expected}; got {getattr(spec, name)!r}.")


# The durations of the paper's first set, times 0.3; Korean stands for Min Nan, which eSpeak NG does not speak.
_PACE = (105.0, 130.0)
DEMO_SPECS = {
    "ces": SpeechSpec(duration=1.2, spread=0.51, words_per_minute=_PACE, snr=(20.0, 35.0)),
    "cmn": SpeechSpec(duration=3.1, spread=1.05, words_per_minute=(145.0, 175.0), snr=(12.0, 22.0), num_words=600),
    "kor": SpeechSpec(duration=1.1, spread=0.21, words_per_minute=_PACE, snr=(12.0, 20.0)),
    "pol": SpeechSpec(duration=2.25, spread=0.9, words_per_minute=_PACE, snr=(18.0, 30.0)),
    "ron": SpeechSpec(duration=3.8, spread=0.93, words_per_minute=_PACE, snr=(22.0, 35.0)),
    "spa": SpeechSpec(duration=2.4, spread=0.66, words_per_minute=_PACE, snr=(25.0, 35.0)),
}
