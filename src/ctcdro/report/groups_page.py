"""Writes an HTML page about groups found in the data: a map to look at, and utterances to listen to."""

from __future__ import annotations

from dataclasses import dataclass

from ..grouping.description import FoundGroups
from ..runtime.extras import extra
from ..speech.audio import AudioError
from ..speech.language_names import language_name
from ..speech.utterance import Utterance
from ..storage.paths import PathLike
from .figures import COLORS, DARK, MARKERS, WIDTH, ReportFigure, figure_style
from .tables.groups import describe_found_groups, groups_table, labels_table
from .worst_utterances import MOST_SECONDS, make_clip

with extra("report", "The page about groups"):
    from matplotlib.figure import Figure

    from .templating import write_page


@dataclass(frozen=True)
class GroupExample:
    """An utterance of a group."""

    number: int
    """On the map and on the page, from 1."""
    group: str
    utterance: Utterance
    audio: str
    """A data URL; empty without audio."""

    @property
    def about(self) -> str:
        """Language, speaker and duration."""
        one = self.utterance
        parts = [language_name(one.lang), one.speaker and f"speaker {one.speaker}", f"{one.duration:.1f} s"]
        return ", ".join(part for part in parts if part)


def write_groups_page(found: FoundGroups, out: PathLike, *, audio: bool = True) -> None:
    """Writes one HTML file, with the audio of examples unless `audio` is false."""
    pairs = [(group.name, index) for group in found.groups for index in group.examples]
    examples = [
        GroupExample(number, name, found.train[index], _clip(found.train[index]) if audio else "")
        for number, (name, index) in enumerate(pairs, start=1)
    ]
    write_page(
        "groups.html.jinja",
        out,
        tables=[groups_table(found), *([labels_table(found)] if found.agreement else [])],
        sentences=list(describe_found_groups(found)),
        map=map_figure(found),
        groups=[(name, [one for one in examples if one.group == name]) for name in found.names],
        num_utterances=len(found.train),
        most_seconds=MOST_SECONDS,
    )


def _clip(utterance: Utterance) -> str:
    try:
        return make_clip(utterance)
    except AudioError:  # changed since its features were computed
        return ""


def map_figure(found: FoundGroups) -> ReportFigure:
    """The map of utterances. Numbers are examples, and link to them on the page."""
    drawn = found.map
    place = dict(zip(drawn.indices.tolist(), drawn.positions.tolist(), strict=True))
    with figure_style():
        figure = Figure((WIDTH, WIDTH))
        axes = figure.add_subplot()
        for number, name in enumerate(found.names):
            own = drawn.positions[drawn.numbers == number]
            color, marker = COLORS[number % len(COLORS)], MARKERS[number % len(MARKERS)]
            axes.scatter(own[:, 0], own[:, 1], s=7, c=color, marker=marker, linewidths=0, alpha=0.6, label=name)
        examples = [index for group in found.groups for index in group.examples]
        for number, index in enumerate(examples, start=1):
            across, up = place[index]
            axes.text(
                across,
                up,
                str(number),
                fontsize=6.5,
                color=DARK,
                ha="center",
                va="center",
                url=f"#example-{number}",
                bbox={"boxstyle": "circle,pad=0.15", "facecolor": "white", "edgecolor": DARK, "linewidth": 0.6},
            )
        axes.set(xticks=[], yticks=[])
        axes.spines[["left", "bottom"]].set_visible(False)
        columns = max(1, min(4, len(found.names)))
        figure.legend(loc="outside upper left", ncols=columns, markerscale=2)
    sizes = "; ".join(f"{group.name}: {group.num_utterances:,} utterances" for group in found.groups)
    part = "" if len(drawn.indices) == len(found.train) else f" A sample of {len(drawn.indices):,} is drawn."
    description = (
        f"Training utterances; those with similar features are close (t-SNE). Distances between distant points mean "
        f"little. Numbers are the examples below. {sizes}.{part}"
    )
    return ReportFigure("map", "Map of the training utterances", description, figure)
