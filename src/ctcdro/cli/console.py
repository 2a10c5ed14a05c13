"""Progress and results on the terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeVar

from rich.console import Console
from rich.progress import track

if TYPE_CHECKING:
    from ..check.findings import CheckReport
    from ..prepare.prepare import PreparedDataset

Item = TypeVar("Item")

# Progress goes to stderr, so that results can be piped. Markup is off, because texts of corpora may look like it.
messages = Console(stderr=True, emoji=False)
results = Console(markup=False, highlight=False, emoji=False)


def progress(sequence: Iterable[Item], description: str, total: float | None = None) -> Iterable[Item]:
    return track(sequence, description, total=total, console=messages)


def escaped(text: str) -> str:
    """Escapes characters that a terminal could interpret as commands."""
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)


def print_dataset(done: PreparedDataset) -> None:
    """Prints the statistics of a prepared dataset, and the number of dropped utterances."""
    from ..report.tables.datasets import statistics_table

    results.print(statistics_table(done.statistics).to_rich())
    if done.num_dropped:
        reasons = Counter(done.num_dropped)
        listed = ", ".join(f"{number} {reason}" for reason, number in reasons.most_common())
        results.print(f"Dropped {reasons.total()}: {listed}. See {done.folder / 'dropped.jsonl'}")
    for split in ("dev", "test"):
        if split not in done.statistics:
            results.print(f"No {split}.jsonl was written: the corpus has no utterances for it.")
    results.print(f"Dataset: {done.folder}")


def print_check(report: CheckReport, max_shown: int) -> None:
    """Prints statistics, then findings by kind, errors first."""
    from ..report.tables.datasets import statistics_table

    results.print(statistics_table(report.statistics).to_rich())
    counts = report.count_by_kind()
    for kind, findings in report.by_kind().items():
        results.print(f"\n{findings[0].severity}: {kind} ({counts[kind]})")
        for finding in findings[:max_shown]:
            results.print(escaped(f"  {finding.where}: {finding.detail}"), soft_wrap=True)
        if counts[kind] > max_shown:
            in_json = "all" if counts[kind] == len(findings) else f"{len(findings)} of them"
            results.print(f"  … and {counts[kind] - max_shown} more; --json has {in_json}")
    results.print(f"\n{report.count('error')} errors, {report.count('warning')} warnings in {report.dataset}")
