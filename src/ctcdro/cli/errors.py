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
    """What typer says about a command or option, on one line, and the help page to read."""
    message = " ".join(error.format_message().split())
    if hasattr(error, "option_name") and hasattr(error, "possibilities"):
        similar = f" Did you mean {error.possibilities[0]}?" if error.possibilities else ""
        message = f"No such option: {error.option_name}.{similar}"
    elif parts := re.fullmatch(r"Invalid value for '([^']+)'.*?: (?:Value error, |Input should (be ))?(.*)", message):
        message = f"{parts[1]} must {parts[2]}{parts[3]}" if parts[2] else f"{parts[1]}: {parts[3]}"
    elif re.search(r"unexpected extra argument.*=", message):
        message += ". Override configuration keys with --set KEY=VALUE."
    message += "" if message.endswith((".", "?")) else "."
    command = error.ctx.command_path if error.ctx is not None else "ctcdro"
    return f"{message} See '{command} --help'."
