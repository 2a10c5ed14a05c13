"""A limit on passes: no group exceeds it, the rest is shared, and nothing changes while no limit binds."""

import json
from collections import Counter

import numpy as np
import pytest
from corpora import like_set_1
from grouped_durations import InMemory
from hypothesis import given
from hypothesis import strategies as st

import ctcdro
from ctcdro import AdaptiveBatchSampler
from ctcdro.sampling.chunks import ChunkedBatchSampler
from ctcdro.sampling.planned_rounds import PassLimit, cap_shares

SIZES = (600, 200, 30, 3)


def corpus():
    durations, _ = like_set_1(sum(SIZES), seed=1)
    return InMemory(durations, np.repeat(np.arange(len(SIZES)), SIZES))


def planned(objective=None, limit=None, **options):
    data = corpus()
    return AdaptiveBatchSampler(data.durations, data.groups, objective, 20.0, limit=limit, **options)


def chunked(objective=None, limit=None, **options):
    return ChunkedBatchSampler(corpus(), objective, 20.0, limit=limit, chunk_size=100, **options)


def changing_weights():
    """An objective that prefers the smallest group ever more."""
    objective = ctcdro.error_weighted(len(SIZES), power=3.0, signal="error_rate")
    objective.update_error_rates([0.1, 0.1, 0.2, 0.9])
    return objective


every_sampler = pytest.mark.parametrize("make", [planned, chunked])


def train(sampler, num_batches):
    """The batches of a training run."""
    batches = []
    while True:
        for batch in sampler:
            batches.append(batch)
            if len(batches) == num_batches:
                return batches
        sampler.set_epoch(sampler.epoch + 1)


@every_sampler
@pytest.mark.parametrize("weights", [lambda: None, changing_weights], ids=["equal", "adaptive"])
@pytest.mark.parametrize("max_passes", [1.5, 4, 20])
def test_no_utterance_occurs_in_more_passes_than_allowed_except_for_one_batch(make, weights, max_passes):
    total = 400
    batches = train(make(weights(), PassLimit(max_passes, total)), total)
    repeats_in_batch = Counter()
    for batch in batches:
        repeats_in_batch |= Counter(batch)
    occurrences = Counter(index for batch in batches for index in batch)
    assert all(count <= np.ceil(max_passes) + repeats_in_batch[index] for index, count in occurrences.items())


@every_sampler
def test_what_a_small_group_may_not_have_is_shared_equally(make):
    groups = corpus().groups
    total = 400
    counts = np.bincount([groups[batch[0]] for batch in train(make(limit=PassLimit(5, total)), total)], minlength=4)
    unlimited = np.bincount([groups[batch[0]] for batch in train(make(), total)], minlength=4)
    assert unlimited.tolist() == [100] * 4
    assert counts[3] <= 6
    assert counts[2] < 90
    assert abs(counts[0] - counts[1]) <= 2


@every_sampler
def test_the_batches_of_a_limited_group_are_spread_over_the_whole_training(make):
    groups = corpus().groups
    batches = train(make(limit=PassLimit(8, 400)), 400)
    places = [place for place, batch in enumerate(batches) if groups[batch[0]] == 2]
    assert np.diff([0, *places, 400]).max() <= 2 * 400 / len(places) + 4


@every_sampler
def test_nothing_changes_while_no_limit_binds(make):
    assert train(make(limit=PassLimit(100, 400)), 400) == train(make(), 400)


@every_sampler
def test_resuming_with_a_limit_is_exact(make):
    def new():
        return make(changing_weights(), PassLimit(3, 300))

    whole = train(new(), 300)
    for stop in (1, 77, 200):
        first = new()
        taken = train(first, stop)
        second = new()
        second.load_state_dict(json.loads(json.dumps(first.state_dict())))
        assert taken + train(second, 300 - stop) == whole
    other = make(changing_weights(), PassLimit(4, 300))
    with pytest.raises(ValueError, match="max_passes: 3 → 4"):
        other.load_state_dict(first.state_dict())


def train_ranks(make, num_epochs, world_size):
    """The batches of all ranks, step by step."""
    ranks = [make(rank=rank, world_size=world_size) for rank in range(world_size)]
    batches = []
    for epoch in range(num_epochs):
        for rank in ranks:
            rank.set_epoch(epoch)
        batches += [batch for step in zip(*ranks, strict=True) for batch in step]
    return batches


@every_sampler
def test_ranks_whose_last_step_passes_the_end_of_an_epoch_skip_no_batch(make):
    assert make().num_batches % 7
    occurrences = Counter(index for batch in train_ranks(make, num_epochs=6, world_size=7) for index in set(batch))
    for group in range(3):  # the last is too small for a batch
        counts = [occurrences[index] for index in np.flatnonzero(corpus().groups == group)]
        assert max(counts) - min(counts) <= 1


def test_the_limit_that_a_message_recommends_suffices():
    per_pass = np.array([1.9, 7.0, 1 / 3])
    for total in range(20, 60):
        with pytest.raises(ValueError, match="Raise it to") as error:
            PassLimit(1, total).most_batches(per_pass)
        recommended = float(str(error.value).split("Raise it to ")[1].split(", or")[0])
        assert PassLimit(recommended, total).most_batches(per_pass).sum() >= total


def test_training_may_exceed_its_announced_length():
    assert len(train(planned(limit=PassLimit(1.5, 200)), 300)) == 300


@pytest.mark.parametrize(
    ("limit", "message"),
    [((0, 100), "`max_passes` must be a positive number; got 0"), ((2, 0), "`total_batches` must be a positive")],
)
def test_impossible_limits_are_rejected(limit, message):
    with pytest.raises(ValueError, match=message):
        PassLimit(*limit)


def test_too_few_passes_for_the_training_are_rejected():
    with pytest.raises(ValueError, match=r"2 passes over all groups are \d+ batches, fewer than the 10,000"):
        planned(limit=PassLimit(2, 10_000))


positive = st.floats(0.01, 10.0)


@given(st.lists(st.tuples(positive, positive), min_size=1, max_size=8))
def test_capped_shares_are_the_closest_to_the_shares(pairs):
    shares, highest = np.array(pairs).T
    shares = shares / shares.sum()
    highest = highest / min(1.0, highest.sum())  # sums to at least one
    capped = cap_shares(shares, highest)
    assert capped.sum() == pytest.approx(1.0)
    assert (capped <= highest + 1e-9).all()
    free = capped < highest - 1e-9
    if free.any():  # proportions of groups without a cap stay, and no other group would get more than they do
        factor = (capped / shares)[free]
        assert factor == pytest.approx(np.full(free.sum(), factor[0]))
        assert ((capped / shares)[~free] <= factor[0] + 1e-6).all()
    if (shares <= highest).all():
        assert capped.tolist() == shares.tolist()
