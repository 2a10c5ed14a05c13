"""Statistics of datasets: utterances, durations and texts per language and split."""

from __future__ import annotations

from collections.abc import Mapping

from ...prepare.statistics import Statistics
from ...speech.language_names import language_name
from ..table import Cell, Column, Table


def statistics_table(
    splits: Mapping[str, Mapping[str, Statistics]], name: str = "statistics", caption: str = ""
) -> Table:
    """One row per language and split. `splits` has statistics by split and language."""
    rows = []
    for language in sorted({language for statistics in splits.values() for language in statistics}):
        own = {split: statistics[language] for split, statistics in splits.items() if language in statistics}
        labels = [language_name(language), *[""] * (len(own) - 1)]
        rows += [(label, *item) for label, item in zip(labels, own.items(), strict=True)]
    columns: list[Column[tuple[str, str, Statistics]]] = [
        Column("language", lambda row: row[0]),
        Column("split", lambda row: row[1]),
        Column("utterances", lambda row: row[2].num_utterances, decimals=0),
        Column("hours", lambda row: row[2].hours, decimals=2),
        Column("seconds", lambda row: Cell(row[2].duration_mean, row[2].duration_deviation)),
        Column("characters", lambda row: Cell(row[2].characters_mean, row[2].characters_deviation)),
        Column("characters/s", lambda row: row[2].characters_per_second),
    ]
    return Table.of(name, caption, columns, rows)
