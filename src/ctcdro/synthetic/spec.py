"""Specifications of synthetic speech, including those of the demo."""

from __future__ import annotations

from dataclasses import dataclass

SHORTEST, LONGEST = 0.4, 20.0  # seconds per utterance
SLOWEST, FASTEST = 80, 450  # words per minute that eSpeak NG supports
MAX_MINUTES = 100_000


@dataclass(frozen=True)
class SpeechSpec:
    """The speech of one language."""

    duration: float = 4.0
    """Mean duration of the utterances, in seconds; each lasts between 0.4 and 20."""
    spread: float = 1.5
    """Standard deviation of their durations, in seconds."""
    words_per_minute: tuple[float, float] = (120.0, 160.0)
    """Speaking rates of the slowest and the fastest speaker, in words per minute."""
    num_words: int = 500
    """Vocabulary size: the most frequent words, or all if there are fewer."""
    num_speakers: int = 4
    snr: tuple[float, float] | None = None
    """Lowest and highest signal-to-noise ratio, in decibels; None for no noise."""
    reverberation: float = 0.0
    """Reverberation time: seconds until reverberation decays by 60 decibels; 0 for none."""
    train_minutes: float = 10.0
    dev_minutes: float = 2.0
    test_minutes: float = 5.0

    def __post_init__(self) -> None:
        for name, (least, most) in _LIMITS.items():
            value = getattr(self, name)
            if name == "snr" and value is None:
                continue
            if name in ("words_per_minute", "snr"):
                is_valid = isinstance(value, tuple | list) and len(value) == 2 and least <= value[0] <= value[1] <= most
                expected = f"two numbers from {least} to {most} in increasing order"
            elif name.startswith("num_"):
                is_valid = isinstance(value, int) and least <= value <= most
                expected = f"an integer from {least} to {most:,}"
            else:
                is_valid = least <= value <= most
                expected = f"a number from {least:g} to {most:g}"
            if not is_valid:
                raise ValueError(f"`{name}` must be {expected}; got {value!r}.")


_LIMITS: dict[str, tuple[float, float]] = {
    "duration": (SHORTEST, LONGEST),
    "spread": (0, LONGEST),
    "words_per_minute": (SLOWEST, FASTEST),
    "num_words": (2, 100_000),
    "num_speakers": (1, 1_000),
    "snr": (-30, 100),
    "reverberation": (0, 10),
    "train_minutes": (0.01, MAX_MINUTES),
    "dev_minutes": (0, MAX_MINUTES),
    "test_minutes": (0, MAX_MINUTES),
}

# The durations of the paper's set 1, times 0.3. Korean replaces Min Nan, for which eSpeak NG has no voice.
_PACE = (105.0, 130.0)
DEMO_SPECS = {
    "ces": SpeechSpec(duration=1.2, spread=0.51, words_per_minute=_PACE, snr=(20.0, 35.0)),
    "cmn": SpeechSpec(duration=3.1, spread=1.05, words_per_minute=(145.0, 175.0), snr=(12.0, 22.0), num_words=600),
    "kor": SpeechSpec(duration=1.1, spread=0.21, words_per_minute=_PACE, snr=(12.0, 20.0)),
    "pol": SpeechSpec(duration=2.25, spread=0.9, words_per_minute=_PACE, snr=(18.0, 30.0)),
    "ron": SpeechSpec(duration=3.8, spread=0.93, words_per_minute=_PACE, snr=(22.0, 35.0)),
    "spa": SpeechSpec(duration=2.4, spread=0.66, words_per_minute=_PACE, snr=(25.0, 35.0)),
}
