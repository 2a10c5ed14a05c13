"""Transcripts: what was recognized in a recording, when, in which language, and how certain the model is.

Times are seconds from the start of the recording. Confidences are probabilities of the model, from 0 to 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class TimedCharacter:
    text: str
    start: float
    end: float
    confidence: float
    """The highest probability of the character in its frames."""


@dataclass(frozen=True, slots=True)
class TimedWord:
    """Characters between spaces. Languages that are written without spaces have long words."""

    characters: tuple[TimedCharacter, ...]

    @property
    def text(self) -> str:
        return "".join(character.text for character in self.characters)

    @property
    def start(self) -> float:
        return self.characters[0].start

    @property
    def end(self) -> float:
        return self.characters[-1].end

    @property
    def confidence(self) -> float:
        """The geometric mean of the confidences of the characters, so that long words are not penalized."""
        product = 1.0
        for character in self.characters:
            product *= character.confidence ** (1 / len(self.characters))
        return product


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a recording with its own language."""

    start: float
    end: float
    language: str | None
    """The language of the recognized labels; None if the model has no languages."""
    languages: Mapping[str, float]
    """Probability of each language of the model, highest first."""
    words: tuple[TimedWord, ...]

    @property
    def text(self) -> str:
        return " ".join(word.text for word in self.words)


@dataclass(frozen=True, slots=True)
class RecordingTranscript:
    """Everything recognized in a recording."""

    path: str
    duration: float
    segments: tuple[Segment, ...]
    id: str | None = None
    """The `id` of an utterance in a manifest."""
    offset: float = 0.0
    """Start of the recording within its file, for utterances of a manifest."""

    @property
    def text(self) -> str:
        return " ".join(segment.text for segment in self.segments if segment.words)

    @property
    def words(self) -> list[TimedWord]:
        return [word for segment in self.segments for word in segment.words]

    @property
    def languages(self) -> dict[str, float]:
        """Probability of each language, highest first: the mean over segments, weighted by duration.

        Segments without words do not count, unless all are.
        """
        spoken = [segment for segment in self.segments if segment.words] or self.segments
        total = sum(segment.end - segment.start for segment in spoken)
        means: dict[str, float] = {}
        for segment in spoken:
            for language, probability in segment.languages.items():
                share = (segment.end - segment.start) / total
                means[language] = means.get(language, 0.0) + share * probability
        return dict(sorted(means.items(), key=lambda item: -item[1]))

    @property
    def language(self) -> str | None:
        """The language that most of the speech is in."""
        spoken = [segment for segment in self.segments if segment.words] or self.segments
        seconds: dict[str | None, float] = {}
        for segment in spoken:
            seconds[segment.language] = seconds.get(segment.language, 0.0) + segment.end - segment.start
        return max(seconds, key=seconds.__getitem__)

    def to_record(self, num_languages: int = 3) -> dict[str, Any]:
        """The transcript for JSON, with the most probable languages. Times have milliseconds."""
        about: dict[str, Any] = {"id": self.id} if self.id is not None else {}
        about |= {"offset": self.offset} if self.offset else {}
        return {
            "path": self.path,
            **about,
            "duration": round(self.duration, 3),
            "language": self.language,
            "languages": _most_probable(self.languages, num_languages),
            "text": self.text,
            "segments": [_segment_record(segment, num_languages) for segment in self.segments],
        }


def _segment_record(segment: Segment, num_languages: int) -> dict[str, Any]:
    return {
        "start": round(segment.start, 3),
        "end": round(segment.end, 3),
        "language": segment.language,
        "languages": _most_probable(segment.languages, num_languages),
        "text": segment.text,
        "words": [
            {**_span_record(word), "characters": [_span_record(character) for character in word.characters]}
            for word in segment.words
        ],
    }


def _span_record(span: TimedWord | TimedCharacter) -> dict[str, Any]:
    return {
        "text": span.text,
        "start": round(span.start, 3),
        "end": round(span.end, 3),
        "confidence": round(span.confidence, 4),
    }


def _most_probable(languages: Mapping[str, float], number: int) -> dict[str, float]:
    return {language: round(probability, 4) for language, probability in list(languages.items())[:number]}
