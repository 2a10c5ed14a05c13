"""Errors before and after training as a table, for the terminal and the page."""

from __future__ import annotations

from ...scoring.before_after import BeforeAfter
from ...speech.language_names import language_name
from ..table import Column, Table, percent


def before_after_table(found: BeforeAfter, name: str = "before-after", max_rows: int | None = None) -> Table:
    """One row per language: known ones first, those that lost most at the top."""
    columns: list[Column[str]] = [
        Column("language", language_name),
        Column("new", lambda language: "new" if found.is_new(language) else ""),
        Column("CER before", lambda language: percent(found.before[language])),
        Column("CER after", lambda language: percent(found.after[language])),
        Column("relative change (%)", lambda language: percent(found.change(language)), signed=True),
    ]
    caption = (
        "CER on dev of the model that training started from, and of the model that it selected; the relative change. "
        "All in percent."
    )
    return Table.of(name, caption, columns, found.by_loss[:max_rows])
