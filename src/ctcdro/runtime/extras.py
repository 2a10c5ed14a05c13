"""Optional dependencies: an import that fails names the extra to install."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class MissingExtraError(ImportError):
    """A package of an extra cannot be imported; the cause is the original error."""


@contextmanager
def extra(name: str, user: str) -> Iterator[None]:
    """Turns an `ImportError` in the block into one that names the extra, and its user, such as "Beam search".

    Blocks nest: a command that imports a module names the command's own extra, not that of the module.
    """
    try:
        yield
    except ImportError as error:
        cause = error.__cause__ if isinstance(error, MissingExtraError) else error
        message = f"{user} needs the extra `{name}`: pip install 'ctcdro[{name}]' ({cause})"
        raise MissingExtraError(message, name=error.name, path=error.path) from cause
