"""Output on the terminal: results on stdout; progress, log messages and errors on stderr."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

import typer
from rich.console import Console
from rich.progress import track

if TYPE_CHECKING:
    from ..report.table import Table

Item = TypeVar("Item")

# Progress goes to stderr, so that results can be piped. Markup is off, because texts of corpora may look like it.
messages = Console(stderr=True, emoji=False)
results = Console(markup=False, highlight=False, emoji=False)


def progress(sequence: Iterable[Item], description: str, total: float | None = None) -> Iterator[Item]:
    """Yields the items and shows a bar, which starts after the first item, so that early errors stand alone."""
    items = iter(sequence)
    for first in items:
        yield first
        yield from track(items, description, total=total, completed=1, console=messages)


def print_table(table: Table) -> None:
    """Prints a table to stdout. A table that is wider than the terminal is not cut."""
    results.print(table.to_rich(), crop=False)


def escaped(text: str) -> str:
    """Escapes characters that a terminal could interpret as commands."""
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)


@contextmanager
def verbosity(quiet: bool, verbose: bool) -> Iterator[None]:
    """Hides progress with `quiet`; shows all log messages and the traceback of an error with `verbose`."""
    logger, handler = logging.getLogger("ctcdro"), _MessageHandler()
    level, messages.quiet = logger.level, quiet
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG if verbose else logging.WARNING)
    try:
        yield
    except Exception as error:
        if verbose and not isinstance(error, typer.Exit):
            traceback.print_exc()
        raise
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        messages.quiet = False


class _MessageHandler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        typer.echo(f"ctcdro: {record.levelname.lower()}: {escaped(record.getMessage())}", err=True)
