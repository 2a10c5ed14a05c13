"""How commands show progress and results on a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, TypeVar

from rich.console import Console
from rich.progress import track

from ..report.table import Cell, Column, Table

if TYPE_CHECKING:
    from ..check.findings import CheckReport
    from ..prepare.prepare import PreparedDataset
    from ..prepare.statistics import Statistics

Item = TypeVar("Item")

# Progress goes where errors go, so that results can be piped; what is printed has no markup of its own, since texts of
# corpora may look like it.
messages = Console(stderr=True, emoji=False)
results = Console(markup=False, highlight=False, emoji=False)


def progress(sequence: Iterable[Item], description: str, total: float | None = None) -> Iterable[Item]:
    """Shows how much is done, on the terminal."""
    return track(sequence, description, total=total, console=messages)


def escaped(text: str) -> str:
    """Text without what a terminal takes for commands.

    Example:
        >>> escaped("a\\x1b[2Jb")
        'a\\\\x1b[2Jb'
    """
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in text)


def dataset_shown(done: PreparedDataset) -> None:
    """What was written, by language and split, and what was left out."""
    results.print(statistics_table(done.statistics).to_rich())
    if done.num_dropped:
        reasons = Counter(done.num_dropped)
        listed = ", ".join(f"{number} {reason}" for reason, number in reasons.most_common())
        results.print(f"Left out {reasons.total()}: {listed}. See {done.folder / 'dropped.jsonl'}")
    for split in ("dev", "test"):
        if split not in done.statistics:
            results.print(f"There is no {split}.jsonl, since nothing was found for it.")
    results.print(f"Dataset: {done.folder}")


def statistics_table(found: Mapping[str, Mapping[str, Statistics]]) -> Table:
    """The paper's table of datasets, by language and split."""
    languages = sorted({language for statistics in found.values() for language in statistics})
    rows = []
    for language in languages:
        splits = [split for split in found if language in found[split]]
        labels = [language, *[""] * len(splits)]
        rows += [(label, split, found[split][language]) for label, split in zip(labels, splits, strict=False)]
    columns: list[Column[tuple[str, str, Statistics]]] = [
        Column("language", lambda row: row[0]),
        Column("split", lambda row: row[1]),
        Column("utterances", lambda row: row[2].num_utterances, decimals=0),
        Column("hours", lambda row: row[2].hours, decimals=2),
        Column("seconds", lambda row: Cell(row[2].duration_mean, row[2].duration_deviation)),
        Column("characters", lambda row: Cell(row[2].characters_mean, row[2].characters_deviation)),
        Column("characters/s", lambda row: row[2].characters_per_second),
    ]
    return Table.of("statistics", "", columns, rows)


def check_shown(report: CheckReport, max_shown: int) -> None:
    """Statistics, then findings by kind, the worst first."""
    results.print(statistics_table(report.statistics).to_rich())
    counts = report.count_by_kind()
    for kind, findings in report.by_kind().items():
        results.print(f"\n{findings[0].severity}: {kind} ({counts[kind]})")
        for finding in findings[:max_shown]:
            results.print(escaped(f"  {finding.where}: {finding.detail}"), soft_wrap=True)
        if counts[kind] > max_shown:
            in_json = "all" if counts[kind] == len(findings) else f"{len(findings)} of them"
            results.print(f"  … and {counts[kind] - max_shown} more; --json has {in_json}")
    results.print(f"\n{report.num_errors} errors, {report.num_warnings} warnings in {report.dataset}")
