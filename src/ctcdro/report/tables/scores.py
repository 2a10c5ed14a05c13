"""Tables of the scores of one system, and of the differences between two, for the terminal and the model card."""

from __future__ import annotations

from collections.abc import Mapping
from operator import itemgetter
from typing import TYPE_CHECKING

from ...scoring.scores import RATES, WORST_LANGUAGES, Scores
from ...speech.language_names import language_name
from ..table import Cell, Column, Table, interval_cell, p_value_column, percent

if TYPE_CHECKING:
    from ...scoring.comparisons import Difference
    from ...scoring.intervals import Interval, Uncertainty


def scores_table(scores: Scores, intervals: Uncertainty[Interval] | None = None) -> Table:
    """Rates per language, then over languages. Intervals are those of the CER."""
    figures = scores.summary()
    languages, summary = [], []
    for language, own in scores.languages.items():
        interval = intervals.languages[language].get("cer") if intervals else None
        languages.append(
            (language_name(language), own.num_utterances, _cer(own.cer, interval), percent(own.wer), percent(own.lid))
        )
    for name, label in _summary_labels(scores).items():
        interval = intervals.summary.get(f"{name}_cer") if intervals else None
        number = scores.together.num_utterances if name == "overall" else ""
        rates = percent(figures[f"{name}_wer"]), percent(figures[f"{name}_lid"])
        summary.append((label, number, _cer(figures[f"{name}_cer"], interval), *rates))
    columns = [
        Column("language", itemgetter(0)),
        Column("utterances", itemgetter(1), decimals=0),
        Column("CER", itemgetter(2), "lower"),
        Column("WER", itemgetter(3), "lower"),
        Column("LID", itemgetter(4), "higher"),
    ]
    return Table.of("scores", "", columns, languages, summary=summary)


def _cer(rate: float | None, interval: Interval | None) -> Cell:
    return interval_cell(interval) if interval else percent(rate)


def _summary_labels(scores: Scores) -> dict[str, str]:
    """Labels of the figures over languages, by the prefixes of their names in `Scores.summary`."""
    has_cer = scores.worst() is not None
    labels = {
        "worst": f"worst CER: {scores.worst_label(language_name)}" if has_cer else "worst",
        "best": f"best CER: {scores.best_label(language_name)}" if has_cer else "best",
        "mean": "mean",
        "spread": "spread",
    }
    if len(scores.languages) > WORST_LANGUAGES:
        labels[f"worst_{WORST_LANGUAGES}"] = f"worst {WORST_LANGUAGES}"
    return {**labels, "overall": "all utterances"}


def comparison_table(differences: Uncertainty[Difference]) -> Table:
    """The second system minus the first, in percentage points: per language, then over languages."""

    def rows(label: str, rates: Mapping[str, Difference | None]) -> list[tuple[str, str, Difference]]:
        known = [(name, difference) for name, difference in rates.items() if difference is not None]
        return [(label if number == 0 else "", *item) for number, item in enumerate(known)]

    columns: list[Column[tuple[str, str, Difference]]] = [
        Column("language", lambda row: row[0]),
        Column("rate", lambda row: row[1].upper()),
        Column("first", lambda row: percent(row[2].first)),
        Column("second", lambda row: percent(row[2].second)),
        Column("difference", lambda row: interval_cell(row[2]), signed=True),
        p_value_column("p", lambda row: row[2].p_value),
    ]
    languages = [
        row for language, rates in differences.languages.items() for row in rows(language_name(language), rates)
    ]
    summary = []
    for name, label in (("worst", "worst"), ("mean", "mean"), ("overall", "all utterances")):
        summary += rows(label, {rate: differences.summary.get(f"{name}_{rate}") for rate in RATES})
    return Table.of("comparison", "", columns, languages, summary=summary)
