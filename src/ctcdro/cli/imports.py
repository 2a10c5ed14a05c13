"""Imports without garbage collection.

torch and transformers create a million objects that live until the process ends. Python searches them for garbage again
and again, while they are imported and when the process ends: nearly half the time of a short command.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def keep_imports() -> Iterator[None]:
    """Collects no garbage in its body, and exempts all objects that exist at its end from later collections."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
