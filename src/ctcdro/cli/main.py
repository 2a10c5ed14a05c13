"""The application and its entry point. Commands import what is slow when they run, so that `ctcdro --help` is fast."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Annotated, NoReturn

try:
    import typer
except ImportError as error:
    raise SystemExit("The command line needs the extra `data`: pip install 'ctcdro[data]'") from error

from .. import __version__
from ..runtime.extras import extra
from ..runtime.workers import explain_dead_processes
from .prepare import prepare
from .report import report
from .run import evaluate, export, train, transcribe
from .score import score
from .sweep import demo, sweep

INTERRUPTED = 130  # exit status of typer after Ctrl-C

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Robust multilingual speech recognition with CTC-DRO.",
)
app.add_typer(prepare, name="prepare")
for command in (demo, train, evaluate, transcribe, score, sweep, report, export):
    app.command()(command)


@app.callback(invoke_without_command=True)
def about(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        typer.echo(__version__)
        raise typer.Exit


@app.command()
def check(
    dataset: Annotated[
        Path, typer.Argument(help="Folder with train.jsonl, dev.jsonl, test.jsonl.", exists=True, file_okay=False)
    ],
    frame_rate: Annotated[
        float, typer.Option(help="Frames per second of the model's output: 25 for the paper's, 50 for a linear head.")
    ] = 25.0,
    group_by: Annotated[str, typer.Option(help="Field or fields that define groups, e.g. lang,corpus.")] = "lang",
    figure: Annotated[Path | None, typer.Option(help="PNG or SVG file for a figure of durations by group.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as one JSON object.")] = False,
    headers_only: Annotated[bool, typer.Option("--headers-only", help="Skip decoding; misses damaged audio.")] = False,
    batch_duration: Annotated[
        float, typer.Option(help="Training batch duration in seconds; groups with less audio are reported.")
    ] = 50.0,
    max_shown: Annotated[int, typer.Option(help="Findings to print per kind.")] = 10,
    num_threads: Annotated[
        int | None, typer.Option(help="Threads that read audio. Default: one per core.", min=1)
    ] = None,
) -> None:
    """Find problems that would break or bias training, and print statistics per language.

    Exit status: 0 if training would work (there may be warnings), 1 if there are errors, 2 if the check failed.
    """
    if figure is not None:
        if not figure.absolute().parent.is_dir():
            raise typer.BadParameter(f"--figure {figure}: the folder does not exist.")
        with extra("report", "`ctcdro check --figure`"):  # fails before the audio is read
            import matplotlib.figure  # noqa: F401
    from ..check.check import check_dataset
    from .console import print_check, progress

    result = check_dataset(dataset, frame_rate, group_by, not headers_only, num_threads, progress, batch_duration)
    if as_json:
        typer.echo(result.to_json())
    else:
        print_check(result, max_shown)
    if figure is not None:
        from ..report.figures import draw_lengths

        draw_lengths(result.durations, figure)
        typer.echo(f"Lengths: {figure}", err=True)
    raise typer.Exit(1 if result.errors else 0)


def main() -> None:
    """Runs a command. Errors in the input are printed as one line; any other error is a bug and shows its traceback."""
    _write_any_text()
    try:
        with explain_dead_processes():
            app()
    except (ValueError, ImportError, OSError, FloatingPointError) as error:
        _end(str(error), 2)
    except SystemExit as error:
        if error.code == INTERRUPTED:
            _end("stopped. Run the same command again to resume.", INTERRUPTED)
        raise


def _write_any_text() -> None:
    """Escapes characters that the terminal cannot show (`\\u0159`) instead of failing after the work is done."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _end(message: str, code: int) -> NoReturn:
    # Messages may quote texts of corpora, which may contain control sequences.
    from .console import escaped

    for line in message.splitlines():
        typer.echo(f"ctcdro: {escaped(line):.2000}", err=True)
    raise SystemExit(code)
