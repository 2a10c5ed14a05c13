"""What found groups are: their known labels, durations and noise, and typical utterances."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..speech.manifest import Manifest
from .clustering import Clusters, agreement, map_to_plane, sample
from .embedding import Embeddings, Floats

GROUP = "group"
"""The field of manifests."""
NUM_EXAMPLES = 5
"""Utterances per group to listen to, on the page."""
NOT_LABELS = ("audio_filepath", "text", "id", GROUP)


@dataclass(frozen=True)
class GroupSummary:
    """The training utterances that have their largest share in a group."""

    name: str
    num_utterances: int
    hours: float
    seconds: float
    """Mean duration."""
    signal_to_noise: float
    """Median in decibels, estimated."""
    loss: float | None
    """Median loss per character of the run."""
    labels: dict[str, list[tuple[str, float]]]
    """By field: its values, the most frequent first, with their shares of the utterances."""
    examples: list[int]
    """Positions of some of its utterances, from the one closest to the center outward."""


@dataclass(frozen=True)
class GroupMap:
    """Training utterances, or a sample of them, in the plane. Close ones have similar features."""

    positions: Floats
    """(m, 2)"""
    indices: npt.NDArray[np.int64]
    """(m,) positions in the manifest."""
    numbers: npt.NDArray[np.int64]
    """(m,) group of each."""


@dataclass(frozen=True)
class FoundGroups:
    train: Manifest
    groups: list[GroupSummary]
    """The largest first."""
    silhouettes: dict[int, float]
    """Silhouette of each number of groups that was compared; empty if the number was given."""
    agreement: dict[str, float]
    """Adjusted Rand index of the groups with each known label."""
    map: GroupMap

    @property
    def names(self) -> list[str]:
        return [group.name for group in self.groups]


def describe_groups(
    train: Manifest, embeddings: Embeddings, points: Floats, clusters: Clusters, seed: int
) -> FoundGroups:
    """Describes the groups of training utterances, whose points were clustered."""
    numbers = clusters.shares(points).argmax(1)
    names = group_names(len(clusters.order))
    labels = known_labels(train)
    distances = clusters.distances(points)
    groups = [
        _summarize(name, np.flatnonzero(numbers == number), train, embeddings, labels, distances[:, number])
        for number, name in enumerate(names)
    ]
    examples = [index for group in groups for index in group.examples]
    drawn = np.union1d(sample(len(points), seed), examples)
    return FoundGroups(
        train,
        groups,
        clusters.silhouettes,
        {field: agreement(numbers, values) for field, values in labels.items()},
        GroupMap(map_to_plane(points[drawn], seed), drawn, numbers[drawn]),
    )


def group_names(num_groups: int) -> list[str]:
    """Names whose order is that of the groups.

    Example:
        >>> group_names(2), group_names(10)[:2]
        (['group-1', 'group-2'], ['group-01', 'group-02'])
    """
    return [f"{GROUP}-{number:0{len(str(num_groups))}d}" for number in range(1, num_groups + 1)]


def known_labels(manifest: Manifest) -> dict[str, list[str]]:
    """Fields of text that divide the utterances: with at least two values, and not a different one for most."""
    fields = ["lang", "corpus", "speaker", *sorted({name for one in manifest for name in one.extra})]
    values = {name: [one.value(name) for one in manifest] for name in fields if name not in NOT_LABELS}
    return {
        name: found
        for name, found in values.items()
        if all(isinstance(value, str) for value in found) and 2 <= len(set(found)) <= len(found) / 2
    }


def _summarize(
    name: str,
    members: npt.NDArray[np.int64],
    train: Manifest,
    embeddings: Embeddings,
    labels: dict[str, list[str]],
    distances: Floats,
) -> GroupSummary:
    durations = train.durations[members]
    return GroupSummary(
        name,
        len(members),
        float(durations.sum() / 3600),
        float(durations.mean()),
        float(np.median(embeddings.signal_to_noise[members])),
        None if embeddings.losses is None else float(np.median(embeddings.losses[members])),
        {field: _shares([values[index] for index in members]) for field, values in labels.items()},
        _examples(members, distances[members]),
    )


def _examples(members: npt.NDArray[np.int64], distances: Floats) -> list[int]:
    """Members at even steps of their rank by distance, from the first to the last but one of the steps."""
    number = min(NUM_EXAMPLES, len(members))
    ranks = np.arange(number) * len(members) // number
    return members[np.argsort(distances, kind="stable")[ranks]].tolist()


def _shares(values: Sequence[str]) -> list[tuple[str, float]]:
    counts = sorted(Counter(values).items(), key=lambda item: (-item[1], item[0]))
    return [(value, count / len(values)) for value, count in counts]
