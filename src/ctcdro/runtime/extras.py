"""Optional dependencies: the error of a failed import names the extra to install."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class MissingExtraError(ImportError):
    """A package of an extra cannot be imported. The cause is the original error."""


@contextmanager
def extra(name: str, user: str) -> Iterator[None]:
    """Converts an `ImportError` in the block into one that names the extra and what needs it, such as "Beam search".

    Blocks can be nested. The outermost block wins, so that a command names its own extra, not that of a module.
    """
    try:
        yield
    except ImportError as error:
        cause = error.__cause__ if isinstance(error, MissingExtraError) else error
        message = f"{user} needs the extra `{name}`: pip install 'ctcdro[{name}]' ({cause})"
        raise MissingExtraError(message, name=error.name, path=error.path) from cause
