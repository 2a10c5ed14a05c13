"""Run folders -> one HTML file that opens without a network, and its figures and tables for a paper.

    write_report(["run1", "run2"], "page.html", figures="figures", tables="tables")

Guarantees: the page needs no other file; all text from data is escaped, and the page's security policy allows only its
two scripts; the same runs give the same page. Results are read from the run folders, and computed by `metrics` and
`significance`.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..runtime.extras import extra

with extra("report", "The report"):
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from plotly.offline import get_plotlyjs

from .. import __version__
from ..runtime.progress import Track, untracked
from ..scoring.intervals import confidence_intervals
from ..storage.atomic import atomic_write
from ..storage.paths import PathLike
from .plot_data import cer_bars, confusion_matrix
from .plotly_figures import PageFigure, cer_figure, confusion_figure, lengths_figure, weights_figure
from .read_runs import read_runs
from .study import Study, compare_runs, compare_seeds, make_study, slugs
from .table import Table, write_tables
from .tables.comparisons import best_language_table, paper_tables, seeds_table, significance_table
from .tables.results import Intervals, confusion_table, details_table, language_tables, results_table, runs_table
from .tables.training import differences_table, lengths_table, settings_table, time_table, weights_table
from .worst_utterances import WorstUtterance, worst_utterances

FEW_UTTERANCES = 20
"""Intervals of languages with fewer test utterances are only rough."""


@dataclass(frozen=True)
class Written:
    """The files of a report."""

    page: Path
    figures: list[Path] = field(default_factory=list)
    tables: list[Path] = field(default_factory=list)


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
) -> Written:
    """Writes the page about runs.

    Args:
        runs: folders of finished runs, or folders with `runs/`, as a sweep leaves them.
        out: the HTML file.
        split: whose scores to show.
        baseline: the run, by its name or folder, or the objective that others are compared with; by default `erm`,
            or the first run if none has it.
        figures: folder for the figures as PNG and PDF.
        tables: folder for the tables as Markdown, CSV and LaTeX.
        num_worst: how many of the worst utterances to show, of each test set.
        audio: whether they can be listened to.
        track: shows progress.

    Raises:
        ValueError: naming the folder and the command to run, if a run is not finished or not scored.
    """
    found = read_runs(runs, split)
    study = make_study(found.runs, baseline)
    intervals = {
        run.name: confidence_intervals(run.counts) for run in track(study.runs, "computing intervals", len(study.runs))
    }
    content = _content(study, intervals)
    environment = Environment(
        loader=PackageLoader("ctcdro.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["data"] = _json_in_html
    environment.filters["source_hash"] = _source_hash
    page = environment.get_template("page.html.jinja").render(
        **content,
        worst=_worst(study, num_worst, audio),
        with_audio=audio,
        num_skipped=found.num_skipped,
        version=__version__,
        plotly_js=get_plotlyjs(),
    )
    with atomic_write(out) as file:
        file.write(page)
    written = Written(Path(out))
    if figures is not None:
        from .matplotlib_figures import write_figures

        written.figures.extend(write_figures(study, intervals, figures))
    if tables is not None:
        written.tables.extend(write_tables(list(_tables(content)), tables))
    return written


def _content(study: Study, intervals: Intervals) -> dict[str, Any]:
    """All that the template shows, but for the audio."""
    comparisons = compare_runs(study)
    by_seed = compare_seeds(study)
    datasets = list({run.dataset.path: run.dataset for run in study.runs}.values())
    differing = differences_table(study)
    return {
        "study": study,
        "split": study.runs[0].split,
        "tests": _tests(study),
        "synthetic": [dataset.name for dataset in datasets if dataset.is_synthetic],
        "few": _few(study),
        "few_utterances": FEW_UTTERANCES,
        "empty": [study.label(run) for run in study.runs if run.scores.is_empty],
        "results": results_table(study),
        "languages": language_tables(study),
        "details": details_table(study, intervals),
        "paper": paper_tables(study),
        "runs": runs_table(study, intervals),
        "significance": significance_table(study, comparisons) if comparisons else None,
        "seeds": seeds_table(by_seed) if by_seed else None,
        "best_language": best_language_table(study, comparisons) if comparisons else None,
        "cer_figures": _cer_figures(study, intervals),
        "weights": weights_table(study) if any(run.weights.steps for run in study.runs) else None,
        "weights_figures": _weights_figures(study),
        "constant": [study.label(run) for run in study.runs if run.weights.steps and run.weights.is_constant],
        "confusions": [
            (
                confusion_figure(confusion_matrix(method), f"confusion-{name}", method.name),
                confusion_table(confusion_matrix(method), f"confusion-{name}", method.name),
            )
            for method, name in zip(study.methods, slugs(method.name for method in study.methods), strict=True)
        ],
        "lengths": [
            (lengths_figure(dataset, f"lengths-{name}", dataset.name), lengths_table(dataset, f"lengths-{name}"))
            for name, dataset in study.datasets.items()
        ],
        "time": time_table(study),
        "differences": differing if len(differing.columns) > 1 else None,
        "settings": settings_table(study),
    }


@dataclass(frozen=True)
class TestData:
    """What runs were tested on."""

    name: str
    num_languages: int
    num_utterances: int
    num_characters: int
    profile: str
    baselines: list[str]


def _tests(study: Study) -> list[TestData]:
    found = []
    for methods in study.test_sets:
        first = methods[0].first
        against = [study.baselines[method.name].name for method in methods if method.name in study.baselines]
        found.append(
            TestData(
                first.data_name,
                len(first.scores.languages),
                first.scores.together.num_utterances,
                first.scores.together.characters.reference,
                first.scores.profile,
                list(dict.fromkeys(against)),
            )
        )
    return found


def _worst(study: Study, num_worst: int, audio: bool) -> list[tuple[str, list[WorstUtterance]]]:
    """The worst utterances, with the name of the test set; sets that have none are left out."""
    found = zip(study.test_sets, worst_utterances(study, num_worst, audio), strict=True)
    return [(methods[0].first.data_name, own) for methods, own in found if own]


def _few(study: Study) -> list[str]:
    """Languages with few test utterances."""
    return sorted(
        {
            language
            for run in study.runs
            for language, figures in run.scores.languages.items()
            if figures.num_utterances < FEW_UTTERANCES
        }
    )


def _cer_figures(study: Study, intervals: Intervals) -> list[PageFigure]:
    """A figure for each test set."""
    return [
        cer_figure(cer_bars(intervals, methods), f"cer-{number}", methods[0].first.data_name)
        for number, methods in enumerate(study.test_sets)
    ]


def _weights_figures(study: Study) -> list[PageFigure]:
    """A figure for each run whose weights move."""
    moving = [run for run in study.runs if run.weights.steps and not run.weights.is_constant]
    highest = max((max(own) for run in moving for own in run.weights.groups.values()), default=1.0)
    return [weights_figure(run, study.label(run), f"weights-{number}", highest) for number, run in enumerate(moving)]


def _tables(content: dict[str, Any]) -> Iterable[Table]:
    """The tables among what the page shows."""
    for value in content.values():
        for one in value if isinstance(value, list) else [value]:
            yield from (part for part in (one if isinstance(one, tuple) else (one,)) if isinstance(part, Table))


def _source_hash(script: str) -> str:
    """The hash by which a Content-Security-Policy allows a script."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def _json_in_html(value: Any) -> Any:
    """JSON that may stand in a script element: no character of it can end the element."""
    from markupsafe import Markup

    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for one in "<>&\u2028\u2029":
        text = text.replace(one, f"\\u{ord(one):04x}")
    return Markup(text)
