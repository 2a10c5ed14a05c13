"""Output on the terminal: results on stdout; progress, log messages and errors on stderr."""

from __future__ import annotations

import logging
import os
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

import typer
from rich.console import Console
from rich.progress import track

from ..runtime.ranks import is_first_process

if TYPE_CHECKING:
    from ..report.table import Table
    from ..runs.parsing import Section

Item = TypeVar("Item")

# Progress goes to stderr, so that results can be piped. Markup is off, because texts of corpora may look like it.
messages = Console(stderr=True, emoji=False)
results = Console(markup=False, highlight=False, emoji=False)


def shows_bars() -> bool:
    """Whether stderr is a terminal that can redraw lines. For rich alone, FORCE_COLOR makes a terminal of any file."""
    return messages.is_interactive and messages.file.isatty()


def progress(sequence: Iterable[Item], description: str, total: float | None = None) -> Iterator[Item]:
    """Yields the items; on a terminal, shows a bar after the first of them, so that early errors stand alone."""
    items = iter(sequence)
    for first in items:
        yield first
        yield from track(items, description, total, completed=1, console=messages, disable=not shows_bars())


def print_notes(config: Section) -> None:
    for note in config.notes():
        messages.print(note, highlight=False, markup=False, soft_wrap=True)


def print_table(table: Table) -> None:
    """Prints a table to stdout. A table that is wider than the terminal is not cut."""
    results.print(table.to_rich(), crop=False)


def escaped(text: str) -> str:
    """Escapes characters that a terminal could interpret as commands."""
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)


@contextmanager
def verbosity(quiet: bool, verbose: bool) -> Iterator[None]:
    """Hides progress with `quiet`; shows all log messages and the traceback of an error with `verbose`.

    Warnings of other processes of the same run repeat those of the first, and are hidden. Launchers of runs set
    `WORLD_SIZE`; `mpirun` and `srun`, which can also start independent commands, do not.
    """
    logger, handler = logging.getLogger("ctcdro"), _MessageHandler()
    repeats_first = os.environ.get("WORLD_SIZE", "1") != "1" and not is_first_process()
    level, messages.quiet = logger.level, quiet
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG if verbose else logging.ERROR if repeats_first else logging.WARNING)
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
