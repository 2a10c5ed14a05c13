"""Figures, drawn with matplotlib into files; nothing is shown on a screen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from ..files import PathLike


def draw_lengths(durations: Mapping[str, Sequence[float] | npt.NDArray[np.float64]], path: PathLike) -> None:
    """The distribution of lengths in each group, one below the other on one axis, the shortest mean on top.

    Args:
        durations: seconds of the utterances, by the group's name.
        path: the figure to write; its ending tells the format, as .png or .svg.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("Figures need the extra `report`: pip install 'ctcdro[report]'") from error

    if not durations or not all(len(seconds) for seconds in durations.values()):
        raise ValueError("`durations` must have a group, and each group an utterance.")
    names = sorted(durations, key=lambda name: float(np.mean(durations[name])))
    longest = max(float(np.max(seconds)) for seconds in durations.values()) * 1.001
    edges = np.linspace(0.0, longest, 51)
    figure = Figure(figsize=(7.5, 1.2 + 0.45 * len(names)), layout="constrained")
    axes = figure.add_subplot()
    for row, name in enumerate(reversed(names)):
        seconds = np.asarray(durations[name], dtype=np.float64)
        counts, _ = np.histogram(seconds, edges)
        # A single long utterance among thousands is still to be seen.
        heights = row + np.where(counts > 0, np.maximum(0.85 * counts / counts.max(), 0.06), 0.0)
        colour = f"C{sorted(durations).index(name) % 10}"
        axes.stairs(heights, edges, baseline=row, fill=True, color=colour, alpha=0.55)
        axes.plot([seconds.mean()] * 2, [row, row + 0.85], color=colour, linewidth=1.2)
        axes.text(longest * 1.02, row + 0.2, f"{seconds.mean():.1f} ± {seconds.std():.1f} s", fontsize=8)
    labels = [f"{name} ({len(durations[name]):,})" for name in reversed(names)]
    axes.set_yticks(np.arange(len(names)) + 0.2, labels, parse_math=False)
    axes.tick_params(axis="y", length=0)
    axes.set_xlim(0.0, longest)
    axes.set_ylim(0.0, len(names) + 0.05)
    axes.set_title("Lengths of the training utterances, by group; lines are means", fontsize=9)
    axes.set_xlabel("seconds")
    axes.spines[["top", "right", "left"]].set_visible(False)
    figure.savefig(path, dpi=150)
