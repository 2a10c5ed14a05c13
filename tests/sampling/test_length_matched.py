"""The length-matched sampler, and the two with batches of a fixed size to compare with."""

import logging
from collections import Counter

import numpy as np
import pytest
import torch
from cases import case
from corpora import like_set_1
from hypothesis import given
from hypothesis import strategies as st

from ctcdro import GroupUniformBatchSampler, LengthMatchedBatchSampler, SimilarLengthBatchSampler
from ctcdro.sampling.samplers import order

corpora = st.lists(st.tuples(st.floats(0.1, 60.0), st.integers(0, 4)), min_size=1, max_size=80).map(
    lambda pairs: (
        [duration for duration, _ in pairs],
        np.unique([group for _, group in pairs], return_inverse=True)[1],
    )
)


@given(corpora, st.floats(0.5, 60.0), st.sampled_from([0.0, 0.3, 1.0]), st.integers(0, 3))
def test_every_batch_holds_one_group(corpus, batch_duration, exponent, epoch):
    durations, groups = corpus
    for batch in LengthMatchedBatchSampler(durations, groups, batch_duration, exponent).plan(epoch):
        assert batch
        assert len(set(groups[batch])) == 1


@given(corpora, st.floats(0.5, 60.0), st.integers(0, 3), st.integers(1, 5))
def test_with_exponent_one_every_utterance_occurs_exactly_once_per_epoch(corpus, batch_duration, epoch, world_size):
    durations, groups = corpus
    ranks = [
        LengthMatchedBatchSampler(durations, groups, batch_duration, exponent=1.0, rank=rank, world_size=world_size)
        for rank in range(world_size)
    ]
    num_batches = ranks[0].num_batches
    for sampler in ranks:
        sampler.set_epoch(epoch)
    in_turn = [batch for turn in zip(*ranks, strict=True) for batch in turn][:num_batches]
    assert sorted(number for batch in in_turn for number in batch) == list(range(len(durations)))


@given(corpora, st.floats(0.5, 60.0), st.integers(0, 3))
def test_with_exponent_zero_every_round_holds_every_group_once(corpus, batch_duration, epoch):
    durations, groups = corpus
    sampler = LengthMatchedBatchSampler(durations, groups, batch_duration)
    in_order = [groups[batch[0]] for batch in sampler.plan(epoch)]
    num_groups = sampler.num_groups
    assert len(in_order) % num_groups == 0
    for start in range(0, len(in_order), num_groups):
        assert sorted(in_order[start : start + num_groups]) == list(range(num_groups))


@given(corpora, st.floats(0.5, 60.0))
def test_with_exponent_zero_every_utterance_occurs_eventually(corpus, batch_duration):
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


@pytest.mark.parametrize("exponent", [0.0, 1.0])
def test_totals_match_and_padding_is_small_on_durations_like_the_papers(exponent):
    durations, groups = like_set_1(20_000)
    report = LengthMatchedBatchSampler(durations, groups, batch_duration=50.0, exponent=exponent).report()
    assert report.share_within >= 0.97
    assert report.total_std <= 1.0
    assert report.padding <= 1.10
    assert report.num_batches == pytest.approx(durations.sum() / 50.0, rel=0.01)


@pytest.mark.parametrize("exponent", [0.0, 1.0])
def test_batches_are_fresh_every_epoch(exponent):
    durations, groups = like_set_1(20_000)
    sampler = LengthMatchedBatchSampler(durations, groups, batch_duration=50.0, exponent=exponent)
    plans = [[frozenset(batch) for batch in sampler.plan(epoch)] for epoch in range(3)]
    for earlier, later in ((plans[0], plans[1]), (plans[1], plans[2])):
        assert len(set(earlier) & set(later)) <= 0.05 * len(earlier)


@pytest.mark.parametrize(("exponent", "shares"), [(0.0, [1, 1, 1]), (1.0, [1, 4, 16]), (0.5, [1, 2, 4])])
def test_shares_are_the_audio_to_the_power_of_the_exponent(exponent, shares):
    groups = np.repeat([0, 1, 2], [100, 400, 1600])
    sampler = LengthMatchedBatchSampler(np.full(2100, 5.0), groups, batch_duration=50.0, exponent=exponent)
    counts = Counter(groups[batch[0]] for batch in sampler.plan(0))
    assert sampler.num_batches == pytest.approx(210, abs=2)
    assert [counts[group] / counts[0] for group in range(3)] == pytest.approx(shares, rel=0.05)


def test_groups_of_equal_shares_take_turns_in_an_order_that_changes_with_the_epoch():
    turns = [(order(np.array([4, 4, 4]), np.random.default_rng(seed)) // 4).tolist() for seed in range(10)]
    assert all(groups == 4 * groups[:3] for groups in turns)
    assert len({tuple(groups) for groups in turns}) > 1


@pytest.mark.parametrize("seed", range(5))
def test_groups_of_unequal_shares_are_evenly_spaced(seed):
    num_batches_of = np.array([5, 8, 40])
    in_order = np.searchsorted(np.cumsum(num_batches_of), order(num_batches_of, np.random.default_rng(seed)), "right")
    for group, num_batches in enumerate(num_batches_of):
        gaps = np.diff(np.flatnonzero(in_order == group))
        assert np.abs(gaps - num_batches_of.sum() / num_batches).max() < len(num_batches_of)


def test_a_small_group_is_repeated_until_it_matches_or_stays_short(caplog):
    durations = [3.0, 4.0, 5.0] + [5.0] * 40
    groups = [0] * 3 + [1] * 40
    with caplog.at_level(logging.WARNING):
        repeated = LengthMatchedBatchSampler(durations, groups, batch_duration=50.0)
        short = LengthMatchedBatchSampler(durations, groups, batch_duration=50.0, exponent=1.0)
    assert [record.message for record in caplog.records] == [
        "Some groups have less audio than one batch of 50 s: group 0 (12 s). Each batch repeats them.",
        "Some groups have less audio than one batch of 50 s: group 0 (12 s). Their batches are short.",
    ]
    of_group_0 = [sum(durations[number] for number in batch) for batch in repeated if groups[batch[0]] == 0]
    assert of_group_0
    assert all(48.0 <= total <= 52.0 for total in of_group_0)
    assert sorted(sorted(batch) for batch in short if groups[batch[0]] == 0) == [[0, 1, 2]]


def test_warnings_and_errors_name_the_groups(caplog):
    names = ["ces", "cmn", "cs", "deu", "eng", "fra", "tam", "zul"]
    seconds = [100, 8, 1, 7, 6, 5, 4, 100]
    with caplog.at_level(logging.WARNING):
        LengthMatchedBatchSampler(seconds, range(8), batch_duration=50.0, exponent=1, group_names=names)
    assert ": cs (1 s), tam (4 s), fra (5 s), eng (6 s), deu (7 s), 1 more." in caplog.records[-1].message
    with pytest.raises(ValueError, match=r"`groups`: cmn has only 0\.001 s of audio, and would be repeated"):
        LengthMatchedBatchSampler([50, 0.001], [0, 1], batch_duration=50.0, group_names=["ces", "cmn"])
    with pytest.raises(ValueError, match="`group_names` must have one name for each of 2 groups; got 3"):
        LengthMatchedBatchSampler([50, 1], [0, 1], group_names=["ces", "cmn", "cs"])


def test_a_group_of_a_few_batches_matches_too():
    durations = [10.0] * 7 + [10.0] * 100  # 1.4 batches of 50 s: one would be too long, two too short
    groups = [0] * 7 + [1] * 100
    sampler = LengthMatchedBatchSampler(durations, groups, batch_duration=50.0)
    assert {len(batch) for batch in sampler} == {5}


def test_utterances_longer_than_the_target_are_alone_and_reported(caplog):
    durations = [5.0] * 20 + [75.0, 60.0]
    with caplog.at_level(logging.WARNING):
        sampler = LengthMatchedBatchSampler(durations, [0] * 22, batch_duration=50.0, exponent=1.0)
    assert caplog.records[0].message == (
        "2 of 22 utterances are longer than `batch_duration` (50 s) and form their own batches. The longest, "
        "number 20, has 75 s. Raise `batch_duration`, or exclude long utterances."
    )
    with caplog.at_level(logging.WARNING):
        LengthMatchedBatchSampler(durations, [0] * 22, exponent=1.0, where=lambda index: f"train.jsonl:{index + 1}")
    assert "The longest, train.jsonl:21, has 75 s." in caplog.records[1].message
    assert sorted(batch for batch in sampler if len(batch) == 1) == [[20], [21]]


def test_one_utterance_is_a_corpus():
    assert list(LengthMatchedBatchSampler([2.0], [0], batch_duration=2.0)) == [[0]]
    assert list(LengthMatchedBatchSampler([2.0], [0], batch_duration=4.0)) == [[0, 0]]
    assert list(LengthMatchedBatchSampler([2.0], [0], batch_duration=4.0, exponent=1.0)) == [[0]]


def test_a_thousand_groups_are_planned():
    durations, _ = like_set_1(20_000)
    groups = np.arange(20_000) % 1000
    sampler = LengthMatchedBatchSampler(durations, groups, batch_duration=50.0)
    plan = sampler.plan(0)
    assert {groups[batch[0]] for batch in plan} == set(range(1000))
    assert sampler.num_groups == 1000


def test_settings_may_be_numbers_of_numpy_and_a_batch_needs_an_utterance():
    durations, groups = like_set_1(60, seed=1)
    matched = LengthMatchedBatchSampler(durations, groups, np.float32(20), exponent=np.float64(0.5))
    assert list(matched) == list(LengthMatchedBatchSampler(durations, groups, 20.0, exponent=0.5))
    assert list(SimilarLengthBatchSampler(durations, np.int64(4))) == list(SimilarLengthBatchSampler(durations, 4))
    with pytest.raises(ValueError, match="`batch_size` must be a positive integer; got True"):
        SimilarLengthBatchSampler(durations, True)
    with pytest.raises(ValueError, match="`batch_size` must be a positive integer; got 0"):
        GroupUniformBatchSampler([1, 2, 0], batch_size=0)


def test_arrays_tensors_and_lists_give_the_same_batches():
    durations, groups = like_set_1(60, seed=1)
    plans = [
        list(LengthMatchedBatchSampler(*corpus, batch_duration=20.0))
        for corpus in (
            (durations, groups),
            (durations.tolist(), groups.tolist()),
            (torch.from_numpy(durations), torch.from_numpy(groups)),
        )
    ]
    assert plans[0] == plans[1] == plans[2]


def test_bad_data_is_named():
    for durations, groups, options, message in (
        (
            [1, 0, np.nan, np.inf],
            [0] * 4,
            {},
            r"`durations` must be positive numbers of seconds; utterance 1 has 0 \(3 such utterances\)",
        ),
        ([], [], {}, r"`durations` must have one entry per utterance, and at least one; got shape \(0,\)"),
        ([1.0, 2.0], [0], {}, "`groups` and `durations` must have the same length; got 1 and 2"),
        ([1.0, 2.0], [0, -1], {}, "`groups` must be numbered from 0; utterance 1 has -1"),
        (
            [1.0, 2.0],
            [0, 10**11],
            {},
            r"group 1 has no utterances \(numbers go up to 1\d+\), so weights could never be updated",
        ),
        ([1.0, 2.0], ["ces", "cmn"], {}, r"`groups` must be integers.*`Manifest.groups\(\)` converts names"),
        (["a", "b"], [0, 1], {}, "`durations` must be numbers of seconds; got <U1"),
        ([1.0], [0], {"batch_duration": "50"}, "`batch_duration` must be a positive number of seconds; got '50'"),
        ([1.0], [0], {"exponent": 1.5}, r"`exponent` must be from 0 .* to 1 .*; got 1.5"),
        ([0.01, 50.0], [0, 1], {}, "group 0 has only 0.01 s of audio, and would be repeated over 1,000 times"),
    ):
        with case(message), pytest.raises(ValueError, match=message):
            LengthMatchedBatchSampler(durations, groups, **options)


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
