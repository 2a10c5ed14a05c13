"""Parallel calls: results in order, and a bounded number in flight."""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctcdro.runtime.threads import ITEMS_PER_TASK, TASKS_PER_THREAD, map_in_threads


@given(st.integers(0, 500), st.integers(1, 4))
def test_results_are_in_the_order_of_the_items(number, num_threads):
    assert list(map_in_threads(lambda item: 2 * item, iter(range(number)), num_threads)) == [
        2 * item for item in range(number)
    ]


def test_items_are_taken_as_they_are_needed():
    taken = []

    def endless():
        while True:
            taken.append(len(taken))
            yield taken[-1]

    results = map_in_threads(str, endless(), num_threads=2)
    for number in range(1000):
        assert next(results) == str(number)
        assert len(taken) <= number + 1 + (2 * TASKS_PER_THREAD + 1) * ITEMS_PER_TASK
    results.close()


def test_items_are_taken_in_the_thread_of_the_caller():
    def items():
        for _ in range(100):
            yield threading.get_ident()

    assert set(map_in_threads(lambda item: item, items(), num_threads=3)) == {threading.get_ident()}


@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt])
def test_an_error_comes_where_its_item_stands_and_ends_the_work(kind):
    def work(item):
        done.append(item)
        if item == 40:
            raise kind("forty")
        return item

    done, found = [], []
    with pytest.raises(kind, match="forty"):
        found.extend(map_in_threads(work, iter(range(10**9)), num_threads=2))
    assert found == list(range(32))
    assert len(done) <= (2 * TASKS_PER_THREAD + 1) * ITEMS_PER_TASK
    assert not [one for one in threading.enumerate() if "ThreadPool" in one.name]


def test_who_takes_no_more_results_ends_the_work():
    done = []
    results = map_in_threads(done.append, iter(range(10**9)), num_threads=1)
    next(results)
    results.close()
    number = len(done)
    assert number <= (TASKS_PER_THREAD + 1) * ITEMS_PER_TASK
    assert not [one for one in threading.enumerate() if "ThreadPool" in one.name]


def test_an_error_of_the_list_comes_after_nothing_else_is_begun():
    def items():
        yield from range(10)
        raise ValueError("line 11")

    with pytest.raises(ValueError, match="line 11"):
        list(map_in_threads(str, items(), num_threads=2))
