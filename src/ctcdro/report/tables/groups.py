"""Groups found in the data, as a table and in sentences."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ...grouping.description import FoundGroups, GroupSummary
from ...speech.language_names import language_name
from ..table import Column, Table

MAX_LISTED = 3
"""Values of a label per group; others are counted."""
TITLES = {"lang": "languages", "corpus": "corpora", "speaker": "speakers"}


def groups_table(found: FoundGroups) -> Table:
    """One row per group, the largest first."""
    columns: list[Column[GroupSummary]] = [
        Column("group", lambda one: one.name),
        Column("utterances", lambda one: one.num_utterances, decimals=0),
        Column("hours", lambda one: one.hours, decimals=2),
        Column("seconds", lambda one: one.seconds),
        Column("signal-to-noise (dB)", lambda one: one.signal_to_noise, decimals=0),
    ]
    if any(one.loss is not None for one in found.groups):
        columns.append(Column("loss per character", lambda one: one.loss, decimals=2))
    caption = "Training utterances of each group: mean duration, and estimated signal-to-noise ratio (median)."
    return Table.of("groups", caption, columns, found.groups)


def labels_table(found: FoundGroups) -> Table:
    """The most frequent values of each known label, by group."""
    columns: list[Column[GroupSummary]] = [Column("group", lambda one: one.name)]
    columns += [Column(TITLES.get(field, field), _list_values(field)) for field in found.agreement]
    return Table.of("labels", "The most frequent labels of the utterances of each group.", columns, found.groups)


def _list_values(field: str) -> Callable[[GroupSummary], str]:
    def listed(group: GroupSummary) -> str:
        values = group.labels[field]
        shown = [f"{language_name(value, with_code=False)} {100 * share:.0f}%" for value, share in values[:MAX_LISTED]]
        more = f"{len(values) - MAX_LISTED} more" if len(values) > MAX_LISTED else None
        return ", ".join(filter(None, [*shown, more]))

    return listed


def describe_found_groups(found: FoundGroups) -> Iterator[str]:
    """How the number of groups was chosen, and how far groups agree with known labels."""
    if found.silhouettes:
        tried = ", ".join(f"{number}: {score:.2f}" for number, score in found.silhouettes.items())
        yield f"{len(found.groups)} groups have the highest silhouette ({tried})."
    if found.agreement:
        shown = ", ".join(f"{TITLES.get(field, field)} {value:.2f}" for field, value in found.agreement.items())
        yield f"Agreement with known labels (adjusted Rand index): {shown}."
