"""`Utterance`: a segment of an audio file, its text and its language or languages."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from ..storage.field_checks import MAX_SECONDS, check_seconds, check_text, shorten
from ..storage.paths import PathLike, resolve_audio_path
from .language_shares import check_shares, largest_share


@dataclass(frozen=True, slots=True)
class Utterance:
    """A segment of an audio file, from `offset` to `offset + duration` seconds."""

    audio_filepath: str
    duration: float
    text: str
    lang: str
    """The language; of several, the one with the largest share."""
    id: str | None = None
    offset: float = 0.0
    corpus: str | None = None
    speaker: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Fields that this package does not use."""
    lang_shares: Mapping[str, float] | None = None
    """The share of each language, in order of appearance, if there are several. In records, this is `lang`."""

    def __post_init__(self) -> None:
        if type(self.audio_filepath) is not str and isinstance(self.audio_filepath, os.PathLike):
            object.__setattr__(self, "audio_filepath", os.fspath(self.audio_filepath))
        for name in ("audio_filepath", "text", "lang"):
            check_text(name, getattr(self, name), may_be_empty=name == "text")
        for name in ("id", "corpus", "speaker"):
            if getattr(self, name) is not None:
                check_text(name, getattr(self, name))
        if self.extra and (hidden := sorted(set(_KNOWN_FIELDS) & set(self.extra))):
            raise ValueError(f"`extra` must not contain fields of an utterance, got {', '.join(hidden)}")
        if self.lang_shares is not None:
            check_shares("lang", self.lang_shares)
            if len(self.lang_shares) < 2 or self.lang != largest_share(self.lang_shares):
                raise ValueError(
                    "`lang_shares` must have several languages, the largest of which is `lang`, got "
                    f"{self.lang!r:.60} and {shorten(self.lang_shares)}"
                )
        for name in ("duration", "offset"):
            value = getattr(self, name)
            if type(value) is not float or not 0 < value < MAX_SECONDS:  # rare, and slow
                seconds = check_seconds(name, value, may_be_zero=name == "offset")
                object.__setattr__(self, name, seconds)  # a float, because numpy numbers cannot be written as JSON

    @classmethod
    def from_record(cls, record: Any, folder: PathLike = "") -> Utterance:
        """Reads the object on a line of a manifest in `folder`. A ValueError names the invalid field."""
        if not isinstance(record, dict):
            raise ValueError(f"expected an object with the fields of an utterance, got {shorten(record)}")
        for name in ("audio_filepath", "duration", "text", "lang"):
            if name not in record:
                raise ValueError(f"`{name}` is missing (found: {', '.join(record) or 'no fields':.200})")
        known = {name: record[name] for name in _KNOWN_FIELDS if name in record}
        for name in ("lang", "corpus", "speaker"):  # repeated on millions of lines, so interned
            if type(known.get(name)) is str:
                known[name] = sys.intern(known[name])
        if isinstance(shares := known["lang"], Mapping):
            shares = check_shares("lang", shares)
            known["lang"] = largest_share(shares)
            known["lang_shares"] = shares if len(shares) > 1 else None
        if isinstance(path := known["audio_filepath"], str) and path:  # others are rejected below
            try:
                known["audio_filepath"] = resolve_audio_path(path, folder)
            except ValueError as error:
                raise ValueError(f"`audio_filepath`: {error}") from error
        return cls(**known, extra={name: value for name, value in record.items() if name not in _KNOWN_FIELDS})

    def to_record(self) -> dict[str, Any]:
        """The object for a line of a manifest, without empty fields."""
        record = {name: getattr(self, name) for name in _KNOWN_FIELDS}
        used = {name: value for name, value in record.items() if value is not None and (name, value) != ("offset", 0.0)}
        return used | ({} if self.lang_shares is None else {"lang": dict(self.lang_shares)}) | dict(self.extra)

    @property
    def languages(self) -> Mapping[str, float]:
        """The share of each language, in order of appearance."""
        return {self.lang: 1.0} if self.lang_shares is None else self.lang_shares

    def with_languages(self, shares: Mapping[str, float]) -> Utterance:
        """A copy in these languages, in order of appearance.

        Example:
            >>> Utterance("a.wav", 2.0, "我想 go", "cmn").with_languages({"cmn": 0.25, "eng": 0.75}).lang
            'eng'
        """
        return replace(self, lang=largest_share(shares), lang_shares=dict(shares) if len(shares) > 1 else None)

    def value(self, name: str) -> Any:
        """The field of that name, including those in `extra`; None if there is none."""
        return getattr(self, name) if name in _KNOWN_FIELDS else self.extra.get(name)


_KNOWN_FIELDS = tuple(known.name for known in fields(Utterance) if known.name not in ("extra", "lang_shares"))
