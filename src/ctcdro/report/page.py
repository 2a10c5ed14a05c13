"""Writes an HTML report about runs, and its figures and tables for a paper.

Guarantees: the page is one file and needs no network; all text from data is escaped, and the page's security policy
allows only its own script; the same runs give the same page.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ..runtime.extras import extra

with extra("report", "The report"):
    from .templating import write_page

from ..runtime.progress import Track, untracked
from ..scoring.before_after import describe_before_after
from ..scoring.budget import describe_budget
from ..scoring.diagnosis import describe
from ..scoring.intervals import confidence_intervals
from ..scoring.scores import FEW_UTTERANCES
from ..speech.language_names import language_name
from ..storage.paths import PathLike
from .figures import ReportFigure, cer_figure, confusion_figure, lengths_figure, weights_figure, write_figures
from .read_runs import read_runs
from .study import Study, make_study, slugs
from .subgroups import describe_subgroups, search_subgroups
from .table import Table, write_tables
from .tables.before_after import before_after_table
from .tables.budget import budget_table
from .tables.comparisons import compare_runs, compare_seeds, paper_tables, seeds_table, significance_table
from .tables.datasets import statistics_table
from .tables.diagnosis import diagnosis_table
from .tables.results import Intervals, confusion_table, details_table, language_tables, results_table, runs_table
from .tables.subgroups import subgroups_table
from .tables.training import differences_table, settings_table, time_table, weights_table
from .worst_utterances import worst_utterances


def write_report(
    runs: Iterable[PathLike],
    out: PathLike,
    *,
    split: str = "test",
    baseline: str | None = None,
    figures: PathLike | None = None,
    tables: PathLike | None = None,
    num_worst: int = 5,
    audio: bool = True,
    track: Track = untracked,
) -> None:
    """Writes an HTML report about runs.

    Args:
        runs: folders of finished runs, or folders that contain `runs/`, such as that of a sweep.
        split: the split whose scores are shown.
        baseline: the run (by name or folder) or objective to compare the others with; by default `erm`, or the first
            method if no run uses it.
        figures: folder for the figures as PNG and PDF.
        tables: folder for the tables as Markdown, CSV and LaTeX.
        num_worst: number of worst utterances to show per test set.
        audio: whether to include their audio, and to search for subgroups by noise, which reads all test audio.

    Raises:
        ValueError: if a run is not finished or not scored. The message names the folder and the command to run.
    """
    loaded = read_runs(runs, split)
    study = make_study(loaded.runs, baseline)
    intervals = {
        run.name: confidence_intervals(run.counts) for run in track(study.runs, "computing intervals", len(study.runs))
    }
    content = _content(study, intervals) | {"subgroups": list(_subgroups(study, audio, track))}
    worst = worst_utterances(study, num_worst, audio)
    write_page("page.html.jinja", out, **content, worst=worst, num_skipped=loaded.num_skipped)
    if figures is not None:
        write_figures(_parts(content, ReportFigure), figures)
    if tables is not None:
        write_tables(_parts(content, Table), tables)


def _content(study: Study, intervals: Intervals) -> dict[str, Any]:
    """The variables of the template, except the worst utterances."""
    comparisons = compare_runs(study)
    by_seed = compare_seeds(study)
    datasets = {run.dataset.path: run.dataset for run in study.runs}.values()
    different = differences_table(study)
    return {
        "study": study,
        "split": study.runs[0].split,
        "synthetic": [dataset.name for dataset in datasets if dataset.is_synthetic],
        "few": sorted({language_name(code) for run in study.runs for code in run.scores.small_languages}),
        "few_utterances": FEW_UTTERANCES,
        "empty": [study.label(run) for run in study.runs if run.scores.is_empty],
        "results": results_table(study),
        "languages": language_tables(study),
        "details": details_table(study, intervals),
        "paper": paper_tables(study),
        "runs": runs_table(study, intervals),
        "significance": significance_table(study, comparisons) if comparisons else None,
        "seeds": seeds_table(by_seed) if by_seed else None,
        "cer_figures": _cer_figures(study, intervals),
        "weights": weights_table(study) if any(run.weights.steps for run in study.runs) else None,
        "weights_figures": _weights_figures(study),
        "diagnoses": list(_diagnoses(study)),
        "budgets": list(_budgets(study)),
        "before_after": list(_before_after(study)),
        "constant": [study.label(run) for run in study.runs if run.weights.steps and run.weights.is_uniform],
        "confusions": list(_confusions(study)),
        "lengths": list(_lengths(study)),
        "time": time_table(study),
        "differences": different if len(different.columns) > 1 else None,
        "settings": settings_table(study),
    }


def _cer_figures(study: Study, intervals: Intervals) -> list[ReportFigure]:
    return [
        cer_figure(methods, intervals, name, methods[0].first.dataset.name, study.seeds_note)
        for methods, name in zip(study.test_sets, slugs("cer" for _ in study.test_sets), strict=True)
    ]


def _weights_figures(study: Study) -> list[ReportFigure]:
    """One figure for each run whose weights change."""
    runs = [run for run in study.runs if run.weights.steps and not run.weights.is_uniform]
    highest = max((max(weights) for run in runs for weights in run.weights.groups.values()), default=1.0)
    names = slugs(map(study.label, runs))
    return [
        weights_figure(run, study.label(run), f"weights-{name}", highest) for run, name in zip(runs, names, strict=True)
    ]


def _diagnoses(study: Study) -> Iterator[tuple[str, list[str], Table]]:
    """The label, the sentences and the table of each run with a diagnosis."""
    found = [(study.label(run), run.diagnosis) for run in study.runs if run.diagnosis is not None]
    for (label, diagnosis), slug in zip(found, slugs(label for label, _ in found), strict=True):
        yield label, describe(diagnosis), diagnosis_table(diagnosis, f"diagnosis-{slug}")


def _budgets(study: Study) -> Iterator[tuple[str, str, Table]]:
    """The label, the sentence and the table of each run with a guard."""
    found = [(study.label(run), run.budget) for run in study.runs if run.budget is not None]
    for (label, budget), slug in zip(found, slugs(label for label, _ in found), strict=True):
        yield label, describe_budget(budget), budget_table(budget, f"budget-{slug}")


def _before_after(study: Study) -> Iterator[tuple[str, str, Table]]:
    """The label, the sentence and the table of each run that started from another model."""
    found = [(study.label(run), run.before_after) for run in study.runs if run.before_after is not None]
    for (label, changes), slug in zip(found, slugs(label for label, _ in found), strict=True):
        yield label, describe_before_after(changes), before_after_table(changes, f"before-after-{slug}")


def _subgroups(study: Study, with_audio: bool, track: Track) -> Iterator[tuple[str, str, Table]]:
    """The label, the sentence and the table of each method, if its test utterances have attributes."""
    known = [found for found in search_subgroups(study, with_audio, track) if found[1].num_searched]
    for (label, search), slug in zip(known, slugs(label for label, _ in known), strict=True):
        yield label, describe_subgroups(search), subgroups_table(search, f"subgroups-{slug}")


def _confusions(study: Study) -> Iterator[tuple[ReportFigure, Table]]:
    for method, slug in zip(study.methods, slugs(method.name for method in study.methods), strict=True):
        arguments = method.confusion(), f"confusion-{slug}", method.name
        yield confusion_figure(*arguments), confusion_table(*arguments)


def _lengths(study: Study) -> Iterator[tuple[ReportFigure, Table]]:
    """Durations of the training utterances of each dataset that still exists."""
    datasets = {run.dataset.path: run.dataset for run in study.runs if run.dataset.durations}.values()
    for dataset, slug in zip(datasets, slugs(dataset.name for dataset in datasets), strict=True):
        caption = f"Training utterances of {dataset.name}: mean ± standard deviation of duration and text length."
        table = statistics_table({"train": dataset.statistics}, f"lengths-{slug}", caption)
        yield lengths_figure(dataset.durations, table.name, dataset.name), table


def _parts(content: dict[str, Any], kind: type) -> Iterator[Any]:
    """The figures or tables among the variables of the template."""
    for value in content.values():
        for item in value if isinstance(value, list) else [value]:
            yield from (part for part in (item if isinstance(item, tuple) else (item,)) if isinstance(part, kind))
