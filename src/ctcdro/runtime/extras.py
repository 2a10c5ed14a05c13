"""Optional dependencies: an import that fails names the extra to install.

with extra("beam", "Beam search"):
    import flashlight.lib.text.decoder
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class MissingExtraError(ImportError):
    """A package of an extra cannot be imported; the cause is the original error."""


@contextmanager
def extra(name: str, user: str) -> Iterator[None]:
    """Turns an `ImportError` in the block into one that names the extra to install.

    Blocks nest: a command that imports a module names the command's own extra, not that of the module.

    Args:
        name: name of the extra in pyproject.toml, such as "report".
        user: feature that needs it, in the singular; the message begins with it.

    Raises:
        MissingExtraError: if the block raises an `ImportError`.

    Example:
        >>> with extra("report", "`ctcdro report`"), extra("train", "Training"):
        ...     import no_such_package
        Traceback (most recent call last):
        ctcdro.runtime.extras.MissingExtraError: `ctcdro report` needs the extra `report`: pip install 'ctcdro[report]'
        (No module named 'no_such_package')
    """
    try:
        yield
    except ImportError as error:
        cause = error.__cause__ if isinstance(error, MissingExtraError) else error
        message = f"{user} needs the extra `{name}`: pip install 'ctcdro[{name}]' ({cause})"
        raise MissingExtraError(message, name=error.name, path=error.path) from cause
