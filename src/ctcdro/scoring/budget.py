"""The budget of a guard: errors of each language compared with a baseline, as stored in budget.json, and in words."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..runs.folder import is_number
from ..speech.language_names import language_name
from ..storage.json_files import read_json
from .formatting import format_percent


@dataclass(frozen=True)
class Budget:
    """Errors of a run and of its baseline on the development set, each for the model that it selected."""

    baseline: str
    """Run folder of the baseline."""
    max_relative_loss: float
    """Relative increase of the CER that is allowed."""
    baseline_cer: dict[str, float]
    """By language."""
    cer: dict[str, float]

    @property
    def by_change(self) -> list[str]:
        """Languages, those that lost most first."""

        def gain(name: str) -> float:
            change = self.change(name)
            return -self.cer[name] if change is None else -change

        return sorted(self.cer, key=gain)

    def change(self, language: str) -> float | None:
        """The relative change of the CER; None if the baseline has no errors."""
        before = self.baseline_cer[language]
        return (self.cer[language] - before) / before if before else None

    def used(self, language: str) -> float | None:
        """The share of the budget that is used: 1 at the highest CER that is allowed. None if there is no budget."""
        change = self.change(language)
        return None if change is None or not self.max_relative_loss else max(0.0, change / self.max_relative_loss)

    @property
    def over(self) -> list[str]:
        """Languages over their budget, those that lost most first."""
        limit = 1 + self.max_relative_loss
        return [name for name in self.by_change if self.cer[name] > limit * self.baseline_cer[name]]

    def to_record(self) -> dict[str, Any]:
        """The object in budget.json."""
        return asdict(self)

    @classmethod
    def from_record(cls, record: Any) -> Budget:
        try:
            budget = cls(**record)
            rates = [*budget.baseline_cer.values(), *budget.cer.values(), budget.max_relative_loss]
            same_languages = budget.cer.keys() == budget.baseline_cer.keys()
            if same_languages and all(is_number(rate) and rate >= 0 for rate in rates):
                return budget
        except (TypeError, AttributeError):
            pass
        raise ValueError(f"expected what `ctcdro train` writes; got {record!r:.60}. Fix or remove it.")


def read_budget(path: Path) -> Budget | None:
    """Reads budget.json; None if there is no such file."""
    if not path.is_file():
        return None
    record = read_json(path)
    try:
        return Budget.from_record(record)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def describe_budget(budget: Budget) -> str:
    """The languages over their budget, in words."""
    limit = f"{format_percent(budget.max_relative_loss)}%"
    if not budget.over:
        return f"Every language is within its budget: no CER is more than {limit} above that of the baseline."
    names = ", ".join(map(language_name, budget.over))
    return f"Over budget, with a CER more than {limit} above that of the baseline: {names}."
