"""One function on many files at a time. Threads do: libsndfile lets others run while it reads and decodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

# Enough to make the cost of handing out a task small.
ITEMS_A_TASK = 32


def mapped(function: Callable[[Item], Result], items: Sequence[Item], num_threads: int) -> Iterator[Result]:
    """The results for all items, in their order.

    Example:
        >>> list(mapped(len, ["a", "bcd"], num_threads=2))
        [1, 3]
    """
    tasks = [items[start : start + ITEMS_A_TASK] for start in range(0, len(items), ITEMS_A_TASK)]
    with ThreadPoolExecutor(num_threads) as pool:
        for results in pool.map(lambda task: [function(item) for item in task], tasks):
            yield from results
