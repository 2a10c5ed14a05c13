"""Guarantees of all samplers: epochs, seeds, ranks, and resuming from a state."""

import json
from functools import partial

import numpy as np
import pytest
import torch
from cases import case
from corpora import like_set_1
from grouped_durations import InMemory
from hypothesis import given
from hypothesis import strategies as st

from ctcdro import (
    AdaptiveBatchSampler,
    GroupUniformBatchSampler,
    LengthMatchedBatchSampler,
    SimilarLengthBatchSampler,
    error_weighted,
)
from ctcdro.sampling.base import shard
from ctcdro.sampling.chunks import ChunkedBatchSampler
from ctcdro.sampling.planned_rounds import PassLimit


def small_corpus():
    """Three groups of 0.9, 3.6 and 11 batches' worth of speech, out of order."""
    durations, groups = like_set_1(60, seed=1)
    groups = np.array([0, 1, 1, 1, 2, 2, 2, 2, 2, 2])[np.arange(60) % 10]
    return durations, groups


def length_matched(durations, groups, **options):
    return LengthMatchedBatchSampler(durations, groups, **({"batch_duration": 20.0} | options))


def similar_length(durations, groups, **options):
    return SimilarLengthBatchSampler(durations, batch_size=4, **options)


def group_uniform(durations, groups, **options):
    return GroupUniformBatchSampler(groups, batch_size=4, **options)


def adaptive(durations, groups, **options):
    num_groups = int(np.max(groups)) + 1
    objective = error_weighted(num_groups, signal="error_rate")
    objective.update_error_rates([1 / (1 + group) for group in range(num_groups)])
    return AdaptiveBatchSampler(durations, groups, objective, **({"batch_duration": 20.0} | options))


def limited(durations, groups, **options):
    limit = PassLimit(max_passes=5, total_batches=30)
    return AdaptiveBatchSampler(durations, groups, None, limit=limit, **({"batch_duration": 20.0} | options))


def chunked(durations, groups, **options):
    data = InMemory(durations, groups)
    return ChunkedBatchSampler(data, **({"batch_duration": 20.0, "chunk_size": 12} | options))


def chunked_adaptive(durations, groups, **options):
    return chunked(durations, groups, objective=adaptive(durations, groups).objective, **options)


PLANNED_IN_ROUNDS = (adaptive, limited, chunked, chunked_adaptive)

SAMPLERS = {
    "equal shares": length_matched,
    "adaptive": adaptive,
    "limited passes": limited,
    "chunks": chunked,
    "adaptive chunks": chunked_adaptive,
    "shares in proportion to audio": partial(length_matched, exponent=1.0),
    "similar length": similar_length,
    "group uniform": group_uniform,
}
every_sampler = pytest.mark.parametrize("make", SAMPLERS.values(), ids=SAMPLERS.keys())

any_sampler = length_matched  # for what the base class does

corpora = st.lists(st.tuples(st.floats(0.1, 60.0), st.integers(0, 4)), min_size=1, max_size=80).map(
    lambda pairs: (
        [duration for duration, _ in pairs],
        np.unique([group for _, group in pairs], return_inverse=True)[1],
    )
)


@every_sampler
def test_batches_are_lists_of_indices_as_many_as_announced(make):
    durations, groups = small_corpus()
    sampler = make(durations, groups)
    batches = list(sampler)
    assert len(sampler) == len(batches) == sampler.num_batches
    assert all(type(number) is int and 0 <= number < 60 for batch in batches for number in batch)
    loader = torch.utils.data.DataLoader(torch.arange(60), batch_sampler=sampler)
    assert [batch.tolist() for batch in loader] == batches


@every_sampler
def test_seed_and_epoch_determine_the_batches(make):
    corpus = small_corpus()
    first, second = make(*corpus, seed=3), make(*corpus, seed=3)
    for epoch in (0, 5, 2, 5):
        first.set_epoch(epoch)
        second.set_epoch(epoch)
        assert list(first) == list(second) == list(first.plan(epoch))
    plans = [make(*corpus, seed=seed).plan(epoch) for seed in (0, 1) for epoch in (0, 1)]
    assert len({tuple(map(tuple, plan)) for plan in plans}) == 4


@every_sampler
def test_the_global_random_state_is_neither_read_nor_changed(make):
    corpus = small_corpus()
    np.random.seed(0)  # noqa: NPY002
    torch.manual_seed(0)
    before = np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()  # noqa: NPY002
    plan = list(make(*corpus))
    assert (np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()) == before  # noqa: NPY002
    np.random.seed(1)  # noqa: NPY002
    assert list(make(*corpus)) == plan


@every_sampler
def test_ranks_take_turns_and_nothing_is_lost(make):
    corpus = small_corpus()
    plan = list(make(*corpus).plan(0))
    for world_size in (1, 2, 7, 100):
        ranks = [list(make(*corpus, rank=rank, world_size=world_size)) for rank in range(world_size)]
        assert {len(batches) for batches in ranks} == {-(-len(plan) // world_size)}
        in_turn = [batch for turn in zip(*ranks, strict=True) for batch in turn]
        assert in_turn[: len(plan)] == plan
        assert list(make(*corpus).batches_of_all_ranks(world_size)) == in_turn
        if make not in PLANNED_IN_ROUNDS:  # their ranks get new batches
            assert in_turn[len(plan) :] == (plan * world_size)[: len(in_turn) - len(plan)]  # filled from the start


@every_sampler
def test_a_state_taken_after_any_batch_yields_the_rest(make):
    corpus = small_corpus()
    for rank, world_size in ((0, 1), (2, 3)):
        sampler = make(*corpus, rank=rank, world_size=world_size)
        sampler.set_epoch(2)
        expected = list(sampler)
        for stop in range(len(expected) + 1):
            first = make(*corpus, rank=rank, world_size=world_size)
            first.set_epoch(2)
            iterator = iter(first)
            done = [next(iterator) for _ in range(stop)]
            second = make(*corpus, rank=rank, world_size=world_size)
            second.load_state_dict(first.state_dict())
            assert second.epoch == 2
            second.set_epoch(2)  # as loops do at the start of every epoch
            assert second.state_dict() == first.state_dict()
            assert done + list(second) == done + list(iterator) == expected
            second.set_epoch(3)
            first.set_epoch(3)
            assert list(second) == list(first)


def test_a_state_can_be_loaded_with_another_number_of_ranks():
    corpus = small_corpus()
    plan = list(any_sampler(*corpus).plan(0))
    before = [any_sampler(*corpus, rank=rank, world_size=2) for rank in (0, 1)]
    iterators = [iter(sampler) for sampler in before]
    done = [next(iterator) for _ in range(2) for iterator in iterators]
    after = [any_sampler(*corpus, rank=rank, world_size=3) for rank in (0, 1, 2)]
    for sampler in after:
        sampler.load_state_dict(before[0].state_dict())
    rest = [batch for turn in zip(*after, strict=True) for batch in turn]
    assert (done + rest)[: len(plan)] == plan


def test_a_loader_that_reads_ahead_can_pass_how_far_the_loop_is():
    corpus = small_corpus()
    sampler = any_sampler(*corpus)
    expected = list(sampler)
    ahead = iter(sampler)
    for _ in range(6):
        next(ahead)
    resumed = any_sampler(*corpus)
    resumed.load_state_dict(sampler.state_dict(num_taken=4))
    assert list(resumed) == expected[4:]


def test_iterating_again_starts_at_the_beginning():
    sampler = any_sampler(*small_corpus())
    next(iter(sampler))
    assert list(sampler) == list(sampler) == list(sampler.plan(0))


def test_an_epoch_that_starts_again_is_reported_once(caplog):
    sampler = any_sampler(*small_corpus())
    caplog.clear()
    loader = torch.utils.data.DataLoader(torch.arange(60), batch_sampler=sampler)
    next(iter(loader))
    list(loader)
    assert not caplog.records
    list(loader)
    list(loader)
    assert [record.message for record in caplog.records] == [
        "The sampler starts epoch 0 again, with the same batches. Call `set_epoch(epoch)` before each epoch. "
        "To repeat an epoch intentionally, call `set_epoch(0)` first."
    ]


def test_epochs_that_are_set_and_restarts_are_not_reported_as_repeated(caplog):
    sampler = any_sampler(*small_corpus(), rank=1, world_size=2)
    resumed = any_sampler(*small_corpus(), rank=0, world_size=2)
    caplog.clear()
    list(sampler)  # to look at the batches
    loader = torch.utils.data.DataLoader(
        torch.arange(60), batch_sampler=sampler, num_workers=1, persistent_workers=True, prefetch_factor=4
    )
    for epoch in range(3):
        sampler.set_epoch(epoch)
        list(loader)
    sampler.set_epoch(2)
    list(loader)
    for _ in range(2):
        resumed.load_state_dict(sampler.state_dict(num_taken=3))
        list(resumed)
    assert not caplog.records


@every_sampler
def test_a_state_of_other_data_or_options_is_refused(make):
    durations, groups = small_corpus()
    saved = make(durations, groups).state_dict()
    fewer = make(durations[:-1], groups[:-1])
    with pytest.raises(ValueError, match=r"data: .* \(60 utterances\) → .* \(59 utterances\)"):
        fewer.load_state_dict(saved)
    with pytest.raises(ValueError, match="seed: 0 → 7"):
        make(durations, groups, seed=7).load_state_dict(saved)


def test_a_state_of_other_groups_exponent_or_sampler_is_refused():
    durations, groups = small_corpus()
    saved = length_matched(durations, groups).state_dict()
    with pytest.raises(ValueError, match=r"data: .* → "):
        length_matched(durations, groups[::-1].copy()).load_state_dict(saved)
    with pytest.raises(ValueError, match=r"exponent: 0\.0 → 0\.5"):
        length_matched(durations, groups, exponent=0.5).load_state_dict(saved)
    with pytest.raises(ValueError, match="sampler: LengthMatchedBatchSampler → SimilarLengthBatchSampler"):
        similar_length(durations, groups).load_state_dict(saved)


def test_what_is_no_state_is_refused():
    saved = any_sampler(*small_corpus()).state_dict()
    for state in ({}, saved | {"position": -3}, saved | {"position": "5"}, saved | {"epoch": None}):
        with pytest.raises(ValueError, match=r"`state` must be the `state_dict\(\)` of a sampler"):
            any_sampler(*small_corpus()).load_state_dict(state)


@given(corpora, st.floats(0.5, 60.0), st.sampled_from([0.0, 0.3, 1.0]), st.integers(0, 3), st.integers(1, 4), st.data())
def test_resuming_anywhere_yields_the_rest(corpus, batch_duration, exponent, epoch, world_size, data):
    def make():
        return LengthMatchedBatchSampler(*corpus, batch_duration, exponent, rank=0, world_size=world_size)

    sampler = make()
    sampler.set_epoch(epoch)
    expected = list(sampler)
    stop = data.draw(st.integers(0, len(expected)))
    iterator = iter(sampler)
    done = [next(iterator) for _ in range(stop)]
    resumed = make()
    resumed.load_state_dict(sampler.state_dict() if stop else sampler.state_dict(num_taken=0))
    assert done + list(resumed) == expected


def test_options_that_make_no_sense_are_named():
    for options, message in (
        ({"rank": 0}, "got rank=0, world_size=None"),
        ({"world_size": 2}, "got rank=None, world_size=2"),
        ({"rank": 2, "world_size": 2}, "`rank` must be from 0 to `world_size` - 1; got rank=2"),
        ({"seed": -1}, "`seed` must be a non-negative integer; got -1"),
    ):
        with case(options), pytest.raises(ValueError, match=message):
            any_sampler(*small_corpus(), **options)


def test_a_negative_epoch_is_refused():
    with pytest.raises(ValueError, match="`epoch` must be a non-negative integer; got -1"):
        any_sampler(*small_corpus()).set_epoch(-1)


def test_numbers_of_numpy_are_accepted():
    corpus = small_corpus()
    options = {"seed": np.int64(3), "rank": np.int64(0), "world_size": np.int32(2)}
    sampler, expected = any_sampler(*corpus, **options), any_sampler(*corpus, seed=3, rank=0, world_size=2)
    sampler.set_epoch(np.int64(2))
    assert list(sampler) == list(expected.plan(2))[::2]
    state = json.loads(json.dumps(sampler.state_dict()))
    expected.load_state_dict(state)
    assert expected.state_dict() == state
    with pytest.raises(ValueError, match="`seed` must be a non-negative integer; got True"):
        any_sampler(*corpus, seed=True)


@given(st.integers(0, 50), st.integers(1, 8), st.integers(0, 60))
def test_shards_cover_what_is_left_and_are_equally_long(num_batches, world_size, start):
    ranks = [shard(num_batches, rank, world_size, start) for rank in range(world_size)]
    assert len({len(rank) for rank in ranks}) == 1
    numbers = sorted(number for rank in ranks for number in rank)
    assert numbers == list(range(start, start + len(numbers)))
    assert 0 <= len(numbers) - max(0, num_batches - start) < world_size
