"""`ctcdro config`: create, show and check configurations."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..runtime.extras import extra
from .options import ConfigArgument, SetOption, file_to_write, must_be_file
from .registration import make_group, register

if TYPE_CHECKING:
    from ..runs.parsing import Section

STDIN = Path("-")

config = make_group("""Create, show or check configurations.

    Example: ctcdro config init --out run.yaml
""")


def init(
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", metavar="FILE", help="YAML file to write.", show_default="stdout", callback=file_to_write
        ),
    ] = None,
) -> None:
    """Write a complete configuration with all defaults and a comment on each key.

    Example: ctcdro config init --out run.yaml
    """
    with extra("train", "`ctcdro config`"):
        from ..runs.reference import reference_yaml

    if out is None:
        typer.echo(reference_yaml(), nl=False)
        return
    if out.exists():
        raise ValueError(f"{out} already exists. Choose another --out, or remove it.")
    out.write_text(reference_yaml(), encoding="utf-8")
    typer.echo(f"Configuration: {out}")


def show(config: ConfigArgument, overrides: SetOption = None) -> None:
    """Print the complete configuration of a run or sweep: the file, --set and defaults.

    Example: ctcdro config show mel-small.yaml --set objective.name=erm
    """
    typer.echo(_read(config, overrides).to_yaml(), nl=False)


def check(
    config: Annotated[
        Path,
        typer.Argument(
            metavar="CONFIG",
            help="YAML file with the configuration of a run or sweep; - for stdin.",
            callback=lambda path: path if path == STDIN else must_be_file()(path),
        ),
    ],
    overrides: SetOption = None,
) -> None:
    """Check the configuration of a run or sweep, and print one line per problem.

    Exit status: 0 if it is valid, 1 if there are problems.

    Example: ctcdro config check mel-small.yaml
    """
    try:
        checked = _read(config, overrides)
    except ValueError as error:
        from .console import escaped

        for line in str(error).splitlines():
            typer.echo(escaped(line))
        raise typer.Exit(1) from error
    source = "stdin" if config == STDIN else config
    for note in checked.notes():
        typer.echo(f"{source}: {note}")
    typer.echo(f"{source}: valid")


def _read(path: Path, overrides: list[str] | None) -> Section:
    """The configuration of a sweep, if the file has any of its keys; otherwise that of a run."""
    with extra("train", "`ctcdro config`"):
        from ..runs.config import parse_config
        from ..runs.parsing import parse_values, read_values
        from ..sweeps.config import SweepConfig, parse_sweep

    source = "stdin" if path == STDIN else str(path)
    values = parse_values(sys.stdin.read(), source) if path == STDIN else read_values(path)
    parse = parse_sweep if values.keys() & SweepConfig.model_fields.keys() else parse_config
    return parse(values, overrides or [], source=source)


for command in (init, show, check):
    register(config, command)
