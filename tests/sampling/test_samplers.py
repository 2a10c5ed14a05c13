"""The samplers: what all of them promise, and how well the length-matched one matches."""

import json
import logging
from collections import Counter
from functools import partial

import numpy as np
import pytest
import torch
from corpora import like_set_1
from hypothesis import given
from hypothesis import strategies as st

from ctcdro import GroupUniformBatchSampler, LengthMatchedBatchSampler, SimilarLengthBatchSampler
from ctcdro.sampling.base import shard
from ctcdro.sampling.samplers import order


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


SAMPLERS = {
    "equal shares": length_matched,
    "shares as the audio": partial(length_matched, balance=1.0),
    "shares between": partial(length_matched, balance=0.5),
    "similar length": similar_length,
    "group uniform": group_uniform,
}
every_sampler = pytest.mark.parametrize("make", SAMPLERS.values(), ids=SAMPLERS.keys())

corpora = st.lists(st.tuples(st.floats(0.1, 60.0), st.integers(0, 4)), min_size=1, max_size=80).map(
    lambda pairs: (
        [duration for duration, _ in pairs],
        np.unique([group for _, group in pairs], return_inverse=True)[1],
    )
)


# What all samplers promise.


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
def test_order_is_the_same_given_epoch_and_seed(make):
    corpus = small_corpus()
    first, second = make(*corpus, seed=3), make(*corpus, seed=3)
    for epoch in (0, 5, 2, 5):
        first.set_epoch(epoch)
        second.set_epoch(epoch)
        assert list(first) == list(second) == list(first.plan(epoch))


@every_sampler
def test_another_seed_or_epoch_gives_other_batches(make):
    corpus = small_corpus()
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
@pytest.mark.parametrize("world_size", [1, 2, 3, 7, 100])
def test_ranks_take_turns_and_nothing_is_lost(make, world_size):
    corpus = small_corpus()
    plan = list(make(*corpus).plan(0))
    ranks = [list(make(*corpus, rank=rank, world_size=world_size)) for rank in range(world_size)]
    assert {len(batches) for batches in ranks} == {-(-len(plan) // world_size)}
    in_turn = [batch for turn in zip(*ranks, strict=True) for batch in turn]
    assert in_turn[: len(plan)] == plan
    assert in_turn[len(plan) :] == (plan * world_size)[: len(in_turn) - len(plan)]  # filled up from the start


@every_sampler
@pytest.mark.parametrize("world_size", [1, 2, 3])
def test_a_state_taken_after_any_batch_yields_the_rest(make, world_size):
    corpus = small_corpus()
    for rank in range(world_size):
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
            assert done + list(second) == expected
            second.set_epoch(3)
            first.set_epoch(3)
            assert list(second) == list(first)


@every_sampler
def test_a_state_can_be_taken_up_by_another_number_of_ranks(make):
    corpus = small_corpus()
    plan = list(make(*corpus).plan(0))
    before = [make(*corpus, rank=rank, world_size=2) for rank in (0, 1)]
    iterators = [iter(sampler) for sampler in before]
    done = [next(iterator) for _ in range(2) for iterator in iterators]
    after = [make(*corpus, rank=rank, world_size=3) for rank in (0, 1, 2)]
    for sampler in after:
        sampler.load_state_dict(before[0].state_dict())
    rest = [batch for turn in zip(*after, strict=True) for batch in turn]
    assert (done + rest)[: len(plan)] == plan


@every_sampler
def test_a_loader_that_reads_ahead_can_say_how_far_the_loop_is(make):
    corpus = small_corpus()
    sampler = make(*corpus)
    expected = list(sampler)
    ahead = iter(sampler)
    for _ in range(6):
        next(ahead)
    resumed = make(*corpus)
    resumed.load_state_dict(sampler.state_dict(num_taken=4))
    assert list(resumed) == expected[4:]


@every_sampler
def test_iterating_again_starts_at_the_beginning(make):
    sampler = make(*small_corpus())
    next(iter(sampler))
    assert list(sampler) == list(sampler) == list(sampler.plan(0))


@every_sampler
def test_an_epoch_that_starts_again_is_reported_once(make, caplog):
    sampler = make(*small_corpus())
    caplog.clear()
    loader = torch.utils.data.DataLoader(torch.arange(60), batch_sampler=sampler)
    next(iter(loader))
    list(loader)
    assert not caplog.records
    list(loader)
    list(loader)
    assert [record.message for record in caplog.records] == [
        "The sampler starts epoch 0 again, with the same batches. Call `set_epoch(epoch)` before each epoch. "
        "To repeat an epoch on purpose, call `set_epoch(0)` first."
    ]


@every_sampler
def test_epochs_that_are_set_and_restarts_are_not_reported_as_repeated(make, caplog):
    sampler = make(*small_corpus(), rank=1, world_size=2)
    resumed = make(*small_corpus(), rank=0, world_size=2)
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
    with pytest.raises(ValueError, match=r"data was .* \(60 utterances\), here it is .* \(59 utterances\)"):
        fewer.load_state_dict(saved)
    with pytest.raises(ValueError, match="seed was 0, here it is 7"):
        make(durations, groups, seed=7).load_state_dict(saved)


def test_a_state_of_other_groups_balance_or_sampler_is_refused():
    durations, groups = small_corpus()
    saved = length_matched(durations, groups).state_dict()
    with pytest.raises(ValueError, match=r"data was .*, here it is"):
        length_matched(durations, groups[::-1].copy()).load_state_dict(saved)
    with pytest.raises(ValueError, match=r"balance was 0\.0, here it is 0\.5"):
        length_matched(durations, groups, balance=0.5).load_state_dict(saved)
    with pytest.raises(ValueError, match="sampler was LengthMatchedBatchSampler, here it is SimilarLengthBatchSampler"):
        similar_length(durations, groups).load_state_dict(saved)


@every_sampler
@pytest.mark.parametrize(
    "state",
    [
        {},
        {"epoch": 1},
        {"epoch": 0, "position": -3, "data": "", "options": {}},
        {"epoch": 0, "position": "5", "data": "", "options": {}},
        {"epoch": None, "position": 5, "data": "", "options": {}},
    ],
)
def test_what_is_no_state_is_refused(make, state):
    with pytest.raises(ValueError, match="`state` must come from a sampler"):
        make(*small_corpus()).load_state_dict(state)


@given(corpora, st.floats(0.5, 60.0), st.sampled_from([0.0, 0.3, 1.0]), st.integers(0, 3), st.integers(1, 4), st.data())
def test_resuming_anywhere_yields_the_rest(corpus, batch_duration, balance, epoch, world_size, data):
    def make():
        return LengthMatchedBatchSampler(*corpus, batch_duration, balance, rank=0, world_size=world_size)

    sampler = make()
    sampler.set_epoch(epoch)
    expected = list(sampler)
    stop = data.draw(st.integers(0, len(expected)))
    iterator = iter(sampler)
    done = [next(iterator) for _ in range(stop)]
    resumed = make()
    resumed.load_state_dict(sampler.state_dict() if stop else sampler.state_dict(num_taken=0))
    assert done + list(resumed) == expected


@every_sampler
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rank": 0}, "`rank` and `world_size` go together"),
        ({"rank": 2, "world_size": 2}, "`rank` must be from 0 to world_size - 1; got rank=2"),
        ({"seed": -1}, "`seed` must be a whole number, zero or more; got -1"),
    ],
)
def test_options_that_make_no_sense_are_named(make, options, message):
    with pytest.raises(ValueError, match=message):
        make(*small_corpus(), **options)


@every_sampler
def test_a_negative_epoch_is_refused(make):
    with pytest.raises(ValueError, match="`epoch` must be a whole number, zero or more; got -1"):
        make(*small_corpus()).set_epoch(-1)


# The length-matched sampler.


@given(corpora, st.floats(0.5, 60.0), st.sampled_from([0.0, 0.3, 1.0]), st.integers(0, 3))
def test_every_batch_holds_one_group(corpus, batch_duration, balance, epoch):
    durations, groups = corpus
    for batch in LengthMatchedBatchSampler(durations, groups, batch_duration, balance).plan(epoch):
        assert batch
        assert len(set(groups[batch])) == 1


@given(corpora, st.floats(0.5, 60.0), st.integers(0, 3), st.integers(1, 5))
def test_with_balance_one_every_utterance_comes_exactly_once_an_epoch(corpus, batch_duration, epoch, world_size):
    durations, groups = corpus
    ranks = [
        LengthMatchedBatchSampler(durations, groups, batch_duration, balance=1.0, rank=rank, world_size=world_size)
        for rank in range(world_size)
    ]
    num_batches = ranks[0].num_batches
    for sampler in ranks:
        sampler.set_epoch(epoch)
    in_turn = [batch for turn in zip(*ranks, strict=True) for batch in turn][:num_batches]
    assert sorted(number for batch in in_turn for number in batch) == list(range(len(durations)))


@given(corpora, st.floats(0.5, 60.0), st.integers(0, 3))
def test_with_balance_zero_every_round_holds_every_group_once(corpus, batch_duration, epoch):
    durations, groups = corpus
    sampler = LengthMatchedBatchSampler(durations, groups, batch_duration)
    in_order = [groups[batch[0]] for batch in sampler.plan(epoch)]
    num_groups = sampler.num_groups
    assert len(in_order) % num_groups == 0
    for start in range(0, len(in_order), num_groups):
        assert sorted(in_order[start : start + num_groups]) == list(range(num_groups))


@given(corpora, st.floats(0.5, 60.0))
def test_with_balance_zero_no_utterance_is_left_out_for_good(corpus, batch_duration):
    durations, groups = corpus
    sampler = LengthMatchedBatchSampler(durations, groups, batch_duration)
    seen = set()
    for epoch in range(500):
        seen.update(sampler.plan(epoch).indices.tolist())
        if len(seen) == len(durations):
            break
    assert len(seen) == len(durations)


def test_epochs_are_stretches_of_one_stream_of_passes():
    durations, groups = like_set_1(1200)
    sampler = LengthMatchedBatchSampler(durations, groups, batch_duration=50.0)
    own = np.flatnonzero(groups == 0)  # fewer batches' worth of speech than its share, so an epoch is more than a pass
    visits = [batch for epoch in range(10) for batch in sampler.plan(epoch) if groups[batch[0]] == 0]
    counts = Counter(number for batch in visits for number in batch)
    assert set(counts) == set(own)
    assert max(counts.values()) - min(counts.values()) <= 2


@pytest.mark.parametrize("balance", [0.0, 0.5, 1.0])
def test_totals_match_and_padding_is_small_on_durations_like_the_papers(balance):
    durations, groups = like_set_1(20_000)
    report = LengthMatchedBatchSampler(durations, groups, batch_duration=50.0, balance=balance).report()
    assert report.share_within >= 0.97
    assert report.total_std <= 1.0
    assert report.padding <= 1.10
    assert report.num_batches == pytest.approx(durations.sum() / 50.0, rel=0.01)


@pytest.mark.parametrize("balance", [0.0, 1.0])
def test_batches_are_fresh_every_epoch(balance):
    durations, groups = like_set_1(20_000)
    sampler = LengthMatchedBatchSampler(durations, groups, batch_duration=50.0, balance=balance)
    plans = [[frozenset(batch) for batch in sampler.plan(epoch)] for epoch in range(3)]
    for earlier, later in ((plans[0], plans[1]), (plans[1], plans[2])):
        assert len(set(earlier) & set(later)) <= 0.05 * len(earlier)


@pytest.mark.parametrize(("balance", "shares"), [(0.0, [1, 1, 1]), (1.0, [1, 4, 16]), (0.5, [1, 2, 4])])
def test_balance_is_the_exponent_of_the_shares(balance, shares):
    groups = np.repeat([0, 1, 2], [100, 400, 1600])
    sampler = LengthMatchedBatchSampler(np.full(2100, 5.0), groups, batch_duration=50.0, balance=balance)
    counts = Counter(groups[batch[0]] for batch in sampler.plan(0))
    assert sampler.num_batches == pytest.approx(210, abs=2)
    assert [counts[group] / counts[0] for group in range(3)] == pytest.approx(shares, rel=0.05)


def test_groups_of_unequal_shares_are_spread_evenly():
    in_order = order(np.array([2, 8]), np.random.default_rng(0)) < 2
    assert in_order[:5].sum() == in_order[5:].sum() == 1


def test_a_small_group_is_repeated_until_it_matches_or_stays_short(caplog):
    durations = [3.0, 4.0, 5.0] + [5.0] * 40
    groups = [0] * 3 + [1] * 40
    with caplog.at_level(logging.WARNING):
        repeated = LengthMatchedBatchSampler(durations, groups, batch_duration=50.0)
        short = LengthMatchedBatchSampler(durations, groups, batch_duration=50.0, balance=1.0)
    assert [record.message for record in caplog.records] == [
        "Groups with less audio than one batch of 50 s, which are repeated within it: group 0 (12 s).",
        "Groups with less audio than one batch of 50 s, which stay short: group 0 (12 s).",
    ]
    of_group_0 = [sum(durations[number] for number in batch) for batch in repeated if groups[batch[0]] == 0]
    assert of_group_0
    assert all(48.0 <= total <= 52.0 for total in of_group_0)
    assert sorted(sorted(batch) for batch in short if groups[batch[0]] == 0) == [[0, 1, 2]]


def test_warnings_and_errors_name_the_groups(caplog):
    names = ["ces", "cmn", "cs", "deu", "eng", "fra", "tam", "zul"]
    seconds = [100, 8, 1, 7, 6, 5, 4, 100]
    with caplog.at_level(logging.WARNING):
        LengthMatchedBatchSampler(seconds, range(8), batch_duration=50.0, balance=1, group_names=names)
    assert "stay short: cs (1 s), tam (4 s), fra (5 s), eng (6 s), deu (7 s), 1 more." in caplog.records[-1].message
    with pytest.raises(ValueError, match=r"`groups`: cmn has 0\.001 s of audio, and would be repeated"):
        LengthMatchedBatchSampler([50, 0.001], [0, 1], batch_duration=50.0, group_names=["ces", "cmn"])
    with pytest.raises(ValueError, match="`group_names` must have one name for each of the 2 groups; got 3"):
        LengthMatchedBatchSampler([50, 1], [0, 1], group_names=["ces", "cmn", "cs"])


def test_a_group_of_a_few_batches_matches_too():
    durations = [10.0] * 7 + [10.0] * 100  # 1.4 batches of 50 s: one would be too long, two too short
    groups = [0] * 7 + [1] * 100
    sampler = LengthMatchedBatchSampler(durations, groups, batch_duration=50.0)
    assert {len(batch) for batch in sampler} == {5}


def test_utterances_longer_than_the_target_are_alone_and_reported(caplog):
    durations = [5.0] * 20 + [75.0, 60.0]
    with caplog.at_level(logging.WARNING):
        sampler = LengthMatchedBatchSampler(durations, [0] * 22, batch_duration=50.0, balance=1.0)
    assert caplog.records[0].message == (
        "Utterances longer than `batch_duration` (50 s), each a batch of its own: 2 of 22; "
        "the longest, number 20, has 75 s."
    )
    assert sorted(batch for batch in sampler if len(batch) == 1) == [[20], [21]]


def test_one_utterance_is_a_corpus():
    assert list(LengthMatchedBatchSampler([2.0], [0], batch_duration=2.0)) == [[0]]
    assert list(LengthMatchedBatchSampler([2.0], [0], batch_duration=4.0)) == [[0, 0]]
    assert list(LengthMatchedBatchSampler([2.0], [0], batch_duration=4.0, balance=1.0)) == [[0]]


@pytest.mark.parametrize("balance", [0.0, 1.0])
def test_a_thousand_groups_are_planned(balance):
    durations, _ = like_set_1(20_000)
    groups = np.arange(20_000) % 1000
    sampler = LengthMatchedBatchSampler(durations, groups, batch_duration=50.0, balance=balance)
    plan = sampler.plan(0)
    assert {groups[batch[0]] for batch in plan} == set(range(1000))
    assert sampler.num_groups == 1000


@every_sampler
def test_numbers_of_numpy_are_accepted(make):
    durations, groups = small_corpus()
    options = {"seed": np.int64(3), "rank": np.int64(0), "world_size": np.int32(2)}
    sampler, expected = make(durations, groups, **options), make(durations, groups, seed=3, rank=0, world_size=2)
    sampler.set_epoch(np.int64(2))
    assert list(sampler) == list(expected.plan(2))[::2]
    state = json.loads(json.dumps(sampler.state_dict()))
    expected.load_state_dict(state)
    assert expected.state_dict() == state
    with pytest.raises(ValueError, match="`seed` must be a whole number, zero or more; got True"):
        make(durations, groups, seed=True)


def test_settings_of_samplers_may_be_numbers_of_numpy():
    durations, groups = small_corpus()
    matched = LengthMatchedBatchSampler(durations, groups, np.float32(20), balance=np.float64(0.5))
    assert list(matched) == list(LengthMatchedBatchSampler(durations, groups, 20.0, balance=0.5))
    assert list(SimilarLengthBatchSampler(durations, np.int64(4))) == list(SimilarLengthBatchSampler(durations, 4))
    with pytest.raises(ValueError, match="`batch_size` must be a whole number, at least 1 utterance; got True"):
        SimilarLengthBatchSampler(durations, True)


def test_arrays_tensors_and_lists_give_the_same_batches():
    durations, groups = small_corpus()
    plans = [
        list(LengthMatchedBatchSampler(*corpus, batch_duration=20.0))
        for corpus in (
            (durations, groups),
            (durations.tolist(), groups.tolist()),
            (torch.from_numpy(durations), torch.from_numpy(groups)),
        )
    ]
    assert plans[0] == plans[1] == plans[2]


@pytest.mark.parametrize(
    ("durations", "groups", "options", "message"),
    [
        ([1.0, 0.0], [0, 0], {}, r"`durations` must be positive seconds; utterance 1 has 0 \(1 such in all\)"),
        ([1.0, -2.0, -3.0], [0] * 3, {}, r"utterance 1 has -2 \(2 such in all\)"),
        ([1.0, float("nan")], [0, 0], {}, "utterance 1 has nan"),
        ([1.0, float("inf")], [0, 0], {}, "utterance 1 has inf"),
        ([], [], {}, r"`durations` must have one entry for each of one or more utterances; got shape \(0,\)"),
        ([[1.0]], [[0]], {}, r"`durations` .* got shape \(1, 1\)"),
        ([1.0, 2.0], [0], {}, "`groups` has 1 entries, `durations` 2"),
        ([1.0, 2.0], [0.0, 1.0], {}, "`groups` must be whole numbers.*float64"),
        ([1.0, 2.0], [0, -1], {}, "`groups` must be numbered from 0; utterance 1 has -1"),
        ([1.0, 2.0], [0, 10**11], {}, "no utterance of group 1 "),
        ([1.0, 2.0], ["ces", "cmn"], {}, r"`groups` must be whole numbers.*`Manifest.groups\(\)` numbers names"),
        (["a", "b"], [0, 1], {}, "`durations` must be numbers of seconds; got <U1"),
        ([[1.0], [1.0, 2.0]], [0, 1], {}, "`durations` must have one number for each utterance"),
        ([1.0], [0], {"batch_duration": "50"}, "`batch_duration` must be a positive number of seconds; got '50'"),
        ([1.0, 2.0], [0, 2], {}, r"no utterance of group 1 \(numbers go up to 2\); weights would never be updated"),
        ([1.0], [0], {"batch_duration": 0.0}, "`batch_duration` must be a positive number of seconds; got 0.0"),
        ([1.0], [0], {"batch_duration": float("nan")}, "`batch_duration` .* got nan"),
        ([1.0], [0], {"balance": 1.5}, r"`balance` must be from 0 .* to 1 .*; got 1.5"),
        ([0.01, 50.0], [0, 1], {}, "group 0 has 0.01 s of audio, and would be repeated over 1,000 times"),
    ],
)
def test_bad_data_is_named(durations, groups, options, message):
    with pytest.raises(ValueError, match=message):
        LengthMatchedBatchSampler(durations, groups, **options)


# The samplers to compare with.


def test_similar_length_batches_hold_every_utterance_once_and_little_padding():
    durations, _ = like_set_1(4002)
    plan = SimilarLengthBatchSampler(durations, batch_size=4).plan(1)
    assert sorted(plan.indices) == list(range(4002))
    assert Counter(len(batch) for batch in plan) == {4: 1000, 2: 1}
    padded = sum(4 * max(durations[batch]) for batch in plan)
    assert padded / durations.sum() <= 1.05


def test_similar_length_batches_mix_groups():
    durations, groups = like_set_1(4000)
    plan = SimilarLengthBatchSampler(durations, batch_size=4).plan(0)
    assert np.mean([len(set(groups[batch])) > 1 for batch in plan]) > 0.9


def test_group_uniform_batches_draw_every_group_alike_and_every_utterance_of_a_group_alike():
    groups = np.repeat([0, 1, 2], [20_000, 2_000, 200])
    drawn = GroupUniformBatchSampler(groups, batch_size=8).plan(0).indices
    assert len(drawn) == len(groups)
    shares = np.bincount(groups[drawn]) / len(drawn)
    assert shares.tolist() == pytest.approx([1 / 3] * 3, abs=0.02)
    visits = np.bincount(drawn, minlength=len(groups))[groups == 2]
    assert visits.mean() == pytest.approx(37, rel=0.1)
    assert visits.min() > 10


@pytest.mark.parametrize("make", [SimilarLengthBatchSampler, GroupUniformBatchSampler])
def test_a_batch_size_below_one_is_refused(make):
    with pytest.raises(ValueError, match="`batch_size` must be a whole number, at least 1 utterance; got 0"):
        make([1, 2, 0] if make is GroupUniformBatchSampler else [1.0, 2.0], batch_size=0)


@given(st.integers(0, 50), st.integers(1, 8), st.integers(0, 60))
def test_shards_cover_what_is_left_and_are_equally_long(num_batches, world_size, start):
    ranks = [shard(num_batches, rank, world_size, start) for rank in range(world_size)]
    assert len({len(rank) for rank in ranks}) == 1
    numbers = sorted(number for rank in ranks for number in rank)
    assert numbers == list(range(start, start + len(numbers)))
    assert 0 <= len(numbers) - max(0, num_batches - start) < world_size
