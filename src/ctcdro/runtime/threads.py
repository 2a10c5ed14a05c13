"""Parallel calls of one function. Threads are enough: libsndfile releases the GIL while it reads."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from threading import Event
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

# Large enough that submitting a task costs little.
ITEMS_PER_TASK = 32
# Tasks in flight: enough that threads do not wait for a slow task.
TASKS_PER_THREAD = 4


def map_in_threads(function: Callable[[Item], Result], items: Iterable[Item], num_threads: int) -> Iterator[Result]:
    """Yields the results of all items, in order.

    Items are read lazily, in the caller's thread, and a bounded number is in flight. After an error or Ctrl-C no
    further item is started.
    """
    stopped = Event()

    def work(task: list[Item]) -> list[Result]:
        return [function(item) for item in task if not stopped.is_set()]

    remaining = iter(items)
    tasks = iter(lambda: list(islice(remaining, ITEMS_PER_TASK)), [])
    with ThreadPoolExecutor(num_threads) as pool:
        in_flight: deque[Future[list[Result]]] = deque()
        try:
            for task in tasks:
                in_flight.append(pool.submit(work, task))
                if len(in_flight) >= TASKS_PER_THREAD * num_threads:
                    yield from in_flight.popleft().result()
            while in_flight:
                yield from in_flight.popleft().result()
        finally:
            stopped.set()
            for future in in_flight:
                future.cancel()
