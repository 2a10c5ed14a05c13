"""`ctcdro report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..runtime.extras import extra


def report(
    runs: Annotated[
        list[Path], typer.Argument(help="Folders of finished runs, or folders with runs/, such as that of a sweep.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The HTML file to write.", dir_okay=False)],
    split: Annotated[str, typer.Option(help="Split whose scores to show; written by `ctcdro evaluate`.")] = "test",
    baseline: Annotated[
        str | None, typer.Option(help="Run or objective to compare others with. [default: erm]")
    ] = None,
    figures: Annotated[
        Path | None, typer.Option(help="Folder for the figures as PNG and PDF.", file_okay=False)
    ] = None,
    tables: Annotated[
        Path | None, typer.Option(help="Folder for the tables as Markdown, CSV and LaTeX.", file_okay=False)
    ] = None,
    num_worst: Annotated[int, typer.Option(help="Number of worst utterances to show.", min=0)] = 5,
    no_audio: Annotated[bool, typer.Option("--no-audio", help="Omit the audio of the worst utterances.")] = False,
) -> None:
    """Write one HTML page about runs: tables, figures, significance and the worst utterances.

    Example: ctcdro report runs/erm runs/ctc-dro --out page.html
    """
    if not out.absolute().parent.is_dir():
        raise typer.BadParameter(f"--out {out}: the folder {out.parent} does not exist.")
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
    typer.echo(f"Page: {out}")
    if figures is not None:
        typer.echo(f"Figures: {figures}")
    if tables is not None:
        typer.echo(f"Tables: {tables}")
