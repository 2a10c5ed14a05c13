"""The figures of the page, as plotly.js takes them: traces and a layout, without colors of the page, which it adds.

Lines differ in dashes and markers, bars in patterns, so that they can be told apart without color. Names from data are
escaped, since plotly takes tags in texts for its own.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..runtime.extras import extra
from .matplotlib_figures import COLORS
from .plot_data import CerBars, ConfusionMatrix, length_histograms, thin_out
from .read_runs import Dataset, RunResult

with extra("report", "The report"):
    import plotly.graph_objects as go

DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "triangle-down", "x", "cross", "star")
PATTERNS = ("", "/", "x", ".", "\\", "-", "+", "|")
MOST_WRITTEN = 12
"""Languages in whose confusions the counts are written."""


@dataclass(frozen=True)
class PageFigure:
    """A figure of the page, and what it shows, in words."""

    name: str
    title: str
    description: str
    spec: dict[str, Any]
    """`data` and `layout`, as plotly.js takes them."""
    height: int


def escaped(text: str) -> str:
    """Text that plotly shows as it is; between two $ it would look for mathematics.

    Example:
        >>> escaped("<b>a</b> & $b$")
        '&lt;b&gt;a&lt;/b&gt; &amp; &#36;b&#36;'
    """
    for one, written in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("$", "&#36;")):
        text = text.replace(one, written)
    return text


def weights_figure(run: RunResult, label: str, name: str, highest: float) -> PageFigure:
    """Weights over steps, up to `highest`, so that runs can be compared."""
    lines = thin_out(run.weights)
    groups = sorted(lines.groups)
    traces = [
        go.Scatter(
            x=lines.steps,
            y=[round(weight, 4) for weight in lines.groups[group]],
            name=escaped(group),
            mode="lines+markers",
            line={"color": _nth(COLORS, place), "dash": _nth(DASHES, place), "width": 2},
            marker={"symbol": _nth(SYMBOLS, place), "size": 8, "maxdisplayed": 8},
            hovertemplate="%{y:.3f}",
        )
        for place, group in enumerate(groups)
    ]
    layout = _layout(
        xaxis={"title": {"text": "step", "standoff": 4}, "range": [0, lines.steps[-1] * 1.01]},
        yaxis={"title": {"text": "group weight"}, "range": [0, min(1.0, highest * 1.05)]},
        hovermode="x unified",
    )
    last = {group: run.weights.groups[group][-1] for group in groups}
    heaviest, lightest = max(last, key=lambda one: last[one]), min(last, key=lambda one: last[one])
    description = (
        f"{label}: weight of each group over {len(run.weights.steps):,} steps. At the end {heaviest} has the highest "
        f"weight, {last[heaviest]:.2f}, and {lightest} the lowest, {last[lightest]:.2f}."
    )
    return PageFigure(name, label, description, _spec(traces, layout), 340)


def cer_figure(bars: Sequence[CerBars], name: str, title: str) -> PageFigure:
    """The CER of each language and method, with intervals or seeds; bars are horizontal to fit a phone."""
    traces = []
    for place, own in enumerate(bars):
        languages = [escaped(language) for language in own.languages]
        color = _nth(COLORS, place)
        shared = {"name": escaped(own.label), "orientation": "h", "offsetgroup": str(place), "legendgroup": str(place)}
        intervals = {
            "type": "data",
            "symmetric": False,
            "array": [round(reach, 3) for reach in own.above],
            "arrayminus": [round(reach, 3) for reach in own.below],
            "thickness": 1.2,
            "width": 2,
        }
        traces.append(
            go.Bar(
                y=languages,
                x=[round(value, 3) for value in own.values],
                error_x=intervals if own.above else None,
                marker={
                    "color": color,
                    "line": {"color": color, "width": 1},
                    "pattern": {"shape": _nth(PATTERNS, place), "size": 6, "solidity": 0.4},
                },
                customdata=[", ".join(f"{value:.1f}" for value in seeds) for seeds in own.seeds],
                hovertemplate="%{x:.1f} %" + (" (seeds: %{customdata})" if own.seeds else ""),
                **shared,
            )
        )
        if own.seeds:
            traces.append(
                go.Scatter(
                    y=[name for name, seeds in zip(languages, own.seeds, strict=True) for _ in seeds],
                    x=[round(value, 3) for seeds in own.seeds for value in seeds],
                    mode="markers",
                    marker={"color": "white", "size": 6, "line": {"color": "#1b1f24", "width": 1.2}},
                    showlegend=False,
                    hoverinfo="skip",
                    **shared,
                )
            )
    layout = _layout(
        barmode="group",
        bargap=0.18,
        scattermode="group",
        scattergap=0.18,
        showlegend=len(bars) > 1,
        xaxis={"title": {"text": "CER in per cent"}, "rangemode": "tozero"},
        yaxis={"autorange": "reversed", "ticks": "", "type": "category"},
        hovermode="y unified",
    )
    layout["legend"]["y"] = 1.0
    layout["legend"]["yanchor"] = "bottom"
    layout["legend"]["traceorder"] = "normal"
    worst = "; ".join(
        f"{own.label}: {own.languages[int(np.argmax(own.values))]} {max(own.values):.1f}" for own in bars if own.values
    )
    num_languages = len(bars[0].languages)
    height = 170 + num_languages * (14 * len(bars) + 12) + 14 * len(bars)
    drawn = "means over seeds; each dot is a seed" if bars[0].seeds else "with 95 % intervals over test utterances"
    order = " Bars are in the order of the legend." if len(bars) > 1 else ""
    description = f"CER of {num_languages} languages, {drawn}.{order} Worst, in percent: {worst}."
    return PageFigure(name, title, description, _spec(traces, layout), height)


def confusion_figure(found: ConfusionMatrix, name: str, title: str) -> PageFigure:
    """Shares of the languages that were recognized, by the language that was said."""
    is_written = len(found.named) <= MOST_WRITTEN
    trace = go.Heatmap(
        z=found.shares.round(4).tolist(),
        x=[escaped(one) for one in found.named],
        y=[escaped(one) for one in found.spoken],
        zmin=0,
        zmax=1,
        colorscale=[[0, "#f1f4f8"], [0.5, "#7fb0dc"], [1, "#0b4f8a"]],
        showscale=False,
        xgap=1,
        ygap=1,
        text=[[str(number) if number else "" for number in row] for row in found.counts.tolist()],
        texttemplate="%{text}" if is_written else None,
        hovertemplate="said %{y}, recognized %{x}: %{z:.1%}<extra></extra>",
    )
    layout = _layout(
        xaxis={"title": {"text": "recognized"}, "type": "category", "tickangle": -45, "showgrid": False},
        yaxis={"title": {"text": "said"}, "type": "category", "autorange": "reversed", "showgrid": False},
    )
    total, right = (
        int(found.counts.sum()),
        sum(
            int(found.counts[row, found.named.index(said)])
            for row, said in enumerate(found.spoken)
            if said in found.named
        ),
    )
    description = f"{title}: of {total:,} utterances, the language of {right:,} was recognized ({right / total:.0%})."
    height = 130 + (34 if is_written else 20) * len(found.spoken)
    return PageFigure(name, title, description, _spec([trace], layout), height)


def lengths_figure(dataset: Dataset, name: str, title: str) -> PageFigure:
    """Histograms of lengths, one below the other on one axis."""
    found = length_histograms(dataset.durations)
    groups = list(found.heights)
    order = sorted(dataset.durations)
    traces = []
    for row, group in enumerate(reversed(groups)):
        color = _nth(COLORS, order.index(group))
        traces.append(
            go.Scatter(x=found.edges[[0, -1]].tolist(), y=[row, row], mode="lines", line={"width": 0}, hoverinfo="skip")
        )
        heights = np.append(found.heights[group], 0.0)
        traces.append(
            go.Scatter(
                x=found.edges.round(3).tolist(),
                y=(row + 0.85 * heights).round(4).tolist(),
                mode="lines",
                fill="tonexty",
                line={"shape": "hv", "color": color, "width": 1.5},
                hoverinfo="skip",
            )
        )
        traces.append(
            go.Scatter(
                x=[found.means[group]] * 2,
                y=[row, row + 0.85],
                mode="lines",
                line={"color": color, "width": 3, "dash": "dot"},
                hovertemplate=f"mean {found.means[group]:.1f} s<extra></extra>",
            )
        )
    layout = _layout(
        xaxis={"title": {"text": "seconds"}, "rangemode": "tozero"},
        yaxis={
            "tickvals": [row + 0.3 for row in range(len(groups))],
            "ticktext": [escaped(group) for group in reversed(groups)],
            "showgrid": False,
            "zeroline": False,
            "ticks": "",
        },
        showlegend=False,
    )
    means = ", ".join(f"{group} {found.means[group]:.1f}" for group in groups)
    description = f"Lengths of the training utterances by language; dotted lines are means, in seconds: {means}."
    return PageFigure(name, title, description, _spec(traces, layout), 120 + 44 * len(groups))


def _nth(options: Sequence[str], place: int) -> str:
    return options[place % len(options)]


def _layout(**own: Any) -> dict[str, Any]:
    layout: dict[str, Any] = {
        "margin": {"l": 10, "r": 10, "t": 10, "b": 10},
        "legend": {"orientation": "h", "x": 0, "xanchor": "left", "y": -0.25, "yanchor": "top"},
        "font": {"size": 13},
        "dragmode": False,  # a finger scrolls the page
        **own,
    }
    for axis in ("xaxis", "yaxis"):
        layout[axis] = {"automargin": True, "fixedrange": True, **layout[axis]}
    return layout


def _spec(traces: Sequence[Any], layout: dict[str, Any]) -> dict[str, Any]:
    """Checked by plotly, and as plain values."""
    figure = go.Figure(list(traces), layout)
    figure.update_layout(template="none")
    spec: dict[str, Any] = json.loads(figure.to_json(validate=True))
    spec["layout"].pop("template", None)
    return spec
