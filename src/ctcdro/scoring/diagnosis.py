"""The diagnosis of a run: figures and verdicts of each language, as stored in diagnosis.json, and in words."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from ..runs.folder import is_number
from ..speech.language_names import language_name
from ..storage.json_files import read_json
from .formatting import format_percent
from .verdicts import VERDICTS

MAX_LISTED = 10
"""Suspicious utterances to list per language, and languages per verdict; files have all of them."""


@dataclass(frozen=True)
class LanguageDiagnosis:
    """Figures of a language at the end of training. A figure is None if it is not known."""

    verdicts: list[str]
    """Names in `VERDICTS`, most important first."""
    train_cer: float | None
    """CER on a sample of the training data."""
    dev_cer: float | None
    loss_per_character: float | None
    """Training loss in the last steps."""
    loss_per_second: float | None
    characters_per_second: float
    final_weight: float | None
    mean_weight: float | None
    """Mean over all steps."""
    minutes: float
    """Training audio."""
    passes: float | None
    """Audio that training has used, relative to the training audio."""
    num_sampled: int
    """Training utterances that were decoded."""
    num_suspicious: int
    suspicious: list[str]
    """Ids of the most suspicious utterances."""

    @classmethod
    def from_record(cls, record: Any) -> LanguageDiagnosis:
        """Reads an object of diagnosis.json; a ValueError names the invalid field."""
        values = {field.name: record[field.name] for field in fields(cls)}
        for name, value in values.items():
            if name == "verdicts":
                is_valid = isinstance(value, list) and all(one in list(VERDICTS) for one in value)
            elif name == "suspicious":
                is_valid = isinstance(value, list) and all(isinstance(one, str) for one in value)
            else:
                is_valid = value is None or is_number(value)
            if not is_valid:
                raise ValueError(f"`{name}` is {value!r:.60}")
        return cls(**values)


@dataclass(frozen=True)
class Diagnosis:
    """The diagnosis of a run, for the model that it selected."""

    step: int
    """Step of the selected model."""
    num_steps: int
    languages: dict[str, LanguageDiagnosis]

    @property
    def by_dev_cer(self) -> list[str]:
        """Languages, the worst first; those without development data last."""
        return sorted(self.languages, key=lambda name: -(self.languages[name].dev_cer or 0.0))

    @property
    def is_from_end(self) -> bool:
        """Whether the selected model is that of the last step."""
        return self.step == self.num_steps

    def to_record(self) -> dict[str, Any]:
        """The object in diagnosis.json."""
        return asdict(self)

    @classmethod
    def from_record(cls, record: Any) -> Diagnosis:
        try:
            step, num_steps = (int(record[name]) for name in ("step", "num_steps"))
            languages = {name: LanguageDiagnosis.from_record(one) for name, one in record["languages"].items()}
        except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
            raise ValueError(f"not a diagnosis written by ctcdro: {type(error).__name__}: {error!s:.500}") from error
        return cls(step, num_steps, languages)


def read_diagnosis(path: Path) -> Diagnosis | None:
    """Reads diagnosis.json; None if there is no such file."""
    if not path.is_file():
        return None
    record = read_json(path)
    try:
        return Diagnosis.from_record(record)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def describe(diagnosis: Diagnosis) -> list[str]:
    """The diagnosis in words: a sentence about the worst language, then a paragraph per verdict with its languages."""
    worst = next(iter(diagnosis.by_dev_cer), None)
    if worst is None or diagnosis.languages[worst].dev_cer is None:
        return []
    own = diagnosis.languages[worst]
    titles = " and ".join(VERDICTS[name].title for name in own.verdicts) or "not judged"
    train, dev = format_percent(own.train_cer), format_percent(own.dev_cer)
    first = f"Worst language: {language_name(worst)}, {titles}. CER {train}% on training data, {dev}% on dev."
    return [first, *filter(None, (_describe_verdict(diagnosis, name) for name in VERDICTS if name != "good-fit"))]


def _describe_verdict(diagnosis: Diagnosis, name: str) -> str:
    """A paragraph about the languages with a verdict; empty if there are none."""
    languages = [language for language in diagnosis.by_dev_cer if name in diagnosis.languages[language].verdicts]
    if not languages:
        return ""
    verdict, listed = VERDICTS[name], ", ".join(map(language_name, languages[:MAX_LISTED]))
    more = f" and {len(languages) - MAX_LISTED} more" if len(languages) > MAX_LISTED else ""
    sentences = [f"{verdict.title.capitalize()}: {listed}{more}. {verdict.meaning.capitalize()}.", verdict.advice]
    if name == "label-errors":
        sentences += [_describe_suspicious(language, diagnosis.languages[language]) for language in languages]
    if name == "underfit" and not diagnosis.is_from_end:
        sentences.append(
            f"The selected model is from step {diagnosis.step:,} of {diagnosis.num_steps:,}: longer training alone "
            "will not help."
        )
    return " ".join(sentences)


def _describe_suspicious(language: str, own: LanguageDiagnosis) -> str:
    number = f"{own.num_suspicious} of {own.num_sampled} utterances in {language_name(language)}"
    return f"Suspicious are {number}, most of all {', '.join(own.suspicious)}."
