"""Errors of each language before and after training, for runs that start from another model; also in words."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..runs.folder import is_number
from ..speech.language_names import language_name
from ..storage.json_files import read_json
from .formatting import format_percent

FORGOTTEN = 0.05
"""A relative increase of the CER above which a language counts as forgotten."""


@dataclass(frozen=True)
class BeforeAfter:
    """Errors on the development set: those of the model that a run started from, and of the model that it selected."""

    source: str
    """The model that the run started from."""
    known_languages: list[str]
    """Languages of that model."""
    before: dict[str, float]
    """CER by language, also of new languages."""
    after: dict[str, float]
    """Empty until the run is finished."""

    def is_new(self, language: str) -> bool:
        return language not in self.known_languages

    def change(self, language: str) -> float | None:
        """The relative change of the CER; None if there were no errors."""
        before = self.before[language]
        return (self.after[language] - before) / before if before else None

    @property
    def by_loss(self) -> list[str]:
        """Languages: known ones first, and of those the ones that lost most."""
        return sorted(self.after, key=lambda name: (self.is_new(name), self.before[name] - self.after[name], name))

    def to_record(self) -> dict[str, Any]:
        """The object in before_after.json."""
        return asdict(self)

    @classmethod
    def from_record(cls, record: Any) -> BeforeAfter:
        try:
            found = cls(**record)
            rates = [*found.before.values(), *found.after.values()]
            is_complete = not found.after or found.before.keys() == found.after.keys()
            if is_complete and isinstance(found.known_languages, list) and all(map(is_number, rates)):
                return found
        except (TypeError, AttributeError):
            pass
        raise ValueError(f"expected what `ctcdro train` writes; got {record!r:.60}. Fix or remove it.")


def read_before_after(path: Path) -> BeforeAfter | None:
    """Reads before_after.json; None if there is no such file, or the run is not finished."""
    if not path.is_file():
        return None
    record = read_json(path)
    try:
        found = BeforeAfter.from_record(record)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    return found if found.after else None


def describe_before_after(found: BeforeAfter) -> str:
    """What happened to the languages that the model knew before, in words."""
    known = [name for name in found.by_loss if not found.is_new(name)]
    if not known:
        return "All languages are new."
    worst = known[0]
    before, after = (f"{format_percent(rates[worst])}%" for rates in (found.before, found.after))
    if found.after[worst] <= (1 + FORGOTTEN) * found.before[worst]:
        return f"No language of the earlier model got worse by more than {FORGOTTEN:.0%}."
    return f"{language_name(worst)} was forgotten most: its CER rose from {before} to {after}."
