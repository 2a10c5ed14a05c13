"""The paper's table of datasets: utterances, durations and texts per language and split."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...prepare.statistics import Statistics
from ..table import Cell, Column, Table


@dataclass(frozen=True)
class StatisticsRow:
    """A language and split."""

    language: str
    split: str
    is_first: bool
    """Whether it is the first split of the language, which shows its name."""
    statistics: Statistics


def statistics_table(
    splits: Mapping[str, Mapping[str, Statistics]],
    name: str = "statistics",
    caption: str = "",
    further: Sequence[Column[StatisticsRow]] = (),
) -> Table:
    """One row per language and split.

    Args:
        splits: statistics by split and language.
        further: columns after those of the statistics.
    """
    rows = []
    for language in sorted({language for statistics in splits.values() for language in statistics}):
        names = [split for split in splits if language in splits[split]]
        rows += [StatisticsRow(language, name, name == names[0], splits[name][language]) for name in names]
    columns: list[Column[StatisticsRow]] = [
        Column("language", lambda row: row.language if row.is_first else ""),
        Column("split", lambda row: row.split),
        Column("utterances", lambda row: row.statistics.num_utterances, decimals=0),
        Column("hours", lambda row: row.statistics.hours, decimals=2),
        Column("seconds", lambda row: Cell(row.statistics.duration_mean, row.statistics.duration_deviation)),
        Column("characters", lambda row: Cell(row.statistics.characters_mean, row.statistics.characters_deviation)),
        Column("characters/s", lambda row: row.statistics.characters_per_second),
        *further,
    ]
    return Table.of(name, caption, columns, rows)
