"""`ctcdro report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..runtime.extras import extra
from .options import file_to_write, folder_to_write, must_be_folder


def report(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN",
            help="Folders of finished runs, or folders with runs/, such as that of a sweep.",
            callback=must_be_folder("Create it with 'ctcdro train' or 'ctcdro sweep'."),
        ),
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FILE", help="HTML file to write.", callback=file_to_write)
    ],
    split: Annotated[
        str, typer.Option(metavar="NAME", help="Split whose scores to show; written by `ctcdro evaluate`.")
    ] = "test",
    baseline: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Run or objective to compare the others with.", show_default="erm"),
    ] = None,
    figures: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder for the figures as PNG and PDF.", callback=folder_to_write),
    ] = None,
    tables: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder for the tables as Markdown, CSV and LaTeX.", callback=folder_to_write),
    ] = None,
    num_worst: Annotated[int, typer.Option(metavar="N", help="Number of worst utterances to show.", min=0)] = 5,
    no_audio: Annotated[bool, typer.Option("--no-audio", help="Omit the audio of the worst utterances.")] = False,
) -> None:
    """Write an HTML report about one or more runs.

    The page has tables, figures, significance tests and the worst utterances.

    Example: ctcdro report runs/erm runs/ctc-dro --out report.html
    """
    from .console import progress

    with extra("report", "`ctcdro report`"):
        from ..report.page import write_report

    write_report(
        runs,
        out,
        split=split,
        baseline=baseline,
        figures=figures,
        tables=tables,
        num_worst=num_worst,
        audio=not no_audio,
        track=progress,
    )
    typer.echo(f"Report: {out}")
    if figures is not None:
        typer.echo(f"Figures: {figures}")
    if tables is not None:
        typer.echo(f"Tables: {tables}")
