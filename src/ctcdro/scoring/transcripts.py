"""References and hypotheses of any system, read from files and matched by their ids.

Files may be

- JSON lines: manifests and other references with `id`, `text` and `lang`; hypotheses with `id`, `text` and perhaps
  `lang`; predictions, which have both: `id`, `lang`, `text`, `hyp_lang`, `hyp_text`; NeMo's, with `pred_text`;
- Kaldi's `text`: an id and a text on each line;
- NIST's trn: a text, then its id in parentheses.

A language token before a text, as "[ces] dobrý den", tells its language where no field does. Names that end in .jsonl,
.json or .trn, or are `text`, tell what is in a file; otherwise its first line does. Errors name file and line.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from ..storage.atomic import atomic_write
from ..storage.json_fields import check_text
from ..storage.json_files import read_json_lines
from ..storage.lines import numbered_lines
from ..storage.paths import PathLike

Line = TypeVar("Line")
Read = TypeVar("Read")

# Of a text: hours of speech. The time it takes to count edits grows with the square, and a line can have millions.
MOST_CHARACTERS = 200_000


@dataclass(frozen=True, slots=True)
class Prediction:
    """What was said, and what a system recognized; `hyp_lang` is None if it named no language.

    Example:
        >>> Prediction("a1", "ces", "dobrý den", hyp_lang="slk", hyp_text="dobrý deň").to_record()
        {'id': 'a1', 'lang': 'ces', 'text': 'dobrý den', 'hyp_lang': 'slk', 'hyp_text': 'dobrý deň'}
    """

    id: str
    lang: str
    text: str
    hyp_lang: str | None
    hyp_text: str

    def __post_init__(self) -> None:
        _check_text("id", self.id)
        _check_text("lang", self.lang)
        _check_text("text", self.text, may_be_empty=True)
        _check_text("hyp_text", self.hyp_text, may_be_empty=True)
        if self.hyp_lang is not None:
            _check_text("hyp_lang", self.hyp_lang)

    @classmethod
    def from_record(cls, record: Any) -> Prediction:
        """Reads the object on a line of predictions; further fields are passed over.

        Raises:
            ValueError: naming the field that is missing or wrong.
        """
        return cls(**{name: _field(record, name) for name in cls.__slots__})

    def to_record(self) -> dict[str, Any]:
        """The object to write on a line."""
        return asdict(self)


def read_predictions(path: PathLike) -> list[Prediction]:
    """Reads predictions, JSON lines.

    Raises:
        ValueError: naming the file, the line and the field where something is wrong.
    """
    return [prediction for _, prediction in _read_json(path, Prediction.from_record)]


def write_predictions(path: PathLike, predictions: Iterable[Prediction]) -> None:
    """Writes predictions, JSON lines; the file appears whole or not at all."""
    with atomic_write(path) as file:
        for prediction in predictions:
            file.write(json.dumps(prediction.to_record(), ensure_ascii=False) + "\n")


@dataclass(frozen=True, slots=True)
class Transcript:
    """A text, its language if that is told, and the place it was read from."""

    id: str
    text: str
    lang: str | None
    where: str = ""


def split_language(text: str) -> tuple[str | None, str]:
    """The language token before a text, and the text without it.

    Example:
        >>> split_language("[ces] dobrý den")
        ('ces', 'dobrý den')
        >>> split_language("dobrý [ces] den")
        (None, 'dobrý [ces] den')
    """
    found = re.match(r"\s*\[([^\s\[\]]+)\]", text)
    return (found[1], text[found.end() :].strip()) if found else (None, text.strip())


def read_references(path: PathLike, lang: str | None = None) -> list[Transcript]:
    """Reads what was said.

    Args:
        lang: the language of all that tell none.

    Raises:
        ValueError: naming the file and line where something is wrong, an id comes again, or there is no language.
    """
    transcripts = [_with_language(transcript, lang) for transcript in _read(path, _reference)]
    for transcript in transcripts:
        if transcript.lang is None:
            raise ValueError(
                f"{transcript.where}: the reference tells no language; expected `lang`, or a token before the text, "
                "as [ces]. Or give the language of all."
            )
    return transcripts


def read_hypotheses(path: PathLike) -> list[Transcript]:
    """Reads what was recognized.

    Raises:
        ValueError: naming the file and line where something is wrong, or an id comes again.
    """
    return _read(path, _hypothesis)


def match(
    references: Sequence[Transcript], hypotheses: Sequence[Transcript], missing_as_empty: bool = False
) -> list[Prediction]:
    """Brings references and hypotheses together by their ids, in the order of references.

    Args:
        references: with languages.
        missing_as_empty: count a reference without hypothesis as one where nothing was recognized.

    Raises:
        ValueError: naming the places of ids that are only on one side.

    Example:
        >>> match([Transcript("a1", "ahoj", "ces")], [Transcript("a1", "ahoi", None)])
        [Prediction(id='a1', lang='ces', text='ahoj', hyp_lang=None, hyp_text='ahoi')]
    """
    found = {hypothesis.id: hypothesis for hypothesis in hypotheses}
    known = {reference.id for reference in references}
    if superfluous := [hypothesis for hypothesis in hypotheses if hypothesis.id not in known]:
        raise ValueError(f"{_places(superfluous)}, which no reference has.")
    missing = [reference for reference in references if reference.id not in found]
    if missing and not missing_as_empty:
        raise ValueError(f"{_places(missing)}, which no hypothesis has. Missing ones can be counted as empty.")
    return [_matched(reference, found.get(reference.id)) for reference in references]


def _matched(reference: Transcript, hypothesis: Transcript | None) -> Prediction:
    hypothesis = hypothesis or Transcript(reference.id, "", None)
    assert reference.lang is not None
    return Prediction(reference.id, reference.lang, reference.text, hypothesis.lang, hypothesis.text)


def _places(transcripts: Sequence[Transcript]) -> str:
    first, more = transcripts[0], len(transcripts) - 1
    return f"{first.where}: id {first.id!r:.60}" + (f" (and {more} more)" if more else "")


def _with_language(transcript: Transcript, lang: str | None) -> Transcript:
    return Transcript(transcript.id, transcript.text, transcript.lang or lang, transcript.where)


def _read(path: PathLike, of_record: Callable[[Any], Transcript]) -> list[Transcript]:
    """The transcripts of a file in any of the forms; `of_record` reads a JSON object."""
    form = _form(path)
    if form == "json":
        read = _read_json(path, of_record)
    else:
        read = _parse_lines(path, numbered_lines(path), _of_trn if form == "trn" else _of_kaldi)
    first: dict[str, str] = {}
    transcripts = []
    for number, transcript in read:
        where = f"{os.fspath(path)}:{number}"
        if transcript.id in first:
            raise ValueError(f"{where}: id {transcript.id!r:.60} is at {first[transcript.id]} too.")
        first[transcript.id] = where
        transcripts.append(Transcript(transcript.id, transcript.text, transcript.lang, where))
    if not transcripts:
        raise ValueError(f"{os.fspath(path)}: no transcripts in it.")
    return transcripts


_TRN = re.compile(r"(.*)\(([^\s()]+)\)\s*")


def _form(path: PathLike) -> str:
    name = Path(path).name.removesuffix(".gz")
    if name.endswith((".jsonl", ".json")):
        return "json"
    if name.endswith(".trn"):
        return "trn"
    first = "" if name == "text" else next((text for _, text in numbered_lines(path)), "")
    return "json" if first.lstrip().startswith("{") else "trn" if _TRN.fullmatch(first) else "kaldi"


def _read_json(path: PathLike, of_record: Callable[[Any], Read]) -> list[tuple[int, Read]]:
    return _parse_lines(path, read_json_lines(path), of_record)


def _parse_lines(
    path: PathLike, lines: Iterable[tuple[int, Line]], of_line: Callable[[Line], Read]
) -> list[tuple[int, Read]]:
    found = []
    for number, line in lines:
        try:
            found.append((number, of_line(line)))
        except ValueError as error:
            raise ValueError(f"{os.fspath(path)}:{number}: {error}") from error
    return found


def _of_kaldi(line: str) -> Transcript:
    transcript_id, *rest = line.split(maxsplit=1)
    return _transcript(transcript_id, "".join(rest), None)


def _of_trn(line: str) -> Transcript:
    found = _TRN.fullmatch(line)
    if found is None:
        raise ValueError("expected a text and its id in parentheses, as NIST's trn has it")
    return _transcript(found[2], found[1], None)


def _reference(record: dict[str, Any]) -> Transcript:
    return _transcript(_field(record, "id"), _field(record, "text"), record.get("lang"))


def _hypothesis(record: dict[str, Any]) -> Transcript:
    if "hyp_text" in record:
        return _transcript(_field(record, "id"), record["hyp_text"], record.get("hyp_lang"))
    if "pred_text" in record:
        return _transcript(_field(record, "id"), record["pred_text"], None)
    return _transcript(_field(record, "id"), _field(record, "text"), record.get("lang"))


def _transcript(transcript_id: Any, text: Any, lang: Any) -> Transcript:
    _check_text("id", transcript_id)
    _check_text("text", text, may_be_empty=True)
    if lang is not None:
        _check_text("lang", lang)
        return Transcript(transcript_id, text, lang)
    lang, text = split_language(text)
    return Transcript(transcript_id, text, lang)


def _field(record: Any, name: str) -> Any:
    if not isinstance(record, dict) or name not in record:
        found = ", ".join(record) if isinstance(record, dict) and record else "no fields"
        raise ValueError(f"`{name}` is missing (found: {found:.200})")
    return record[name]


def _check_text(name: str, value: Any, may_be_empty: bool = False) -> None:
    check_text(name, value, may_be_empty=may_be_empty)
    if len(value) > MOST_CHARACTERS:
        raise ValueError(f"`{name}` must have at most {MOST_CHARACTERS:,} characters, got {len(value):,}")
