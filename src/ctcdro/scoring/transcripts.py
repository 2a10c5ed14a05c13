"""References and hypotheses of any system, read from files and matched by id.

File formats:

- JSON lines: manifests and other references with `id`, `text` and `lang`; hypotheses with `id`, `text` and optional
  `lang`; predictions, which have both: `id`, `lang`, `text`, `hyp_lang`, `hyp_text`; NeMo's, with `pred_text`;
- Kaldi's `text`: an id and a text on each line;
- NIST's trn: a text, then its id in parentheses.

If there is no field for the language, a token before the text specifies it, such as "[ces] dobrý den". The format is
detected from the file name (.jsonl, .json, .trn or `text`), otherwise from the first line. Errors name file and line.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from ..speech.language_shares import check_shares, largest_share
from ..storage.atomic import atomic_write
from ..storage.field_checks import check_text
from ..storage.json_files import json_line, read_json_lines
from ..storage.lines import numbered_lines
from ..storage.paths import PathLike

Line = TypeVar("Line")
Parsed = TypeVar("Parsed")

# Hours of speech. The time to count edits grows with the square of the length, and a line can be arbitrarily long.
MOST_CHARACTERS = 200_000


@dataclass(frozen=True, slots=True)
class Prediction:
    """A reference and a hypothesis; `hyp_lang` is None if the system predicts no language."""

    id: str
    lang: str
    text: str
    hyp_lang: str | None
    hyp_text: str
    lang_shares: Mapping[str, float] | None = None
    """The share of each language of the reference, if it has several; `lang` is the largest."""

    def __post_init__(self) -> None:
        for name in TEXT_FIELDS:
            value = getattr(self, name)
            if name != "hyp_lang" or value is not None:
                _check_text(name, value)

    @property
    def languages(self) -> Mapping[str, float]:
        """The share of each language of the reference."""
        return {self.lang: 1.0} if self.lang_shares is None else self.lang_shares

    def to_record(self) -> dict[str, Any]:
        """The object on a line of a file of predictions."""
        record = {name: getattr(self, name) for name in TEXT_FIELDS}
        return record if self.lang_shares is None else record | {"lang": dict(self.lang_shares)}


TEXT_FIELDS = ("id", "lang", "text", "hyp_lang", "hyp_text")


def read_predictions(path: PathLike) -> list[Prediction]:
    """Reads predictions, JSON lines."""
    return [prediction for _, prediction in _parse_lines(path, read_json_lines(path), _parse_prediction)]


def write_predictions(path: PathLike, predictions: Iterable[Prediction]) -> None:
    """Writes predictions, JSON lines, atomically."""
    with atomic_write(path) as file:
        file.writelines(json_line(prediction.to_record()) for prediction in predictions)


@dataclass(frozen=True, slots=True)
class Transcript:
    """A text, its language if known, and the file and line it was read from."""

    id: str
    text: str
    lang: str | None
    where: str = ""
    lang_shares: Mapping[str, float] | None = None
    """As in `Prediction`."""


def split_language(text: str) -> tuple[str | None, str]:
    """Splits a text into its language token, if it starts with one, and the rest."""
    token = re.match(r"\s*\[([^\s\[\]]+)\]", text)
    return (token[1], text[token.end() :].strip()) if token else (None, text.strip())


def read_references(path: PathLike, lang: str | None = None) -> list[Transcript]:
    """Reads references; `lang` is the language of those that specify none."""
    transcripts = [replace(transcript, lang=transcript.lang or lang) for transcript in _read(path, _parse_reference)]
    for transcript in transcripts:
        if transcript.lang is None:
            raise ValueError(
                f"{transcript.where}: the reference has no language. Add `lang`, put a token such as [ces] before the "
                "text, or pass one language for all with --language (`lang` in Python)."
            )
    return transcripts


def read_hypotheses(path: PathLike) -> list[Transcript]:
    """Reads hypotheses, with or without languages, in any of the formats above."""
    return _read(path, _parse_hypothesis)


def match(
    references: Sequence[Transcript], hypotheses: Sequence[Transcript], missing_as_empty: bool = False
) -> list[Prediction]:
    """Matches references and hypotheses by their ids, in the order of references.

    Args:
        missing_as_empty: score references without a hypothesis as empty hypotheses; by default they are errors.

    Example:
        >>> match([Transcript("a1", "ahoj", "ces")], [Transcript("a1", "ahoi", None)])
        [Prediction(id='a1', lang='ces', text='ahoj', hyp_lang=None, hyp_text='ahoi', lang_shares=None)]
    """
    by_id = {hypothesis.id: hypothesis for hypothesis in hypotheses}
    known = {reference.id for reference in references}
    if unknown := [hypothesis for hypothesis in hypotheses if hypothesis.id not in known]:
        raise ValueError(f"{_first_id(unknown)} is not in the reference file. Both files must have the same ids.")
    missing = [reference for reference in references if reference.id not in by_id]
    if missing and not missing_as_empty:
        raise ValueError(
            f"{_first_id(missing)} has no hypothesis. Pass --on-missing empty (`missing_as_empty=True` in Python) to "
            "score it as empty."
        )
    predictions = []
    for reference in references:
        assert reference.lang is not None
        hypothesis = by_id.get(reference.id, Transcript(reference.id, "", None))
        said = reference.id, reference.lang, reference.text
        predictions.append(Prediction(*said, hypothesis.lang, hypothesis.text, reference.lang_shares))
    return predictions


def _first_id(transcripts: Sequence[Transcript]) -> str:
    first, more = transcripts[0], len(transcripts) - 1
    return f"{first.where}: id {first.id!r:.60}" + (f" (and {more} more)" if more else "")


def _read(path: PathLike, parse_record: Callable[[Any], Transcript]) -> list[Transcript]:
    file_format = _detect_format(path)
    if file_format == "json":
        parsed = _parse_lines(path, read_json_lines(path), parse_record)
    else:
        parsed = _parse_lines(path, numbered_lines(path), _parse_trn if file_format == "trn" else _parse_kaldi)
    transcripts: dict[str, Transcript] = {}
    for number, transcript in parsed:
        where = f"{os.fspath(path)}:{number}"
        if transcript.id in transcripts:
            first = transcripts[transcript.id].where
            raise ValueError(f"{where}: duplicate id {transcript.id!r:.60}, first used at {first}. Ids must be unique.")
        transcripts[transcript.id] = replace(transcript, where=where)
    if not transcripts:
        raise ValueError(f"{os.fspath(path)}: no transcripts in this file.")
    return list(transcripts.values())


_TRN = re.compile(r"(.*)\(([^\s()]+)\)\s*")


def _detect_format(path: PathLike) -> str:
    name = Path(path).name.removesuffix(".gz")
    if name.endswith((".jsonl", ".json")):
        return "json"
    if name.endswith(".trn"):
        return "trn"
    first = "" if name == "text" else next((text for _, text in numbered_lines(path)), "")
    return "json" if first.lstrip().startswith("{") else "trn" if _TRN.fullmatch(first) else "kaldi"


def _parse_lines(
    path: PathLike, lines: Iterable[tuple[int, Line]], parse: Callable[[Line], Parsed]
) -> Iterator[tuple[int, Parsed]]:
    for number, line in lines:
        try:
            parsed = parse(line)
        except ValueError as error:
            raise ValueError(f"{os.fspath(path)}:{number}: {error}") from error
        yield number, parsed


def _parse_prediction(record: dict[str, Any]) -> Prediction:
    fields = {name: _field(record, name) for name in TEXT_FIELDS}
    fields["lang"], shares = _split_shares(fields["lang"])
    return Prediction(**fields, lang_shares=shares)


def _split_shares(lang: Any) -> tuple[Any, dict[str, float] | None]:
    """The language with the largest share, and the shares if there are several languages."""
    if not isinstance(lang, Mapping):
        return lang, None
    shares = check_shares("lang", lang)
    return largest_share(shares), shares if len(shares) > 1 else None


def _parse_kaldi(line: str) -> Transcript:
    transcript_id, *rest = line.split(maxsplit=1)
    return _transcript(transcript_id, "".join(rest), None)


def _parse_trn(line: str) -> Transcript:
    parts = _TRN.fullmatch(line)
    if parts is None:
        raise ValueError("expected a text and its id in parentheses, the format of NIST's trn")
    return _transcript(parts[2], parts[1], None)


def _parse_reference(record: dict[str, Any]) -> Transcript:
    return _transcript(_field(record, "id"), _field(record, "text"), record.get("lang"))


def _parse_hypothesis(record: dict[str, Any]) -> Transcript:
    for text, lang in (("hyp_text", "hyp_lang"), ("pred_text", None)):
        if text in record:
            return _transcript(_field(record, "id"), record[text], lang and record.get(lang))
    return _parse_reference(record)


def _transcript(transcript_id: Any, text: Any, lang: Any) -> Transcript:
    _check_text("id", transcript_id)
    _check_text("text", text)
    if lang is not None:
        lang, shares = _split_shares(lang)
        _check_text("lang", lang)
        return Transcript(transcript_id, text, lang, lang_shares=shares)
    lang, text = split_language(text)
    return Transcript(transcript_id, text, lang)


def _field(record: dict[str, Any], name: str) -> Any:
    if name not in record:
        raise ValueError(f"`{name}` is missing (found: {', '.join(record) or 'no fields':.200})")
    return record[name]


def _check_text(name: str, value: Any) -> None:
    check_text(name, value, may_be_empty=name.endswith("text"))
    if len(value) > MOST_CHARACTERS:
        raise ValueError(f"`{name}` must have at most {MOST_CHARACTERS:,} characters, got {len(value):,}")
