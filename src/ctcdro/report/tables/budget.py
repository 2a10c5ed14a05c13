"""The budget of a guard as a table, for the terminal and the page."""

from __future__ import annotations

from ...scoring.budget import Budget
from ...speech.language_names import language_name
from ..table import Column, Table, percent


def budget_table(budget: Budget, name: str = "budget", max_rows: int | None = None) -> Table:
    """One row per language, those that lost most first."""
    columns: list[Column[str]] = [
        Column("language", language_name),
        Column("baseline CER", lambda language: percent(budget.baseline_cer[language])),
        Column("CER", lambda language: percent(budget.cer[language])),
        Column("change", lambda language: percent(budget.change(language)), signed=True),
        Column("allowed", lambda language: percent(budget.max_relative_loss), signed=True),
        Column("budget used", lambda language: percent(budget.used(language)), decimals=0),
    ]
    caption = (
        "CER on dev of the selected models of the baseline and of this run; the relative change, the change that is "
        "allowed, and the share of it that is used. All in percent."
    )
    return Table.of(name, caption, columns, budget.by_change[:max_rows])
