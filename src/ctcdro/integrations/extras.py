"""Import errors that say how to install what is missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def install_hint(command: str) -> Iterator[None]:
    """Adds the command that installs a toolkit to the ImportError of a missing or outdated package.

    Args:
        command: for example `pip install 'ctcdro[lhotse]'`.

    Example:
        >>> with install_hint("pip install 'ctcdro[lhotse]'"):
        ...     import missing_package
        Traceback (most recent call last):
        ImportError: No module named 'missing_package'. Run: pip install 'ctcdro[lhotse]'
    """
    try:
        yield
    except ImportError as error:
        raise ImportError(f"{error}. Run: {command}", name=error.name) from error
