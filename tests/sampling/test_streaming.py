"""Batches from a stream: all cuts once, totals near the target, and never more than the buffer in memory."""

import itertools
from typing import NamedTuple

import numpy as np
import pytest

from ctcdro.sampling.streaming import StreamBatches, StreamPosition
from ctcdro.sampling.subset_sum import choose

TARGET = 50.0
NAMES = ("ces", "pol", "ron")


class Cut(NamedTuple):
    id: str
    duration: float
    group: str


def cuts(number, shares=(1, 1, 1), seed=0):
    rng = np.random.default_rng(seed)
    groups = rng.choice(len(NAMES), size=number, p=np.array(shares) / sum(shares))
    means = np.array([4.0, 7.5, 12.6])[groups]
    durations = np.clip(rng.normal(means, means / 4), 0.5, 25)
    for place, (group, duration) in enumerate(zip(groups, durations, strict=True)):
        yield Cut(str(place), float(duration), NAMES[group])


def rounds(stream, buffer_size=600, seed=0):
    return StreamBatches(stream, NAMES, lambda cut: cut.group, TARGET, buffer_size, (seed, 0), StreamPosition())


@pytest.mark.parametrize("shares", [(1, 1, 1), (100, 10, 1)])
def test_every_cut_comes_once_in_batches_of_one_group_near_the_target(shares):
    batches = list(rounds(cuts(6000, shares)))
    assert sorted(int(cut.id) for batch in batches for cut in batch) == list(range(6000))
    assert all(len({cut.group for cut in batch}) == 1 for batch in batches)
    totals = np.array([sum(cut.duration for cut in batch) for batch in batches])
    assert (abs(totals / TARGET - 1) <= 0.02).mean() > 0.9


def test_equal_groups_come_in_rounds():
    batches = [
        batch[0].group
        for batch in rounds(cut for each in zip(*(of(name) for name in NAMES), strict=True) for cut in each)
    ]
    full = batches[: len(batches) // 3 * 3]
    assert all(set(full[place : place + 3]) == set(NAMES) for place in range(0, len(full) // 2, 3))


def of(name):
    rng = np.random.default_rng(len(name))
    return (Cut(f"{name}{place}", float(rng.uniform(2, 12)), name) for place in range(2000))


@pytest.mark.parametrize("shares", [(1, 1, 1), (1000, 10, 1)])
def test_no_more_than_the_buffer_is_held(shares):
    read, given = 0, 0

    def counted():
        nonlocal read
        for cut in cuts(5000, shares):
            read += 1
            yield cut

    for batch in rounds(counted(), buffer_size=400):
        assert read - given <= 400
        given += len(batch)
    assert given == 5000


def test_the_same_stream_and_seed_give_the_same_batches():
    assert list(rounds(cuts(2000))) == list(rounds(cuts(2000)))
    assert list(rounds(cuts(2000))) != list(rounds(cuts(2000), seed=1))


def test_a_cut_of_no_duration_and_one_of_an_unknown_group_are_named():
    with pytest.raises(ValueError, match="cut 'x' has a duration of 0"):
        list(rounds(iter([Cut("x", 0.0, "ces")])))
    with pytest.raises(ValueError, match="Cut 'x' has group 'xyz', which is not in"):
        list(rounds(iter([Cut("x", 1.0, "xyz")])))


def test_the_choice_fills_the_batch_if_any_choice_does():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        durations = sorted(rng.uniform(3.0, 20.0, 9).tolist())
        first = int(rng.integers(9))
        chosen = choose(durations, first, TARGET)
        assert chosen[0] == first
        assert len(set(chosen)) == len(chosen)
        distance = abs(sum(durations[place] for place in chosen) - TARGET)
        assert distance <= max(best_distance(durations, first), 0.004 * TARGET) + 0.2


def best_distance(durations, first):
    """By trying all subsets."""
    others = [place for place in range(len(durations)) if place != first]
    sums = [
        durations[first] + sum(durations[place] for place in rest)
        for size in range(len(durations))
        for rest in itertools.combinations(others, size)
    ]
    return min(abs(total - TARGET) for total in sums)
