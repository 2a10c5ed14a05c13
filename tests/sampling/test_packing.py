"""Packing: every utterance once, totals near the target, whatever the durations."""

from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctcdro.sampling import packing
from ctcdro.sampling.batch_arrays import Matching, PackedBatches
from ctcdro.sampling.packing import Packer, longest_first_order

durations_lists = st.lists(st.floats(0.01, 100.0), min_size=1, max_size=200)


def pack(durations, batch_duration, seed=0):
    return Packer(np.array(durations), batch_duration).pack(np.random.default_rng(seed))


def totals(batches, durations):
    return np.array([np.sum(np.array(durations)[batch]) for batch in batches])


@given(durations_lists, st.floats(0.1, 200.0))
def test_every_utterance_is_in_exactly_one_batch_and_no_batch_is_empty(durations, batch_duration):
    batches = pack(durations, batch_duration)
    assert sorted(number for batch in batches for number in batch) == list(range(len(durations)))
    assert all(batches)


@given(durations_lists, st.floats(0.1, 200.0))
def test_the_number_of_batches_is_the_same_for_every_seed(durations, batch_duration):
    packer = Packer(np.array(durations), batch_duration)
    assert {len(packer.pack(np.random.default_rng(seed))) for seed in range(3)} == {packer.num_batches}


@given(durations_lists, st.floats(0.1, 50.0))
def test_an_utterance_longer_than_the_target_is_alone(durations, batch_duration):
    for batch in pack(durations, batch_duration):
        assert len(batch) == 1 or max(durations[number] for number in batch) <= batch_duration


@given(durations_lists)
def test_the_same_seed_gives_the_same_batches(durations):
    assert list(pack(durations, 20.0, seed=1)) == list(pack(durations, 20.0, seed=1))


@given(st.integers(1, 30), st.integers(1, 12))
def test_equal_durations_that_fit_exactly_are_packed_exactly(num_batches, size):
    batches = pack([10.0 / size] * (num_batches * size), 10.0)
    assert [len(batch) for batch in batches] == [size] * num_batches


def test_another_seed_gives_other_batches():
    durations = np.random.default_rng(0).uniform(2.0, 12.0, 500)
    packer = Packer(durations, 50.0)
    first, second = ({frozenset(batch) for batch in packer.pack(np.random.default_rng(seed))} for seed in (1, 2))
    assert len(first & second) <= 0.05 * len(first)


def test_another_seed_gives_other_pairs():
    # With two utterances per batch, the longest with the shortest is the best match, and would always be chosen.
    durations = np.linspace(20.0, 30.0, 500)
    packer = Packer(durations, 50.0)
    first, second = ({frozenset(batch) for batch in packer.pack(np.random.default_rng(seed))} for seed in (1, 2))
    assert len(first & second) <= 0.2 * len(first)
    assert np.abs(totals(packer.pack(np.random.default_rng(1)), durations) - 50).max() <= 1.0


@pytest.mark.parametrize(("mean", "num_utterances"), [(2.6, 300), (7.5, 3000), (12.6, 300)])
def test_totals_are_near_the_target(mean, num_utterances):
    durations = np.random.default_rng(0).gamma(9.0, mean / 9.0, num_utterances).clip(0.5, 20.0)
    target = durations.sum() / round(durations.sum() / 50.0)  # so that the audio makes whole batches
    matching = Matching.of(pack(durations, target), durations, target)
    assert matching.share_within >= 0.9
    assert matching.total_std <= 1.0
    assert matching.padding <= 1.15


def test_matching_counts_totals_within_two_percent_and_padding():
    batches = PackedBatches(np.array([0, 1, 2]), np.array([0, 2, 3]))
    matching = Matching.of(batches, np.array([4.0, 6.0, 9.0]), batch_duration=10.0)
    assert matching == Matching(num_batches=2, share_within=0.5, total_std=0.5, padding=21 / 19)


def large_groups():
    rng = np.random.default_rng(0)
    return {
        "like the paper's longest language": (rng.normal(12.6, 3.1, 3000).clip(0.5, 20.0), 1.09),
        "uniform": (rng.uniform(1.0, 20.0, 3000), 1.09),
        "with utterances beyond the target": (
            np.append(rng.normal(7.5, 3.0, 10_000).clip(0.5, 20.0), [60.0, 90.0]),
            1.06,
        ),
        "two per batch": (np.linspace(20.0, 30.0, 3000), 1.11),
    }


@pytest.mark.parametrize("name", large_groups())
def test_large_groups_need_little_padding_and_have_other_batches_in_every_pass(name):
    durations, most_padding = large_groups()[name]
    packer = Packer(durations, 50.0)
    first, second = (packer.pack(np.random.default_rng(seed)) for seed in (1, 2))
    assert sorted(first.indices) == sorted(second.indices) == list(range(len(durations)))
    assert len(first) == len(second) == packer.num_batches
    within = np.abs(first.totals(durations) - 50.0) <= 1.0
    assert within.mean() >= 0.97
    assert Matching.of(first, durations, 50.0).padding <= most_padding
    assert len({frozenset(batch) for batch in first} & {frozenset(batch) for batch in second}) <= 0.02 * len(first)


def test_compositions_replace_bands_only_where_little_is_left_over():
    packs_by_composition = {
        name: Packer(durations, 50.0).packs_by_composition for name, durations in odd_corpora().items()
    }
    assert packs_by_composition == {
        "most of one length": False,
        "a long tail": False,
        "a few long among short": False,
        "more than a sample": True,
    }
    durations, _ = large_groups()["uniform"]
    assert Packer(durations, 50.0).packs_by_composition
    assert not Packer(durations[:1000], 50.0).packs_by_composition


@pytest.mark.parametrize("length", [10.0, 11.2])
def test_many_utterances_of_one_length_are_packed_as_few_are(length):
    few, many = (Matching.of(pack([length] * num, 50.0), np.full(num, length), 50.0) for num in (100, 10_000))
    assert many.padding == few.padding == 1.0
    assert many.total_std == pytest.approx(few.total_std, abs=1e-9)


def odd_corpora():
    rng = np.random.default_rng(0)
    return {
        "most of one length": np.where(rng.random(3000) < 0.6, rng.normal(14.5, 1, 3000), rng.uniform(2, 16, 3000)),
        "a long tail": rng.lognormal(1.6, 0.8, 3000).clip(0.5, 40.0),
        "a few long among short": np.where(rng.random(3000) < 0.01, 40.0, rng.normal(4, 1.0, 3000)),
        "more than a sample": rng.lognormal(1.6, 0.8, 20_000).clip(0.5, 40.0),
    }


@pytest.mark.parametrize("name", odd_corpora())
def test_best_fit_steps_in_where_bands_do_not_match(name):
    durations = odd_corpora()[name]
    packer = Packer(durations, 50.0)
    first, second = (packer.pack(np.random.default_rng(seed)) for seed in (1, 2))
    assert sorted(first.indices) == list(range(len(durations)))
    assert len(first) == len(second) == packer.num_batches
    assert Matching.of(first, durations, 50.0).share_within >= 0.9
    assert totals(first, durations).max() <= 52.0
    assert len({frozenset(batch) for batch in first} & {frozenset(batch) for batch in second}) <= 0.1 * len(first)


@given(st.lists(st.sampled_from([1.0, 2.5, 2.5, 7.0, 0.1]), min_size=1))
def test_equal_durations_keep_their_order(durations):
    durations = np.array(durations)
    with mock.patch.object(packing, "MANY_DURATIONS", 0):  # with two sorts, as for many
        assert longest_first_order(durations).tolist() == np.argsort(-durations, kind="stable").tolist()


def test_one_long_utterance_takes_what_is_short():
    assert sorted(totals(pack([49.0] + [1.0] * 30, 50.0), [49.0] + [1.0] * 30)) == [29.0, 50.0]


def test_a_group_of_one_and_a_half_batches_does_not_overfill_one():
    assert sorted(totals(pack([0.5] * 148, 50.0), [0.5] * 148)) == [24.0, 50.0]


def test_utterances_too_long_to_be_paired_are_not_paired():
    durations = np.random.default_rng(0).uniform(40.0, 48.0, 100)
    assert all(len(batch) == 1 for batch in pack(durations, 50.0))


def test_equal_durations_that_do_not_fit_come_as_near_as_they_can():
    assert totals(pack([11.2] * 40, 50.0), [11.2] * 40).tolist() == pytest.approx([44.8] * 10)
    assert totals(pack([10.8] * 40, 50.0), [10.8] * 40).tolist() == pytest.approx([54.0] * 8)


def test_batches_can_be_reordered_and_joined():
    batches = PackedBatches(np.array([5, 3, 8, 1]), np.array([0, 1, 3, 4]))
    assert list(batches) == [[5], [3, 8], [1]]
    assert list(batches.take(np.array([2, 1, 1]))) == [[1], [3, 8], [3, 8]]
    assert list(PackedBatches.join([batches, batches.take(np.array([1]))])) == [[5], [3, 8], [1], [3, 8]]
