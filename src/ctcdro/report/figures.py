"""The figures of a report, drawn with matplotlib: inline SVG on the page, PNG and PDF for a paper.

Lines differ in dashes and markers, bars in hatches, so that they can be distinguished without color. The text color of
the page, which follows light and dark mode, replaces black. The same runs give the same bytes.
"""

from __future__ import annotations

import io
import re
import textwrap
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..runtime.extras import extra
from ..scoring.edits import Floats
from ..scoring.formatting import format_percent, format_tied
from ..scoring.intervals import Interval, Uncertainty
from ..speech.language_names import language_name
from ..storage.paths import PathLike
from .read_runs import RunResult
from .study import ConfusionMatrix, MethodRuns

with extra("report", "Drawing figures"):
    import matplotlib
    from matplotlib.figure import Figure

COLORS = ("#3b8fd6", "#e07b00", "#1a9e77", "#c65aa0", "#d1495b", "#8a7d00", "#6a6fd1", "#5b8a8a")
"""Distinguishable for most people, on white and on black."""
DASHES: tuple[Any, ...] = ("solid", "dashed", "dotted", "dashdot", (0, (6, 1)), (0, (3, 1, 1, 1, 1, 1)))
MARKERS = "osD^vXP*"
HATCHES = ("", "//", "xx", "..", "\\\\", "--", "++", "||")
DARK = "#1b1f24"
"""Color of text on bright cells, which stays dark in dark mode."""

WIDTH = 5.0
"""Inches; readable when the page scales figures to the width of a phone."""
MAX_POINTS = 500
MAX_LABEL = 28
MAX_LEGEND = 60
MAX_LANGUAGES_WITH_COUNTS = 20

_STYLE = {
    "figure.constrained_layout.use": True,
    "font.size": 8.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "hatch.linewidth": 0.6,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "text.parse_math": False,
}


@dataclass(frozen=True)
class ReportFigure:
    name: str
    """Used for file names and as the anchor on the page."""
    title: str
    description: str
    """The content of the figure in words."""
    figure: Figure

    def to_svg(self) -> str:
        """An SVG element for the page, without metadata, comments, and ids that other figures also use."""
        file = io.StringIO()
        with figure_style(self.name):
            self.figure.savefig(file, format="svg", transparent=True, metadata={"Date": None})
        svg = re.sub(r"^.*?(?=<svg)|<metadata>.*?</metadata>|<!--.*?-->", "", file.getvalue(), flags=re.S)
        svg = re.sub(r'<g id="[\w.]+_\d+"', "<g", svg)
        return re.sub(r'style="[^"]*"', lambda style: style[0].replace("#000000", "currentColor"), svg)


@contextmanager
def figure_style(salt: str = "") -> Iterator[None]:
    with matplotlib.rc_context({**_STYLE, "svg.hashsalt": salt}), warnings.catch_warnings():
        # Browsers have fonts for scripts that matplotlib's font does not cover.
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        yield


def write_figures(figures: Iterable[ReportFigure], folder: PathLike) -> None:
    """Writes each figure as PNG and PDF, without dates."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    with figure_style():
        for drawn in figures:
            drawn.figure.savefig(Path(folder) / f"{drawn.name}.png", dpi=200)
            drawn.figure.savefig(Path(folder) / f"{drawn.name}.pdf", metadata={"CreationDate": None})


def _shorten(label: str, most: int = MAX_LABEL) -> str:
    return label if len(label) <= most else label[: most - 1] + "…"


def _inches(label: str) -> float:
    """An upper bound on the width of a label."""
    return sum(0.14 if letter.isupper() or letter > "\u2e80" else 0.08 for letter in label)


def _num_legend_columns(labels: Sequence[str], width: float) -> int:
    return max(1, min(len(labels), int(width / (0.6 + 0.065 * max(map(len, labels))))))


def weights_figure(run: RunResult, label: str, name: str, highest: float) -> ReportFigure:
    """Group weights over steps. `highest` is the upper end of the axis, common to all runs of a report."""
    weights = run.weights
    labels = {group: _shorten(language_name(group)) for group in sorted(weights.groups)}
    every = -(-len(weights.steps) // MAX_POINTS)
    kept = sorted({*range(0, len(weights.steps), every), len(weights.steps) - 1})
    num_columns = _num_legend_columns(list(labels.values()), WIDTH)
    with figure_style():
        figure = Figure((WIDTH, 2.5 + 0.16 * -(-len(weights.groups) // num_columns)))
        axes = figure.add_subplot()
        for number, group in enumerate(labels):
            axes.plot(
                [weights.steps[index] for index in kept],
                [weights.groups[group][index] for index in kept],
                color=COLORS[number % len(COLORS)],
                linestyle=DASHES[number % len(DASHES)],
                marker=MARKERS[number % len(MARKERS)],
                markevery=max(1, len(kept) // 8),
                markersize=4,
                linewidth=1.2,
                label=labels[group],
            )
        axes.set(xlabel="step", ylabel="group weight", xlim=(0, None), ylim=(0, 1.05 * highest))
        figure.legend(loc="outside lower center", ncols=num_columns)
    last = {group: values[-1] for group, values in weights.groups.items()}
    heaviest, lightest = max(last, key=lambda group: last[group]), min(last, key=lambda group: last[group])
    description = (
        f"{label}: weight of each group over {len(weights.steps):,} steps. At the end, {language_name(heaviest)} has "
        f"the highest weight ({last[heaviest]:.2f}) and {language_name(lightest)} the lowest ({last[lightest]:.2f})."
    )
    return ReportFigure(name, label, description, figure)


def cer_figure(
    methods: Sequence[MethodRuns],
    intervals: Mapping[str, Uncertainty[Interval]],
    name: str,
    title: str,
    seeds_note: str = "",
) -> ReportFigure:
    """CER of each language and method, with intervals or one dot per seed; the first method's worst language on top."""
    has_seeds = any(len(method.runs) > 1 for method in methods)
    languages = sorted(methods[0].cer, key=lambda language: -methods[0].cer[language].mean)
    height = 0.84 / len(methods)
    names = {method.name: textwrap.fill(method.name, MAX_LEGEND) for method in methods}
    num_lines = sum(1 + text.count("\n") for text in names.values())
    worst = []
    with figure_style():
        figure = Figure((WIDTH, 0.9 + 0.13 * len(languages) * (len(methods) + 0.8) + 0.15 * num_lines))
        axes = figure.add_subplot()
        for number, method in enumerate(methods):
            means = [100 * method.cer[language].mean for language in languages]
            middle = np.arange(len(languages)) + (number + 0.5) * height - 0.42
            reach = None
            if not has_seeds:
                limits = [intervals[method.first.name].languages[language]["cer"] for language in languages]
                reach = [[100 * (x.value - x.low) for x in limits], [100 * (x.high - x.value) for x in limits]]
            axes.barh(
                middle,
                means,
                height,
                xerr=reach,
                error_kw={"linewidth": 0.8, "capsize": 1.5},
                label=names[method.name],
                color=COLORS[number % len(COLORS)],
                edgecolor="white",
                linewidth=0.4,
                hatch=HATCHES[number % len(HATCHES)],
            )
            if has_seeds:
                seeds = np.array([[run.scores.rates("cer")[language] for language in languages] for run in method.runs])
                across = np.tile(middle, len(method.runs))
                axes.scatter(100 * seeds.ravel(), across, s=9, color="white", edgecolors=DARK, linewidths=0.6, zorder=3)
            if means:
                tied = [language for language, cer in zip(languages, means, strict=True) if cer == max(means)]
                shown = format_tied([language_name(language, with_code=False) for language in tied])
                worst.append(f"{method.name} {max(means):.1f} ({shown})")
        axes.set_yticks(np.arange(len(languages)), [_shorten(language_name(language)) for language in languages])
        axes.set(xlabel="CER in percent", xlim=(0, None), ylim=(max(1, len(languages)) - 0.5, -0.5))
        if len(methods) > 1:
            figure.legend(loc="outside upper left", ncols=_num_legend_columns(list(names.values()), WIDTH))
    drawn = "means over seeds; each dot is a seed" if has_seeds else "with 95% intervals over test utterances"
    order = " Bars are in the order of the legend." if len(methods) > 1 else ""
    description = f"CER of {len(languages)} languages, {drawn}.{order} Worst CER in percent: {'; '.join(worst)}."
    description = f"{description} {seeds_note}".strip()
    return ReportFigure(name, title, description, figure)


def confusion_figure(matrix: ConfusionMatrix, name: str, title: str) -> ReportFigure:
    """Shares of the recognized languages for each spoken language, with the numbers of utterances."""
    shares = matrix.counts / np.maximum(matrix.counts.sum(axis=1, keepdims=True), 1)
    has_counts = len(matrix.recognized) <= MAX_LANGUAGES_WITH_COUNTS
    size = 0.28 if has_counts else 0.13
    spoken = [_shorten(language_name(name)) for name in matrix.spoken]
    recognized = list(map(_shorten, matrix.recognized))
    margins = [max(least, 0.6 + max(map(_inches, labels))) for least, labels in ((1.8, spoken), (1.0, recognized))]
    with figure_style():
        figure = Figure((margins[0] + size * len(recognized), margins[1] + size * len(spoken)))
        axes = figure.add_subplot()
        axes.imshow(shares, vmin=0.0, vmax=1.0, cmap="Blues", aspect="auto", interpolation="none")
        for (row, column), number in np.ndenumerate(matrix.counts) if has_counts else ():
            if number:
                color = "white" if shares[row, column] > 0.5 else DARK
                axes.text(column, row, str(number), ha="center", va="center", fontsize=7, color=color)
        axes.set_xticks(np.arange(len(recognized)), recognized, rotation=90)
        axes.set_yticks(np.arange(len(spoken)), spoken)
        axes.set(xlabel="recognized", ylabel="spoken")
    total, num_right = int(matrix.counts.sum()), int(np.trace(matrix.counts))
    description = (
        f"{title}: the language of {num_right:,} of {total:,} utterances was recognized correctly "
        f"({format_percent(num_right / total)}%)."
    )
    return ReportFigure(name, title, description, figure)


def lengths_figure(durations: Mapping[str, Sequence[float] | Floats], name: str, title: str) -> ReportFigure:
    """Histograms of utterance durations per group, in seconds, on a common axis; the shortest mean on top."""
    if not durations or not all(len(seconds) for seconds in durations.values()):
        raise ValueError("`durations` must have at least one group, and each group at least one utterance.")
    means = {group: float(np.mean(seconds)) for group, seconds in durations.items()}
    groups = sorted(durations, key=lambda group: means[group])
    edges = np.linspace(0.0, max(float(np.max(seconds)) for seconds in durations.values()) * 1.001, 51)
    with figure_style():
        figure = Figure((WIDTH, 0.7 + 0.34 * len(groups)))
        axes = figure.add_subplot()
        for row, group in enumerate(reversed(groups)):
            counts, _ = np.histogram(np.asarray(durations[group], dtype=np.float64), edges)
            # A minimum height keeps a single long utterance among thousands visible.
            heights = np.where(counts > 0, np.maximum(counts / counts.max(), 0.07), 0.0)
            color = COLORS[sorted(durations).index(group) % len(COLORS)]
            axes.stairs(row + 0.85 * heights, edges, baseline=row, fill=True, color=color, alpha=0.6)
            axes.plot([means[group]] * 2, [row, row + 0.85], color=color, linewidth=1.5, linestyle="dotted")
        labels = [f"{_shorten(language_name(group))}: {len(durations[group]):,}" for group in reversed(groups)]
        axes.set_yticks(np.arange(len(groups)) + 0.3, labels)
        axes.tick_params(axis="y", length=0)
        axes.set(xlabel="seconds", xlim=(0.0, edges[-1]), ylim=(0.0, len(groups) + 0.05))
        axes.spines["left"].set_visible(False)
    shown = ", ".join(f"{language_name(group)} {means[group]:.1f}" for group in groups)
    description = (
        "Durations of the training utterances per group, with the number of utterances. Dotted lines are means, in "
        f"seconds: {shown}."
    )
    return ReportFigure(name, title, description, figure)


def draw_lengths(durations: Mapping[str, Sequence[float] | Floats], path: PathLike) -> None:
    """Writes the figure of utterance durations to a file in the format of its suffix, such as .png or .svg."""
    with figure_style():
        lengths_figure(durations, "lengths", "").figure.savefig(path, dpi=150)
