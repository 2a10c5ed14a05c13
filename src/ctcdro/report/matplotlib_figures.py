"""The figures of a report as PNG and PDF, for a paper, drawn with matplotlib.

Lines differ in dashes and markers, bars in hatches, so that they can be told apart without color.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..storage.paths import PathLike
from .plot_data import CerBars, ConfusionMatrix, cer_bars, confusion_matrix, thin_out
from .plots import lengths_figure, new_figure
from .read_runs import RunResult
from .study import Study, slugs
from .tables.results import Intervals

COLORS = ("#3b8fd6", "#e07b00", "#1a9e77", "#c65aa0", "#d1495b", "#8a7d00", "#6a6fd1", "#5b8a8a")
"""Distinct to most eyes, on white and on black."""

DASHES: tuple[Any, ...] = ("solid", "dashed", "dotted", "dashdot", (0, (6, 1)), (0, (3, 1, 1, 1, 1, 1)))
MARKERS = "osD^vXP*"
HATCHES = ("", "//", "xx", "..", "\\\\", "--", "++", "||")


def write_figures(study: Study, intervals: Intervals, folder: PathLike) -> list[Path]:
    """Writes all figures of a study as PNG and PDF, and returns the files."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    figures: dict[str, Any] = {}
    for number, methods in enumerate(study.test_sets):
        which = f"-{number + 1}" if number else ""
        figures[f"cer{which}"] = cer_figure(cer_bars(intervals, methods))
        moving = [run for method in methods for run in method.runs if not run.weights.is_constant]
        if moving:
            figures[f"weights{which}"] = weights_figure(moving, [study.label(run) for run in moving])
    for method, name in zip(study.methods, slugs(method.name for method in study.methods), strict=True):
        figures[f"confusion-{name}"] = confusion_figure(confusion_matrix(method), method.name)
    for name, dataset in study.datasets.items():
        figures[f"lengths-{name}"] = lengths_figure(dataset.durations)
    written = []
    for name, figure in figures.items():
        for ending in ("png", "pdf"):
            # Without the date of today the same runs give the same bytes.
            metadata = {"CreationDate": None} if ending == "pdf" else {}
            figure.savefig(folder / f"{name}.{ending}", dpi=200, metadata=metadata)
            written.append(folder / f"{name}.{ending}")
    return written


def weights_figure(runs: Sequence[RunResult], titles: Sequence[str]) -> Any:
    """Weights over steps, a panel a run, as in the paper."""
    columns = min(2, len(runs))
    rows = -(-len(runs) // columns)
    figure = new_figure(3.6 * columns, 2.4 * rows + 0.5)
    panels = np.atleast_1d(figure.subplots(rows, columns, sharey=True, squeeze=False)).ravel()
    groups = sorted({name for run in runs for name in run.weights.groups})
    lines_of: dict[str, Any] = {}
    for panel, run, title in zip(panels, runs, titles, strict=False):
        lines = thin_out(run.weights)
        for place, group in enumerate(groups):
            if group in lines.groups:
                [lines_of[group]] = panel.plot(
                    lines.steps,
                    lines.groups[group],
                    color=COLORS[place % len(COLORS)],
                    linestyle=DASHES[place % len(DASHES)],
                    marker=MARKERS[place % len(MARKERS)],
                    markevery=max(1, len(lines.steps) // 8),
                    markersize=4,
                    linewidth=1.2,
                )
        panel.set_title(title, fontsize=9, parse_math=False)
        panel.set_xlim(0, None)
        panel.tick_params(labelsize=8)
        panel.set_xlabel("step", fontsize=8)
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylim(0.0, None)  # of all: after their lines are there, or the first would set the top for the others
    for panel in panels[len(runs) :]:
        panel.set_visible(False)
    figure.supylabel("group weight", fontsize=9)
    below = {"loc": "outside lower center", "ncols": min(6, len(groups)), "fontsize": 8}
    legend = figure.legend(lines_of.values(), lines_of, **below)
    for text in legend.get_texts():
        text.set_parse_math(False)
    return figure


def cer_figure(bars: Sequence[CerBars]) -> Any:
    """The CER of each language and method, with intervals or seeds."""
    languages = bars[0].languages
    figure = new_figure(max(5.0, 0.6 + 0.16 * len(languages) * (len(bars) + 1.5)), 3.2)
    axes = figure.add_subplot()
    width = 0.84 / len(bars)
    for place, own in enumerate(bars):
        middle = np.arange(len(languages)) + (place + 0.5) * width - 0.42
        axes.bar(
            middle,
            own.values,
            width,
            yerr=np.array([own.below, own.above]) if own.above else None,
            error_kw={"linewidth": 0.8, "capsize": 1.5},
            label=own.label,
            color=COLORS[place % len(COLORS)],
            edgecolor="white",
            linewidth=0.4,
            hatch=HATCHES[place % len(HATCHES)],
        )
        if own.seeds:
            across = np.repeat(middle, [len(seeds) for seeds in own.seeds])
            heights = [value for seeds in own.seeds for value in seeds]
            axes.scatter(across, heights, s=9, color="white", edgecolors="black", linewidths=0.6, zorder=3)
    axes.set_xticks(np.arange(len(languages)), languages, fontsize=8, parse_math=False)
    axes.set_ylabel("CER in per cent", fontsize=9)
    axes.tick_params(axis="y", labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    legend = figure.legend(loc="outside lower center", ncols=min(3, len(bars)), fontsize=8)
    for text in legend.get_texts():
        text.set_parse_math(False)
    return figure


def confusion_figure(found: ConfusionMatrix, title: str) -> Any:
    """Shares of the languages that were recognized, by the language that was said."""
    size = 1.6 + 0.42 * len(found.named)
    figure = new_figure(size, 1.0 + 0.42 * len(found.spoken))
    axes = figure.add_subplot()
    axes.imshow(found.shares, vmin=0.0, vmax=1.0, cmap="Blues", aspect="auto")
    for (row, column), number in np.ndenumerate(found.counts):
        if number:
            color = "white" if found.shares[row, column] > 0.5 else "black"
            axes.text(column, row, str(number), ha="center", va="center", fontsize=7, color=color)
    axes.set_xticks(np.arange(len(found.named)), found.named, fontsize=8, parse_math=False, rotation=45)
    axes.set_yticks(np.arange(len(found.spoken)), found.spoken, fontsize=8, parse_math=False)
    axes.set_xlabel("recognized", fontsize=9)
    axes.set_ylabel("said", fontsize=9)
    axes.set_title(title, fontsize=9, parse_math=False)
    return figure
