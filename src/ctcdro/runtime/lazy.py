"""Lazy packages: their public names are imported on first use, so importing the package is cheap."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def lazy_names(
    package: str, homes: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Creates the `__getattr__` and `__dir__` of a package from the public names of each of its modules."""
    home_of = {name: home for home, names in homes.items() for name in names}

    def getattr_(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f".{home_of[name]}", package), name)
        setattr(sys.modules[package], name, value)
        return value

    def dir_() -> list[str]:
        return sorted({*vars(sys.modules[package]), *home_of})

    return getattr_, dir_
