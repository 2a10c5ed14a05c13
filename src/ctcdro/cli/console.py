"""How commands show progress and results on a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, TypeVar

from rich.console import Console
from rich.progress import track
from rich.table import Table

if TYPE_CHECKING:
    from ..check.findings import Report
    from ..prepare.prepare import Prepared
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


def dataset_shown(done: Prepared) -> None:
    """What was written, by language and split, and what was left out."""
    results.print(statistics_table(done.statistics))
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
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("language", "split"):
        table.add_column(name)
    for name in ("utterances", "hours", "seconds", "characters", "characters/s"):
        table.add_column(name, justify="right")
    languages = sorted({language for statistics in found.values() for language in statistics})
    for language in languages:
        for number, split in enumerate(split for split in found if language in found[split]):
            one = found[split][language]
            table.add_row(
                language if number == 0 else "",
                split,
                f"{one.num_utterances:,}",
                f"{one.hours:.2f}",
                f"{one.duration_mean:.1f} ± {one.duration_deviation:.1f}",
                f"{one.characters_mean:.1f} ± {one.characters_deviation:.1f}",
                f"{one.characters_per_second:.1f}",
            )
    return table


def check_shown(report: Report, max_shown: int) -> None:
    """Statistics, then findings by kind, the worst first."""
    results.print(statistics_table(report.statistics))
    counts = report.count_by_kind()
    for kind, findings in report.by_kind().items():
        results.print(f"\n{findings[0].severity}: {kind} ({counts[kind]})")
        for finding in findings[:max_shown]:
            results.print(escaped(f"  {finding.where}: {finding.detail}"), soft_wrap=True)
        if counts[kind] > max_shown:
            in_json = "all" if counts[kind] == len(findings) else f"{len(findings)} of them"
            results.print(f"  … and {counts[kind] - max_shown} more; --json has {in_json}")
    results.print(f"\n{report.num_errors} errors, {report.num_warnings} warnings in {report.dataset}")
