"""Progress of long operations: the library reports it, and the caller decides how to show it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar

Item = TypeVar("Item")


class Track(Protocol):
    """Yields the items of an iterable and shows how many are done, like `rich.progress.track`."""

    def __call__(self, sequence: Iterable[Item], description: str, total: float | None = None) -> Iterable[Item]: ...


def untracked(sequence: Iterable[Item], description: str, total: float | None = None) -> Iterable[Item]:
    return sequence
