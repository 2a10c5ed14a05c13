"""`ctcdro check`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..runtime.extras import extra
from .options import DatasetArgument, JsonOption, file_to_write

if TYPE_CHECKING:
    from ..check.findings import CheckReport


def check(
    dataset: DatasetArgument,
    frame_rate: Annotated[
        float,
        typer.Option(
            metavar="HZ", help="Output frames per second of the model: 25 for the paper's, 50 for a linear head."
        ),
    ] = 25.0,
    group_by: Annotated[
        str, typer.Option(metavar="FIELDS", help="Fields that define the groups, e.g. lang or lang,corpus.")
    ] = "lang",
    batch_duration: Annotated[
        float,
        typer.Option(metavar="SECONDS", help="Training batch duration; groups with less audio are reported."),
    ] = 50.0,
    headers_only: Annotated[
        bool, typer.Option("--headers-only", help="Read only the headers of audio files, which misses damaged audio.")
    ] = False,
    figure: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="PNG or SVG file for a figure of durations per group.", callback=file_to_write
        ),
    ] = None,
    as_json: JsonOption = False,
    max_shown: Annotated[int, typer.Option(metavar="N", help="Findings to print of each kind.", min=0)] = 10,
    threads: Annotated[
        int | None,
        typer.Option(metavar="N", help="Threads that read audio.", min=1, show_default="one per core"),
    ] = None,
) -> None:
    """Find problems in a dataset and print statistics per language.

    Exit status: 0 if training would work (there may be warnings), 1 if there are errors, 2 if the check could not run.

    Example: ctcdro check data/fleurs --figure durations.png
    """
    if figure is not None:
        with extra("report", "`ctcdro check --figure`"):  # fails before the audio is read
            import matplotlib.figure  # noqa: F401
    from ..check.check import check_dataset
    from .console import progress

    report = check_dataset(dataset, frame_rate, group_by, not headers_only, threads, progress, batch_duration)
    if as_json:
        typer.echo(report.to_json())
    else:
        _print(report, max_shown)
    if figure is not None:
        from ..report.figures import draw_lengths

        draw_lengths(report.durations, figure)
        typer.echo(f"Figure: {figure}", err=True)
    raise typer.Exit(1 if report.errors else 0)


def _print(report: CheckReport, max_shown: int) -> None:
    """Prints statistics, then findings by kind, errors first."""
    from ..report.tables.datasets import statistics_table
    from .console import escaped, print_table, results

    print_table(statistics_table(report.statistics))
    counts = report.count_by_kind()
    for kind, findings in report.by_kind().items():
        results.print(f"\n{findings[0].severity}: {kind} ({counts[kind]})")
        for finding in findings[:max_shown]:
            results.print(escaped(f"  {finding.where}: {finding.detail}"), soft_wrap=True)
        if counts[kind] > max_shown:
            in_json = "all" if counts[kind] == len(findings) else f"{len(findings)} of them"
            results.print(f"  … and {counts[kind] - max_shown} more; --json has {in_json}")
    numbers = {kind: report.count(kind) for kind in ("error", "warning")}
    counted = ", ".join(f"{number} {kind}{'s' * (number != 1)}" for kind, number in numbers.items())
    results.print(f"\n{counted} in {report.dataset}")
