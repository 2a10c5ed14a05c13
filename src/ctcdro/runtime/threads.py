"""One function on many files at a time. Threads do: libsndfile lets others run while it reads and decodes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from threading import Event
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

# Enough to make the cost of handing out a task small.
ITEMS_A_TASK = 32

# Handed out before the first of them is done: enough that a slow one does not keep others waiting.
TASKS_A_THREAD = 4


def map_in_threads(function: Callable[[Item], Result], items: Iterable[Item], num_threads: int) -> Iterator[Result]:
    """The results for all items, in their order.

    Items are taken as they are needed, in the thread of the caller, and so many are at work at most as all threads can
    take up soon. Whatever ends it, an error or Ctrl-C, begins no further item.

    Example:
        >>> list(map_in_threads(len, ["a", "bcd"], num_threads=2))
        [1, 3]
    """
    stopped = Event()

    def work(task: list[Item]) -> list[Result]:
        return [function(item) for item in task if not stopped.is_set()]

    remaining = iter(items)
    tasks = iter(lambda: list(islice(remaining, ITEMS_A_TASK)), [])
    with ThreadPoolExecutor(num_threads) as pool:
        at_work: deque[Future[list[Result]]] = deque()
        try:
            for task in tasks:
                at_work.append(pool.submit(work, task))
                if len(at_work) >= TASKS_A_THREAD * num_threads:
                    yield from at_work.popleft().result()
            while at_work:
                yield from at_work.popleft().result()
        finally:
            stopped.set()
            for future in at_work:
                future.cancel()
