"""`ctcdro demo`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..runtime.extras import extra
from .options import out_folder


def demo(
    out: Annotated[Path, out_folder("Folder for corpus, runs and report.")] = Path("ctcdro-demo"),
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of training; the corpus is always the same.", min=0)] = 0,
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", metavar="N", help="Runs at a time.", min=1, show_default="all")
    ] = None,
    minutes: Annotated[
        str | None, typer.Option(metavar="TRAIN:DEV:TEST", help="Minutes of audio per language.", hidden=True)
    ] = None,
    steps: Annotated[int | None, typer.Option(metavar="N", help="Steps per run.", hidden=True, min=1)] = None,
) -> None:
    """Compare four objectives on synthetic speech in six languages, in minutes.

    Generates the speech, trains a small model with each objective, prints a table and writes an HTML report. Run the
    same command again to resume, or to print the table again.

    Example: ctcdro demo --out ctcdro-demo
    """
    from ..speech.language_names import language_name
    from ..synthetic.spec import DEMO_SPECS
    from .console import messages, progress, results
    from .run_progress import JobProgress
    from .speech_specs import parse_speech_specs
    from .sweep import exit_if_failed
    from .sweep_results import print_result

    with extra("demo", "`ctcdro demo`"):
        from ..demo.demo import demo as run_demo

    messages.print(f"Synthetic speech (eSpeak NG) in {', '.join(map(language_name, DEMO_SPECS))}", highlight=False)
    specs = parse_speech_specs(DEMO_SPECS, minutes=[minutes] if minutes else None)
    with JobProgress() as job_progress:
        try:
            result = run_demo(
                out, seed, specs=specs, num_steps=steps, num_jobs=jobs, track=progress, callback=job_progress
            )
        except RuntimeError as error:  # from eSpeak NG
            raise ValueError(str(error)) from error
    exit_if_failed(result.failures)
    print_result(result)
    results.print("The speech is synthetic: these figures say nothing about human speech.")
    typer.echo(f"Table: {result.folder.table}\nReport: {out / 'report.html'}")
