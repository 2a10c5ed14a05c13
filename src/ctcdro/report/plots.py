"""Figures, drawn with matplotlib into files; nothing is shown on a screen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..runtime.extras import extra
from ..storage.paths import PathLike
from .plot_data import Floats, length_histograms


def new_figure(width: float, height: float) -> Any:
    """An empty figure of so many inches.

    Raises:
        ImportError: naming the extra, if matplotlib is missing.
    """
    with extra("report", "Drawing figures"):
        from matplotlib.figure import Figure
    return Figure(figsize=(width, height), layout="constrained")


def draw_lengths(durations: Mapping[str, Sequence[float] | Floats], path: PathLike) -> None:
    """The distribution of lengths in each group, one below the other on one axis, the shortest mean on top.

    Args:
        durations: seconds of the utterances, by the group's name.
        path: the figure to write; its ending tells the format, as .png or .svg.
    """
    lengths_figure(durations).savefig(path, dpi=150)


def lengths_figure(durations: Mapping[str, Sequence[float] | Floats]) -> Any:
    """The figure that `draw_lengths` writes."""
    found = length_histograms(durations)
    names = list(found.heights)
    longest = float(found.edges[-1])
    figure = new_figure(7.5, 1.2 + 0.45 * len(names))
    axes = figure.add_subplot()
    for row, name in enumerate(reversed(names)):
        seconds = np.asarray(durations[name], dtype=np.float64)
        color = f"C{sorted(durations).index(name) % 10}"
        heights = row + 0.85 * found.heights[name]
        axes.stairs(heights, found.edges, baseline=row, fill=True, color=color, alpha=0.55)
        axes.plot([found.means[name]] * 2, [row, row + 0.85], color=color, linewidth=1.2)
        axes.text(longest * 1.02, row + 0.2, f"{seconds.mean():.1f} ± {seconds.std():.1f} s", fontsize=8)
    labels = [f"{name} ({len(durations[name]):,})" for name in reversed(names)]
    axes.set_yticks(np.arange(len(names)) + 0.2, labels, parse_math=False)
    axes.tick_params(axis="y", length=0)
    axes.set_xlim(0.0, longest)
    axes.set_ylim(0.0, len(names) + 0.05)
    axes.set_title("Lengths of the training utterances, by group; lines are means", fontsize=9)
    axes.set_xlabel("seconds")
    axes.spines[["top", "right", "left"]].set_visible(False)
    return figure
