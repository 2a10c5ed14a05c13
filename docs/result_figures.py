"""The figures of README and results, drawn from docs/results.json. Each file carries a digest of its data."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from result_tables import BASELINE, Record, deviation_of, mean_of, name_of
from study_tables import pairs, relative_changes, series_of

ASSETS = Path(__file__).parent / "assets"
COLORS = {
    BASELINE: "#9aa5b1",
    "Group DRO": "#e0a458",
    "CTC-DRO": "#1f6f8b",
    "Error-weighted": "#b5345e",
    "Constant shares by the baseline's CER": "#6a8d3f",
}
BARS = (BASELINE, "CTC-DRO", "Error-weighted")
MARKERS = "osD^vPX<>"


class Figure(NamedTuple):
    data: Callable[[Record], Any]
    """From all results to what the figure shows."""
    draw: Callable[[Any], Any]
    """From the data to a figure of matplotlib."""


def is_current(path: Path, results: Record) -> bool:
    return path.exists() and _digest(FIGURES[path].data(results)).encode() in path.read_bytes()


def draw_figure(path: Path, results: Record) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    data = FIGURES[path].data(results)
    figure = FIGURES[path].draw(data)
    figure.savefig(path, dpi=200, facecolor="white", metadata={"Data": _digest(data)})
    plt.close(figure)


def _digest(data: Any) -> str:
    return hashlib.sha256(json.dumps(data).encode()).hexdigest()


# Error rates of each language.


def rates_by_language(results: Record) -> Record:
    rows = results["experiments"]["study-benchmark"]["rows"]
    return {row["method"]: row["languages"] for row in rows if row["method"] in BARS and "note" not in row}


def draw_bars(data: Record) -> Any:
    """Grouped bars of the CER of each language, the worst first."""
    import matplotlib.pyplot as plt

    languages = sorted(data[BASELINE], key=lambda language: -mean_of(data[BASELINE][language]))
    figure, axes = plt.subplots(figsize=(8, 3.6), layout="constrained")
    width = 0.84 / len(data)
    for number, (method, rates) in enumerate(data.items()):
        for place, language in enumerate(languages):
            rate, deviation = mean_of(rates[language]), deviation_of(rates[language])
            x = place + (number - (len(data) - 1) / 2) * width
            label = method if place == 0 else None
            axes.bar(x, rate, width * 0.94, yerr=deviation, color=COLORS[method], capsize=2, label=label)
            axes.text(x, rate + (deviation or 0) + 1, f"{rate:.0f}", ha="center", va="bottom", fontsize=8)
    names = [name_of(language).replace(" ", "\n") for language in languages]
    axes.set_xticks(range(len(languages)), names, fontsize=11)
    axes.set_ylabel("CER (%), lower is better", fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(axis="x", length=0)
    axes.legend(frameon=False, fontsize=11, loc="upper right")
    axes.set_title("Synthetic speech, mean of four seeds; error bars: standard deviation", fontsize=9.5, loc="left")
    return figure


# Worst and mean of all runs of the study.


def changes_of_runs(results: Record) -> list[Record]:
    """Of every run but the baseline's: its method, its dataset, and its changes against the same seed, in percent."""
    found = []
    for experiment, row, baseline in pairs(results):
        changes = {key: [round(one, 1) for one in relative_changes(row, baseline, key)] for key in ("worst", "mean")}
        found.append({"method": series_of(row), "dataset": experiment["title"], **changes})
    return found


def draw_scatter(data: list[Record]) -> Any:
    """Change of the worst and of the mean CER, one color per method and one marker per dataset."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 5.4), layout="constrained")
    methods = list(dict.fromkeys(row["method"] for row in data))
    datasets = list(dict.fromkeys(row["dataset"] for row in data))
    others = iter(plt.get_cmap("tab10").colors)
    colors = {method: COLORS.get(method) or next(others) for method in methods}
    for row in data:
        marker = MARKERS[datasets.index(row["dataset"])]
        axes.scatter(row["mean"], row["worst"], color=colors[row["method"]], marker=marker, s=32, alpha=0.8, lw=0)
    for color, method in ((colors[method], method) for method in methods):
        axes.scatter([], [], color=color, label=method, s=32)
    for marker, dataset in zip(MARKERS, datasets, strict=False):
        axes.scatter([], [], color="#444", marker=marker, label=dataset, s=32)
    axes.axhline(0, color="#bbb", lw=1, zorder=0)
    axes.axvline(0, color="#bbb", lw=1, zorder=0)
    axes.set_xlabel("change of the mean CER against the baseline of the same seed (%)")
    axes.set_ylabel("change of the worst CER (%)")
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(frameon=False, fontsize=9, loc="outside right upper")
    axes.set_title("Every run of the study; lower left is better in both", fontsize=10, loc="left")
    return figure


FIGURES = {
    ASSETS / "cer-by-language.png": Figure(rates_by_language, draw_bars),
    ASSETS / "study.png": Figure(changes_of_runs, draw_scatter),
}
