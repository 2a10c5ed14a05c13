"""Tables of results: methods, single runs, languages, and language confusions.

Runs of one method share a row, as mean ± standard deviation over seeds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import itemgetter

from ...objectives.methods import METHODS
from ...runs.parsing import format_setting
from ...scoring.intervals import Interval, Uncertainty
from ...scoring.seeds import RunMean
from ...speech.language_names import language_name
from ..read_runs import RunResult
from ..study import ConfusionMatrix, MethodRuns, Study, slugs
from ..table import Cell, Column, Table, interval_cell, percent

Intervals = Mapping[str, Uncertainty[Interval]]
"""Intervals of runs, by the names of the runs."""

MAX_LANGUAGE_COLUMNS = 8
"""With more languages, languages become rows."""


def short_name(language: str) -> str:
    return language_name(language, with_code=False)


def mean_cell(mean: RunMean | None, note: str = "", is_worst: bool = False) -> Cell:
    return Cell(None) if mean is None else percent(mean.mean, mean.deviation, note=note, is_worst=is_worst)


def _worst_cer(method: MethodRuns) -> Cell:
    languages = sorted({run.scores.worst_label(short_name) for run in method.runs})
    return mean_cell(method.over_runs().get("worst_cer"), note="; ".join(languages))


SUMMARY_COLUMNS: list[Column[MethodRuns]] = [
    Column("worst CER", _worst_cer, "lower"),
    Column("mean CER", lambda method: mean_cell(method.over_runs().get("mean_cer")), "lower"),
    Column("LID", lambda method: mean_cell(method.over_runs().get("mean_lid")), "higher"),
]


def results_table(study: Study) -> Table:
    """Worst CER, mean CER over languages, and language accuracy of each method, as in the paper's tables."""
    datasets = {method.first.dataset.path for method in study.methods}
    tuned = dict.fromkeys(name for method in study.methods for name in METHODS[method.objective].tuned)

    def num_seeds(method: MethodRuns) -> Cell:
        return Cell(len(method.runs), note=", ".join(map(str, method.seeds)) if study.has_unequal_seeds(method) else "")

    def setting_column(name: str) -> Column[MethodRuns]:
        return Column(name.replace("_", " "), lambda method: format_setting(method.setting(name)))

    columns: list[Column[MethodRuns]] = [
        Column("method", lambda method: method.name),
        *([Column("data", lambda method: method.first.dataset.name)] if len(datasets) > 1 else []),
        *SUMMARY_COLUMNS,
        Column("seeds", num_seeds, decimals=0),
        Column("model", lambda method: method.first.model_name),
        *map(setting_column, tuned),
        *(
            [Column("other differences from the baseline", study.changes)]
            if any(map(study.changes, study.methods))
            else []
        ),
    ]
    table = Table.of("results", "", columns, study.methods, comparable=lambda method: method.first.test_data)
    caption = (
        "CER of the worst language (in parentheses), mean CER over languages, and language identification accuracy "
        f"(LID), in percent. {_measured_on(study)}{_if_marked(table, ' The best number of each column is bold.')}"
    )
    return replace(table, caption=caption)


def language_tables(study: Study) -> list[Table]:
    """The CER of each language, one table per test set. Languages are rows if there are many."""
    names = [f"languages-{name}" for name in slugs([methods[0].first.dataset.name for methods in study.test_sets])]
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
    table = Table.of(name, "", columns, methods, comparable=lambda method: method.first.test_data)
    caption = (
        f"CER of each language of {methods[0].first.dataset.name}, in percent. {_measured_on(study)} The worst "
        f"language of a method is underlined{_if_marked(table, ', the best method for a language is bold')}."
    )
    table = replace(table, caption=caption)
    return table if len(languages) <= MAX_LANGUAGE_COLUMNS else _transposed(table)


def cer_column(language: str) -> Column[MethodRuns]:
    def cell(method: MethodRuns) -> Cell:
        worst = max((rate.mean for rate in method.cer.values()), default=None)
        rate = method.cer.get(language)
        return mean_cell(rate, is_worst=rate is not None and rate.mean == worst)

    return Column(language_name(language), cell, "lower")


def _transposed(table: Table) -> Table:
    columns = [
        Column("language", itemgetter(0)),
        *(Column(str(row[0].value), itemgetter(number)) for number, row in enumerate(table.rows, start=1)),
    ]
    rows = [
        [Cell(column.title if column.better == "higher" else column.name), *(row[number] for row in table.rows)]
        for number, column in enumerate(table.columns[1:], start=1)
    ]
    return Table(table.name, table.caption, columns, rows)


def runs_table(study: Study, intervals: Intervals) -> Table:
    def summary(figure: str, run: RunResult, note: str = "") -> Cell:
        return interval_cell(intervals[run.name].summary.get(figure), note)

    columns: list[Column[RunResult]] = [
        Column("run", study.label),
        Column("worst CER", lambda run: summary("worst_cer", run, run.scores.worst_label(short_name)), "lower"),
        Column("mean CER", lambda run: summary("mean_cer", run), "lower"),
        Column("LID", lambda run: summary("mean_lid", run), "higher"),
        Column("started", lambda run: str(run.about.get("started") or "")[:16].replace("T", " ") or None),
        Column("commit", lambda run: str(run.about.get("commit") or "")[:10] or None),
        Column("folder", lambda run: run.name),
    ]
    caption = "Results of each run, in percent, with 95% intervals over test utterances."
    return Table.of("runs", caption, columns, study.runs)


def details_table(study: Study, intervals: Intervals) -> Table:
    items = [(run, language) for run in study.runs for language in run.scores.languages]

    def rate(name: str, run: RunResult, language: str) -> Cell:
        return interval_cell(intervals[run.name].languages[language].get(name))

    columns: list[Column[tuple[RunResult, str]]] = [
        Column("run", lambda item: study.label(item[0])),
        Column("language", lambda item: language_name(item[1])),
        Column("utterances", lambda item: item[0].scores.languages[item[1]].num_utterances, decimals=0),
        Column("characters", lambda item: item[0].scores.languages[item[1]].characters.reference, decimals=0),
        Column("CER", lambda item: rate("cer", *item), "lower"),
        Column("WER", lambda item: rate("wer", *item), "lower"),
        Column("LID", lambda item: rate("lid", *item), "higher"),
    ]
    caption = (
        "Results of each run and language: test utterances, reference characters, and rates in percent with 95% "
        "intervals over test utterances."
    )
    return Table.of("details", caption, columns, items)


def confusion_table(confusion: ConfusionMatrix, name: str, title: str) -> Table:
    columns = [Column[int]("spoken", lambda row: language_name(confusion.spoken[row]))]
    for language, counts in zip(confusion.recognized, confusion.counts.T.tolist(), strict=True):
        columns.append(Column(language_name(language), counts.__getitem__, decimals=0))
    caption = f"{title}: number of utterances by spoken language (rows) and recognized language (columns)."
    return Table.of(name, caption, columns, range(len(confusion.spoken)))


def _measured_on(study: Study) -> str:
    has_seeds = any(len(method.runs) > 1 for method in study.methods)
    text = f"Split: {study.runs[0].split}." + (" Mean ± standard deviation over seeds." if has_seeds else "")
    return f"{text} {study.seeds_note}".strip()


def _if_marked(table: Table, text: str) -> str:
    return text if any(cell.is_best for row in table.rows for cell in row) else ""
