"""Comparisons with the baseline, on the same utterances and over seeds, and with the paper; and their tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...objectives.methods import METHODS
from ...runs.parsing import format_setting
from ...scoring.comparisons import Difference, compare
from ...scoring.intervals import Uncertainty
from ...scoring.scores import Scores
from ...scoring.seeds import TTest, paired_t_test, t_test_over_languages
from ..paper_results import PaperResult, paper_results, paper_tables_of
from ..read_runs import RunResult
from ..study import MethodRuns, Study
from ..table import Cell, Column, Table, interval_cell, p_value_column, percent
from .results import SUMMARY_COLUMNS, cer_column, short_name

FIGURES = {"worst_cer": "worst CER", "mean_cer": "mean CER", "best_cer": "best CER", "mean_lid": "LID"}
"""Titles of the names in `Scores.summary`."""
OVER_LANGUAGES = "over_languages"
MIN_SEEDS = 3
"""With two seeds, the interval of a t-test has one degree of freedom, and is 13 standard errors wide on each side."""


@dataclass(frozen=True)
class RunComparison:
    """The difference between a run and the baseline's run with the same seed, or its first run."""

    run: RunResult
    against: RunResult
    differences: Uncertainty[Difference]
    over_languages: TTest | None


def compare_runs(study: Study) -> list[RunComparison]:
    """Compares each run with the baseline, utterance by utterance, for the variation over test utterances."""
    comparisons = []
    for method in study.methods:
        if (baseline := study.baselines.get(method.name)) is not None:
            for run in method.runs:
                against = baseline.by_seed().get(run.config.seed, baseline.first)
                test = t_test_over_languages(against.scores, run.scores)
                comparisons.append(RunComparison(run, against, compare(against.counts, run.counts), test))
    return comparisons


@dataclass(frozen=True)
class SeedComparison:
    """The difference between a method and the baseline, over the seeds that both have."""

    method: MethodRuns
    against: MethodRuns
    figure: str
    seeds: list[int]
    test: TTest


def compare_seeds(study: Study) -> list[SeedComparison]:
    """Tests each method that shares at least two seeds with its baseline, for the variation over training runs."""
    comparisons = []
    for method in study.methods:
        if (baseline := study.baselines.get(method.name)) is None:
            continue
        first, second = baseline.by_seed(), method.by_seed()
        seeds = sorted(set(first) & set(second))
        for figure in FIGURES:
            values = [[runs[seed].scores.summary()[figure] for seed in seeds] for runs in (first, second)]
            before, after = ([value for value in of_method if value is not None] for of_method in values)
            if len(seeds) > 1 and [before, after] == values:
                comparisons.append(SeedComparison(method, baseline, figure, seeds, paired_t_test(before, after)))
    return comparisons


def significance_table(study: Study, comparisons: Sequence[RunComparison]) -> Table:
    def difference(item: tuple[RunComparison, str]) -> Difference | TTest | None:
        comparison, figure = item
        return comparison.over_languages if figure == OVER_LANGUAGES else comparison.differences.summary.get(figure)

    def baseline(item: tuple[RunComparison, str]) -> Cell:
        run, against = item[0].run, item[0].against
        return Cell(study.label(against), note="" if run.config.seed == against.config.seed else "another seed")

    measures = {**FIGURES, OVER_LANGUAGES: "mean CER, over languages"}
    columns: list[Column[tuple[RunComparison, str]]] = [
        Column("run", lambda item: study.label(item[0].run)),
        Column("baseline", baseline),
        Column("measure", lambda item: measures[item[1]]),
        Column("baseline rate", lambda item: _rate(item[0].against.scores, item[1])),
        Column("run rate", lambda item: _rate(item[0].run.scores, item[1])),
        Column("difference", lambda item: interval_cell(difference(item)), signed=True),
        p_value_column("p", lambda item: found.p_value if (found := difference(item)) else None),
    ]
    items = [(comparison, figure) for comparison in comparisons for figure in measures]
    caption = (
        "Difference between each run and the baseline on the same utterances. Rates are in percent, with the worst or "
        "best language in parentheses. Differences are in percentage points, with 95% intervals and p-values over "
        "test utterances. The measure “over languages” is a paired t-test that treats languages as a random sample."
    )
    return Table.of("significance", caption, columns, filter(difference, items))


def _rate(scores: Scores, figure: str) -> Cell:
    notes = {"worst_cer": scores.worst_label(short_name), "best_cer": scores.best_label(short_name)}
    return percent(scores.summary()["mean_cer" if figure == OVER_LANGUAGES else figure], note=notes.get(figure, ""))


def seeds_table(comparisons: Sequence[SeedComparison]) -> Table:
    columns: list[Column[SeedComparison]] = [
        Column("method", lambda comparison: comparison.method.name),
        Column("baseline", lambda comparison: comparison.against.name),
        Column("measure", lambda comparison: FIGURES[comparison.figure]),
        Column("seeds", lambda comparison: Cell(len(comparison.seeds), note=_seeds_note(comparison)), decimals=0),
        Column("difference", _seed_difference, signed=True),
        Column("t", lambda item: item.test.t if _has_interval(item) else None, decimals=2, signed=True),
        p_value_column("p", lambda item: item.test.p_value if _has_interval(item) else None),
    ]
    caption = (
        "Difference between each method and the baseline over the seeds that both have, in percentage points, with "
        "95% intervals of the paired t-test, which include the variation between training runs."
    )
    if not all(map(_has_interval, comparisons)):
        caption += f" Fewer than {MIN_SEEDS} seeds give no useful interval."
    return Table.of("seeds", caption, columns, comparisons)


def _has_interval(comparison: SeedComparison) -> bool:
    return len(comparison.seeds) >= MIN_SEEDS


def _seed_difference(comparison: SeedComparison) -> Cell:
    if _has_interval(comparison):
        return interval_cell(comparison.test)
    return percent(comparison.test.value, note=f"{len(comparison.seeds)} seeds: no interval")


def _seeds_note(comparison: SeedComparison) -> str:
    numbers = [len(comparison.method.runs), len(comparison.against.runs)]
    return "" if set(numbers) == {len(comparison.seeds)} else f"of {numbers[0]} and {numbers[1]}"


def paper_tables(study: Study) -> list[Table]:
    """One table for each of the paper's language sets in the data: results of these runs and of the paper."""
    by_set: dict[str, list[MethodRuns]] = {}
    for method in study.methods:
        if method.first.dataset.set_name is not None:
            by_set.setdefault(method.first.dataset.set_name, []).append(method)
    return [_paper_table(name, methods) for name, methods in by_set.items()]


def _paper_table(set_name: str, methods: Sequence[MethodRuns]) -> Table:
    published = {
        (result.model, result.objective): result
        for method in methods
        for result in paper_results(set_name, method.first.config.model.encoder)
    }.values()
    columns: list[Column[MethodRuns]] = [
        Column("method", lambda method: method.name),
        Column("source", lambda method: "these runs"),
        Column("model", lambda method: method.first.model_name),
        Column("step size", lambda method: format_setting(method.setting("step_size"))),
        Column("smoothing", lambda method: format_setting(method.setting("smoothing"))),
        *SUMMARY_COLUMNS,
        *map(cer_column, sorted(next(iter(published)).cer)),
    ]
    rows = [*Table.of("", "", columns, methods).rows, *map(_published_row, published)]
    objectives = [*(method.objective for method in methods), *(result.objective for result in published)]
    order = sorted(range(len(rows)), key=lambda index: list(METHODS).index(objectives[index]))
    profiles = sorted({method.first.scores.profile for method in methods})
    caption = (
        f"Language set {set_name} of the paper: these runs and the paper's results ({paper_tables_of(set_name)}), in "
        "percent. The worst language of each row is underlined. "
        f"These runs use scoring profile {', '.join(profiles)}"
        + ("." if profiles == ["paper"] else "; the authors' scoring is profile paper, so numbers differ slightly.")
        + " LID of these runs is the mean over languages; the authors' scripts average over all utterances."
    )
    return Table(f"paper-{set_name}", caption, columns, [rows[index] for index in order])


def _published_row(result: PaperResult) -> list[Cell]:
    worst, rate = result.worst
    about = [METHODS[result.objective].title, "the paper", result.model]
    settings = [format_setting(result.step_size), format_setting(result.smoothing)]
    cers = [Cell(result.cer[language], is_worst=language == worst) for language in sorted(result.cer)]
    summary = Cell(rate, note=short_name(worst)), Cell(result.mean), Cell(result.lid)
    return [*map(Cell, (*about, *settings)), *summary, *cers]
