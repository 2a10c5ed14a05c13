"""Tables of comparisons: with the baseline on the same utterances and over seeds, and with the paper."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ...objectives.methods import METHODS
from ...scoring.comparisons import Difference
from ...scoring.scores import Scores
from ...scoring.seeds import TTest
from ..against_baseline import RunComparison, SeedComparison
from ..paper_results import SOURCES, PaperResult, paper_results
from ..study import MethodRuns, Study, format_setting
from ..table import Cell, Column, Item, Table, interval_cell, p_value_column, percent
from .results import SUMMARY_COLUMNS, cer_column

FIGURES = {"worst_cer": "worst CER", "mean_cer": "mean CER", "best_cer": "best CER", "mean_lid": "LID"}
"""Titles of the names in `Scores.summary`."""


def _difference_columns(
    name: str, difference: Callable[[Item], Difference | TTest | None], p_name: str
) -> list[Column[Item]]:
    """A difference with its interval, and its p-value."""

    return [
        Column(name, lambda item: interval_cell(difference(item)), signed=True),
        p_value_column(p_name, lambda item: found.p_value if (found := difference(item)) else None),
    ]


def significance_table(study: Study, comparisons: Sequence[RunComparison]) -> Table:
    """Each run against the baseline, on the same utterances."""

    def baseline(comparison: RunComparison) -> Cell:
        is_other_seed = comparison.run.config.seed != comparison.against.config.seed
        return Cell(study.label(comparison.against), note="another seed" if is_other_seed else "")

    def summary(figure: str) -> Callable[[RunComparison], Difference | None]:
        return lambda comparison: comparison.differences.summary.get(figure)

    columns: list[Column[RunComparison]] = [
        Column("run", lambda comparison: study.label(comparison.run)),
        Column("baseline", baseline),
    ]
    for figure in ("worst_cer", "mean_cer", "mean_lid"):
        columns += _difference_columns(f"Δ {FIGURES[figure]}", summary(figure), f"p {FIGURES[figure]}")
    columns += _difference_columns("Δ over languages", lambda comparison: comparison.over_languages, "p over languages")
    caption = (
        "Δ: runs minus the baseline on the same utterances, in points, with 95 % intervals and p-values over "
        "test utterances. Over languages: a paired t-test of the CER that treats languages as a random sample."
    )
    return Table.of("significance", caption, columns, comparisons)


def seeds_table(comparisons: Sequence[SeedComparison]) -> Table:
    """Each method against the baseline, by the paired t-test over seeds."""
    columns: list[Column[SeedComparison]] = [
        Column("method", lambda comparison: comparison.method.name),
        Column("baseline", lambda comparison: comparison.against.name),
        Column("measure", lambda comparison: FIGURES[comparison.figure]),
        Column("seeds", lambda comparison: Cell(len(comparison.seeds), note=_seeds_note(comparison)), decimals=0),
        Column("difference", lambda comparison: interval_cell(comparison.test), signed=True),
        Column("t", lambda comparison: comparison.test.t, decimals=2, signed=True),
        p_value_column("p", lambda comparison: comparison.test.p_value),
    ]
    caption = (
        "Methods minus the baseline over the seeds that both have, in points, with 95 % intervals of the paired "
        "t-test, which cover the variation over training runs."
    )
    if any(len(comparison.seeds) == 2 for comparison in comparisons):
        caption += (
            " With two seeds the t-test has one degree of freedom: intervals are very wide, and a p-value above 0.05 "
            "is no evidence that methods are equal."
        )
    return Table.of("seeds", caption, columns, comparisons)


def _seeds_note(comparison: SeedComparison) -> str:
    numbers = [len(comparison.method.runs), len(comparison.against.runs)]
    notes = ["1 degree of freedom"] if len(comparison.seeds) == 2 else []
    if set(numbers) != {len(comparison.seeds)}:
        notes.append(f"of {numbers[0]} and {numbers[1]}")
    return "; ".join(notes)


def best_language_table(study: Study, comparisons: Sequence[RunComparison]) -> Table:
    """The effect on the language that is recognized best."""

    def best(scores: Scores) -> Cell:
        language, rate = scores.best() or ("", None)
        return percent(rate, note=language)

    columns: list[Column[RunComparison]] = [
        Column("run", lambda comparison: study.label(comparison.run)),
        Column("baseline", lambda comparison: study.label(comparison.against)),
        Column("best CER", lambda comparison: best(comparison.run.scores), "lower"),
        Column("baseline's best CER", lambda comparison: best(comparison.against.scores), "lower"),
        *_difference_columns("difference", lambda comparison: comparison.differences.summary.get("best_cer"), "p"),
    ]
    caption = (
        "CER of the language that a run recognizes best (in parentheses), in percent, and that of the baseline; "
        "difference in points, with 95 % interval and p-value over test utterances."
    )
    return Table.of("best-language", caption, columns, comparisons)


def paper_tables(study: Study) -> list[Table]:
    """For each of the paper's sets among the data: results of these runs, and the paper's."""
    by_set: dict[str, list[MethodRuns]] = {}
    for method in study.methods:
        if method.first.dataset.set_name is not None:
            by_set.setdefault(method.first.dataset.set_name, []).append(method)
    return [_paper_table(name, methods) for name, methods in by_set.items()]


@dataclass(frozen=True)
class _PaperRow:
    """A method of these runs or of the paper."""

    objective: str
    method: str
    source: str
    model: str
    step_size: float | None
    smoothing: float | None
    cells: Mapping[str, Cell]
    """Rates by the names of their columns."""


def _paper_table(set_name: str, methods: Sequence[MethodRuns]) -> Table:
    published = {
        (result.model, result.objective): result
        for method in methods
        for result in paper_results(set_name, method.first.config.model.encoder)
    }
    languages = sorted(next(iter(published.values())).cer)
    rates = [*SUMMARY_COLUMNS, *map(cer_column, languages)]
    columns: list[Column[_PaperRow]] = [
        Column("method", lambda row: row.method),
        Column("source", lambda row: row.source),
        Column("model", lambda row: row.model),
        Column("step size", lambda row: format_setting(row.step_size)),
        Column("smoothing", lambda row: format_setting(row.smoothing)),
        *(_rate_column(column) for column in rates),
    ]
    rows = [*(_our_row(method, rates) for method in methods), *map(_published_row, published.values())]
    profiles = sorted({method.first.scores.profile for method in methods})
    caption = (
        f"The paper's {set_name}: these runs, and what the paper reports ({SOURCES[set_name]}), in percent. "
        "The worst language of each row is underlined. "
        f"These runs are scored under profile {', '.join(profiles)}"
        + ("." if profiles == ["paper"] else "; the authors' scoring is profile paper, so numbers differ somewhat.")
        + " LID of these runs is the mean over languages; the authors' scripts count all utterances."
    )
    rows.sort(key=lambda row: list(METHODS).index(row.objective))
    return Table.of(f"paper-{set_name}", caption, columns, rows)


def _rate_column(column: Column[MethodRuns]) -> Column[_PaperRow]:
    return Column(column.name, lambda row: row.cells[column.name], column.better)


def _our_row(method: MethodRuns, rates: Sequence[Column[MethodRuns]]) -> _PaperRow:
    cells = {column.name: column.make_cell(method) for column in rates}
    settings = method.setting("step_size"), method.setting("smoothing")
    return _PaperRow(method.objective, method.name, "these runs", method.first.model_name, *settings, cells)


def _published_row(result: PaperResult) -> _PaperRow:
    language, worst = result.worst
    cells = {"worst CER": Cell(worst, note=language), "mean CER": Cell(result.mean), "LID": Cell(result.lid)}
    cells |= {name: Cell(rate, is_worst=name == language) for name, rate in result.cer.items()}
    title = METHODS[result.objective].title
    return _PaperRow(result.objective, title, "the paper", result.model, result.step_size, result.smoothing, cells)
