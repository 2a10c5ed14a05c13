"""Tables of one system's scores, and of the differences between two, for the terminal and the model card."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...scoring.scores import RATES, WORST_LANGUAGES, Scores
from ..table import Cell, Column, Table, interval_cell, p_value_column, percent

if TYPE_CHECKING:
    from ...scoring.comparisons import Difference
    from ...scoring.intervals import Interval, Uncertainty


@dataclass(frozen=True)
class _ScoreRow:
    label: str
    num_utterances: int | str
    rates: Mapping[str, float | None]
    interval: Interval | None

    @property
    def cer(self) -> Cell:
        return interval_cell(self.interval) if self.interval else percent(self.rates["cer"])


def scores_table(scores: Scores, intervals: Uncertainty[Interval] | None = None) -> Table:
    """Rates by language, then over languages; intervals are those of the CER."""
    languages = []
    for language, own in scores.languages.items():
        interval = intervals.languages[language].get("cer") if intervals else None
        rates = {rate: getattr(own, rate) for rate in RATES}
        languages.append(_ScoreRow(language, own.num_utterances, rates, interval))
    summary = []
    for name, label in _summary_labels(scores).items():
        interval = intervals.summary.get(f"{name}_cer") if intervals else None
        rates = {rate: scores.summary()[f"{name}_{rate}"] for rate in RATES}
        num_utterances = scores.together.num_utterances if name == "overall" else ""
        summary.append(_ScoreRow(label, num_utterances, rates, interval))
    columns: list[Column[_ScoreRow]] = [
        Column("language", lambda row: row.label),
        Column("utterances", lambda row: row.num_utterances, decimals=0),
        Column("CER", lambda row: row.cer, "lower"),
        Column("WER", lambda row: percent(row.rates["wer"]), "lower"),
        Column("LID", lambda row: percent(row.rates["lid"]), "higher"),
    ]
    return Table.of("scores", "", columns, languages, summary=summary)


def _summary_labels(scores: Scores) -> dict[str, str]:
    """Labels of the figures over languages, by the beginnings of their names in `Scores.summary`."""
    best = scores.best()
    labels = {
        "worst": f"worst (CER: {scores.worst_label()})" if best else "worst",
        "best": f"best (CER: {best[0]})" if best else "best",
        "mean": "mean",
        "spread": "spread",
    }
    if len(scores.languages) > WORST_LANGUAGES:
        labels[f"worst_{WORST_LANGUAGES}"] = f"worst {WORST_LANGUAGES}"
    return {**labels, "overall": "all utterances"}


def comparison_table(differences: Uncertainty[Difference]) -> Table:
    """The second system minus the first: by language, then over languages; in points."""

    def rows(label: str, rates: Mapping[str, Difference]) -> list[tuple[str, str, Difference]]:
        return [(label if number == 0 else "", name, rates[name]) for number, name in enumerate(rates)]

    def summary_rows(name: str, label: str) -> list[tuple[str, str, Difference]]:
        keys = {rate: f"{name}_{rate}" for rate in RATES}
        return rows(label, {rate: differences.summary[key] for rate, key in keys.items() if key in differences.summary})

    columns: list[Column[tuple[str, str, Difference]]] = [
        Column("language", lambda row: row[0]),
        Column("rate", lambda row: row[1].upper()),
        Column("first", lambda row: percent(row[2].first)),
        Column("second", lambda row: percent(row[2].second)),
        Column("difference", lambda row: interval_cell(row[2]), signed=True),
        p_value_column("p", lambda row: row[2].p_value),
    ]
    languages = [row for language, rates in differences.languages.items() for row in rows(language, rates)]
    labels = {"worst": "worst", "mean": "mean", "overall": "all utterances"}
    summary = [row for name, label in labels.items() for row in summary_rows(name, label)]
    return Table.of("comparison", "", columns, languages, summary=summary)
