"""Functions -> commands, all with the same look: an example at the end of the help, --quiet and --verbose."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer
from rich.markup import escape
from typer.core import TyperCommand, TyperGroup

from .console import verbosity

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print no progress.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Print log messages, and the traceback of an error.")]


class _PlainHelp:
    """Help that shows no types for flags and arguments, and no braces around required arguments."""

    def get_params(self, ctx: Any) -> list[Any]:
        parameters = super().get_params(ctx)  # type: ignore[misc]
        for parameter in parameters:
            if getattr(parameter, "is_flag", True):  # arguments have no such attribute
                parameter.display_type = lambda ctx: ""
        return parameters

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        pieces = super().collect_usage_pieces(ctx)  # type: ignore[misc]
        return [piece.replace("{", "").replace("}", "") for piece in pieces]


class Command(_PlainHelp, TyperCommand):
    pass


class Group(_PlainHelp, TyperGroup):
    pass


def make_group(about: str) -> typer.Typer:
    """A command that has commands. The text is its help, and ends with an example."""
    return typer.Typer(cls=Group, no_args_is_help=True, **_split_example(about))


def register(
    app: typer.Typer, function: Callable[..., None], name: str | None = None, panel: str | None = None
) -> None:
    """Makes a function a command; its docstring is the help, and ends with an example."""

    def command(quiet: Quiet = False, verbose: Verbose = False, **arguments: Any) -> None:
        with verbosity(quiet, verbose):
            function(**arguments)

    own = inspect.signature(function, eval_str=True).parameters
    common = inspect.signature(command, eval_str=True).parameters
    parameters = {
        key: parameter.replace(kind=parameter.KEYWORD_ONLY)
        for key, parameter in {**own, "quiet": common["quiet"], "verbose": common["verbose"]}.items()
    }
    command.__annotations__ = {key: parameter.annotation for key, parameter in parameters.items()}
    command.__signature__ = inspect.Signature(list(parameters.values()))  # type: ignore[attr-defined]
    texts = _split_example(inspect.getdoc(function) or "")
    app.command(name or function.__name__, cls=Command, rich_help_panel=panel, **texts)(command)


def _split_example(text: str) -> dict[str, Any]:
    # Without `escape`, rich would take `[group]` for markup.
    *about, example = [escape(" ".join(paragraph.split())) for paragraph in inspect.cleandoc(text).split("\n\n")]
    return {"help": "\n\n".join(about), "epilog": example}
