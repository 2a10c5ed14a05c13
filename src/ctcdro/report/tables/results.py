"""Tables of results: methods as in the paper, single runs, languages, and confusions between languages.

Runs of one method share a row, as mean ± standard deviation over seeds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

from ...scoring.intervals import Interval, Uncertainty
from ...scoring.seeds import RunMean
from ..plot_data import ConfusionMatrix
from ..read_runs import RunResult
from ..study import MethodRuns, Study, slugs
from ..table import Cell, Column, Table, percent

Intervals = Mapping[str, Uncertainty[Interval]]
"""Intervals of runs, by the names of the runs."""

MAX_LANGUAGE_COLUMNS = 8
"""A table of more languages has them as rows, as in the paper."""


def over_runs_cell(found: RunMean | None, note: str = "", is_worst: bool = False) -> Cell:
    return Cell(None) if found is None else percent(found.mean, found.deviation, note=note, is_worst=is_worst)


def interval_cell(found: Interval | None, note: str = "") -> Cell:
    return Cell(None) if found is None else percent(found.value, interval=(found.low, found.high), note=note)


def format_setting(value: Any) -> str | None:
    return None if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _worst_cer(method: MethodRuns) -> Cell:
    languages = sorted({run.scores.worst_label() for run in method.runs})
    return over_runs_cell(method.over_runs().get("worst_cer"), note="; ".join(languages))


SUMMARY_COLUMNS: list[Column[MethodRuns]] = [
    Column("worst CER", _worst_cer, "lower"),
    Column("mean CER", lambda method: over_runs_cell(method.over_runs().get("mean_cer")), "lower"),
    Column("LID", lambda method: over_runs_cell(method.over_runs().get("mean_lid")), "higher"),
]


def results_table(study: Study) -> Table:
    """The paper's table: the worst language, the mean over languages, and language accuracy."""
    datasets = {method.first.dataset.path for method in study.methods}

    def num_seeds(method: MethodRuns) -> Cell:
        note = _format_seeds(method.seeds) if study.has_unequal_seeds(method) else ""
        return Cell(len(method.runs), note=note)

    columns: list[Column[MethodRuns]] = [
        Column("method", lambda method: method.name),
        *([Column("data", lambda method: method.first.data_name)] if len(datasets) > 1 else []),
        *SUMMARY_COLUMNS,
        Column("seeds", num_seeds, decimals=0),
        Column("model", lambda method: method.first.model_name),
        Column("step size", lambda method: format_setting(method.step_size)),
        Column("smoothing", lambda method: format_setting(method.smoothing)),
    ]
    caption = (
        "CER of the worst language (in parentheses), mean CER over languages and language accuracy (LID), in percent. "
        f"{_measured_on(study)}{_about_bold(study, ' The best number of each column is bold.')}"
    )
    if any(map(study.has_unequal_seeds, study.methods)):
        caption += (
            " Not all methods have the same seeds (in parentheses): their means are over different runs. Compare them "
            "over the seeds they share, under Significance."
        )
    return Table.of("results", caption, columns, study.methods, comparable=lambda method: method.first.test_data)


def language_tables(study: Study) -> list[Table]:
    """The CER of each language, one table per test set; languages are rows if there are many."""
    names = [f"languages-{name}" for name in slugs([methods[0].first.data_name for methods in study.test_sets])]
    return [
        _language_table(study, methods, name if len(names) > 1 else "languages")
        for methods, name in zip(study.test_sets, names, strict=True)
    ]


def _language_table(study: Study, methods: Sequence[MethodRuns], name: str) -> Table:
    languages = list(methods[0].first.scores.languages)
    columns: list[Column[MethodRuns]] = [
        Column("method", lambda method: method.name),
        *map(cer_column, languages),
        *SUMMARY_COLUMNS[1:],
    ]
    caption = (
        f"CER of each language of {methods[0].first.data_name}, in percent. {_measured_on(study)} "
        f"The worst language of a method is underlined{_about_bold(study, ', the best method for a language bold')}."
    )
    table = Table.of(name, caption, columns, methods, comparable=lambda method: method.first.test_data)
    return table if len(languages) <= MAX_LANGUAGE_COLUMNS else _transposed(table)


def cer_column(language: str) -> Column[MethodRuns]:
    """The CER of a language; the worst language of each method is marked."""

    def cell(method: MethodRuns) -> Cell:
        rates = method.rates("cer")
        worst = max((rate.mean for rate in rates.values()), default=None)
        rate = rates.get(language)
        return over_runs_cell(rate, is_worst=rate is not None and rate.mean == worst)

    return Column(language, cell, "lower")


def _transposed(table: Table) -> Table:
    columns = [
        Column("language", itemgetter(0)),
        *(Column(str(row[0].value), itemgetter(place)) for place, row in enumerate(table.rows, start=1)),
    ]
    rows = [
        [Cell(column.title if column.better == "higher" else column.name), *(row[place] for row in table.rows)]
        for place, column in enumerate(table.columns)
        if place
    ]
    return Table(table.name, table.caption, columns, rows)


def runs_table(study: Study, intervals: Intervals) -> Table:
    """Each run: results with intervals, when it was started, and from which commit."""

    def summary(figure: str, run: RunResult, note: str = "") -> Cell:
        return interval_cell(intervals[run.name].summary.get(figure), note)

    columns: list[Column[RunResult]] = [
        Column("run", study.label),
        Column("worst CER", lambda run: summary("worst_cer", run, run.scores.worst_label()), "lower"),
        Column("mean CER", lambda run: summary("mean_cer", run), "lower"),
        Column("LID", lambda run: summary("mean_lid", run), "higher"),
        Column("started", lambda run: _start_time(run.about)),
        Column("commit", lambda run: str(run.about.get("commit") or "")[:10] or None),
        Column("folder", lambda run: run.name),
    ]
    caption = "Each run, in percent, with 95 % intervals over test utterances."
    return Table.of("runs", caption, columns, study.runs)


def details_table(study: Study, intervals: Intervals) -> Table:
    """All rates of each run and language."""
    items = [(run, language) for run in study.runs for language in run.scores.languages]

    def rate(name: str, run: RunResult, language: str) -> Cell:
        return interval_cell(intervals[run.name].languages[language].get(name))

    columns: list[Column[tuple[RunResult, str]]] = [
        Column("run", lambda item: study.label(item[0])),
        Column("language", lambda item: item[1]),
        Column("utterances", lambda item: item[0].scores.languages[item[1]].num_utterances, decimals=0),
        Column("characters", lambda item: item[0].scores.languages[item[1]].characters.reference, decimals=0),
        Column("CER", lambda item: rate("cer", *item), "lower"),
        Column("WER", lambda item: rate("wer", *item), "lower"),
        Column("LID", lambda item: rate("lid", *item), "higher"),
    ]
    caption = (
        "Each run and language: test utterances, characters of their references, and rates in percent with 95 % "
        "intervals over test utterances."
    )
    return Table.of("details", caption, columns, items)


def confusion_table(confusion: ConfusionMatrix, name: str, title: str) -> Table:
    """How often hypotheses name which language."""
    columns = [Column[int]("spoken", confusion.spoken.__getitem__)]
    for language, counts in zip(confusion.named, confusion.counts.T.tolist(), strict=True):
        columns.append(Column(language, counts.__getitem__, decimals=0))
    caption = f"{title}: how often which language (columns) was recognized, by the language that was spoken (rows)."
    return Table.of(name, caption, columns, range(len(confusion.spoken)))


def _measured_on(study: Study) -> str:
    has_seeds = any(len(method.runs) > 1 for method in study.methods)
    return f"Measured on {study.runs[0].split}." + (" Mean ± standard deviation over seeds." if has_seeds else "")


def _about_bold(study: Study, text: str) -> str:
    """A sentence about bold numbers, if there are methods to compare."""
    return text if any(len(methods) > 1 for methods in study.test_sets) else ""


def _format_seeds(seeds: Sequence[int]) -> str:
    """Example:
    >>> _format_seeds([0, 1, 2, 5]), _format_seeds([3])
    ('0–2, 5', '3')
    """
    ranges: list[list[int]] = []
    for seed in seeds:
        if ranges and seed == ranges[-1][-1] + 1:
            ranges[-1].append(seed)
        else:
            ranges.append([seed])
    return ", ".join(str(own[0]) if len(own) == 1 else f"{own[0]}–{own[-1]}" for own in ranges)


def _start_time(about: Mapping[str, Any]) -> str | None:
    started = about.get("started")
    return started[:16].replace("T", " ") if isinstance(started, str) else None
