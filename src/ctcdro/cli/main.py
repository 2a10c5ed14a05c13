"""The application and its entry point. Commands import what is slow when they run, so that `ctcdro --help` is fast."""

from __future__ import annotations

import io
import sys
from typing import Annotated, Any

try:
    import typer
except ImportError:
    print("ctcdro: the command line needs the extra `data`: pip install 'ctcdro[data]'", file=sys.stderr)
    raise SystemExit(2) from None

from .. import __version__
from ..runtime.workers import explain_dead_processes
from .check import check
from .config import config
from .convert import convert
from .demo import demo
from .env import env
from .errors import USER_ERRORS, exit_with, exit_with_error
from .evaluate import evaluate
from .export import export
from .groups import groups
from .prepare import prepare
from .prepare_joined import joined
from .prepare_synthetic import synthetic
from .recipes import recipes
from .registration import Group, register
from .report import report
from .score import score
from .serve import serve
from .sweep import sweep
from .train import train
from .transcribe import transcribe
from .tune_lm import tune_lm

INTERRUPTED = 130

# Commands in the order in which the help shows them.
PANELS: dict[str, dict[str, Any]] = {
    "Data": {"prepare": prepare, "check": check, "groups": groups},
    "Train": {"train": train, "sweep": sweep, "convert": convert},
    "Evaluate": {"evaluate": evaluate, "tune-lm": tune_lm, "score": score, "report": report},
    "Use": {"transcribe": transcribe, "serve": serve, "export": export},
    "Other": {"demo": demo, "config": config, "recipes": recipes, "env": env},
}


class _Root(Group):
    def list_commands(self, ctx: Any) -> list[str]:
        return [name for commands in PANELS.values() for name in commands]


app = typer.Typer(
    cls=_Root,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Train multilingual CTC speech recognizers that do better on the worst language.",
    epilog="Example: ctcdro demo",
)
register(prepare, synthetic)
register(prepare, joined)
for panel, commands in PANELS.items():
    for name, command in commands.items():
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name, rich_help_panel=panel)
        else:
            register(app, command, name, panel)


def _print_version(value: bool) -> None:
    if value:
        typer.echo(f"ctcdro {__version__}")
        raise typer.Exit


@app.callback()
def about(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    pass


def main() -> None:
    """Runs a command. Errors in the input are printed as one line; any other error is a bug and shows its traceback."""
    _write_any_text()
    try:
        with explain_dead_processes():
            status = app(prog_name="ctcdro", standalone_mode=False)
    except USER_ERRORS as error:
        exit_with_error(error)
    except typer.Abort:  # Ctrl-C in older versions of typer
        status = INTERRUPTED
    if status == INTERRUPTED:
        exit_with("stopped. Run the same command again to resume.", INTERRUPTED)
    raise SystemExit(status or 0)


def _write_any_text() -> None:
    """Escapes characters that the terminal cannot show (`\\u0159`) instead of failing after the work is done."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
