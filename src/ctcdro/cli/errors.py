"""One style for all errors that a user can cause: `ctcdro: what is wrong; what to do` on stderr, exit status 2."""

from __future__ import annotations

import re
from typing import Any, NoReturn

import typer

from .console import escaped

# typer's base class of errors in commands and options, which it does not export.
UsageError: type[Exception] = typer.BadParameter.__mro__[1]
USER_ERRORS = (UsageError, ValueError, ImportError, OSError, FloatingPointError)

MAX_LINE = 2000


def exit_with(message: str, status: int) -> NoReturn:
    """Prints each line of a message, which may quote texts of corpora, and exits."""
    for line in message.splitlines():
        typer.echo(f"ctcdro: {escaped(line):.{MAX_LINE}}", err=True)
    raise SystemExit(status)


def exit_with_error(error: Exception) -> NoReturn:
    if type(error).__name__ == "NoArgsIsHelpError":  # typer has printed the help
        raise SystemExit(2)
    exit_with(describe(error), 2)


def describe(error: Exception) -> str:
    """The message of an error: one line, or several if a configuration has several problems."""
    if isinstance(error, UsageError):
        return _describe_usage(error)
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{error.filename}: {error.strerror[:1].lower()}{error.strerror[1:]}."
    return str(error)


def _describe_usage(error: Any) -> str:
    if hasattr(error, "possibilities"):
        similar = f" Did you mean {' or '.join(sorted(error.possibilities))}?" if error.possibilities else ""
        message = f"No such option: {error.option_name}.{similar}"
    else:
        message = " ".join(error.format_message().split())
    if not message.endswith((".", "?")):
        message += "."
    if re.search(r"unexpected extra argument.*\w=", message):
        message += " Override configuration keys with --set KEY=VALUE."
    return f"{message} See '{error.ctx.command_path} --help'." if error.ctx is not None else message
