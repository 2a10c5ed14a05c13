"""Batches from chunks: complete passes, good matches, the same shares as without chunks, and no need to start over."""

import json

import numpy as np
import pytest
from corpora import like_set_1
from grouped_durations import InMemory

import ctcdro
from ctcdro.sampling.batch_arrays import Matching, PackedBatches
from ctcdro.sampling.chunks import ChunkedBatchSampler

TARGET = 50.0


def corpus(num_utterances=6000, shares=(1, 1, 1)):
    durations, _ = like_set_1(num_utterances, seed=1)
    groups = np.random.default_rng(0).choice(len(shares), size=num_utterances, p=np.array(shares) / sum(shares))
    return InMemory(durations, groups)


def groups_of(data, batches):
    assert all(len({int(data.groups[index]) for index in batch}) == 1 for batch in batches)
    return np.array([data.groups[batch[0]] for batch in batches])


def test_a_pass_has_every_utterance_once_in_batches_of_one_group_near_the_target():
    data = corpus()
    sampler = ChunkedBatchSampler(data, exponent=1.0, chunk_size=500)
    batches = list(sampler)
    assert sorted(index for batch in batches for index in batch) == list(range(6000))
    groups_of(data, batches)
    whole = ctcdro.LengthMatchedBatchSampler(data.durations, data.groups, exponent=1.0)
    offsets = np.cumsum([0, *map(len, batches)])
    matching = Matching.of(PackedBatches(np.concatenate(batches), offsets), data.durations, TARGET)
    assert matching.share_within > whole.report().share_within - 0.05
    assert matching.padding < whole.report().padding + 0.03


def test_chunks_change_their_order_and_their_batches_from_pass_to_pass():
    data = corpus()
    sampler = ChunkedBatchSampler(data, exponent=1.0, chunk_size=500)
    first, second = (list(sampler.plan(epoch)) for epoch in (0, 1))
    repeated = {tuple(sorted(batch)) for batch in first} & {tuple(sorted(batch)) for batch in second}
    assert len(repeated) < 0.03 * len(first)
    assert [min(batch) // 500 for batch in first] != [min(batch) // 500 for batch in second]


@pytest.mark.parametrize("exponent", [0.0, 0.5, 1.0])
def test_groups_have_the_same_shares_as_without_chunks(exponent):
    data = corpus(shares=(6, 3, 1))
    chunked = ChunkedBatchSampler(data, exponent=exponent, chunk_size=500)
    whole = ctcdro.LengthMatchedBatchSampler(data.durations, data.groups, exponent=exponent)
    counts, expected = (np.bincount(groups_of(data, list(one)), minlength=3) for one in (chunked, whole))
    assert np.abs(counts - expected).max() <= 0.01 * expected.sum() + 1


def test_equal_groups_are_in_every_round():
    data = corpus()
    groups = groups_of(data, list(ChunkedBatchSampler(data, chunk_size=500)))
    rounds = groups[: len(groups) // 3 * 3].reshape(-1, 3)
    assert (np.sort(rounds) == [0, 1, 2]).all()


def test_weights_of_an_objective_are_shares():
    data = corpus()
    objective = ctcdro.error_weighted(3, power=1.0, signal="error_rate")
    objective.update_error_rates([0.6, 0.3, 0.1])
    groups = groups_of(data, list(ChunkedBatchSampler(data, objective, chunk_size=500)))
    assert np.bincount(groups) / len(groups) == pytest.approx([0.6, 0.3, 0.1], abs=0.01)


def test_a_group_smaller_than_a_batch_is_repeated_within_it():
    data = InMemory([5.0] * 40 + [4.0, 6.0], [0] * 40 + [1, 1])
    small = [batch for batch in ChunkedBatchSampler(data, chunk_size=10) if batch[0] >= 40]
    assert all(np.bincount(batch)[40:].tolist() == [5, 5] for batch in small)
    with pytest.raises(ValueError, match=r"Czech has only 0.04 s of audio, and would be repeated over 1,000 times"):
        ChunkedBatchSampler(InMemory([5.0, 0.04], [0, 1]), group_names=["Polish", "Czech"])


def test_resuming_reads_one_chunk_per_group_however_long_the_epoch():
    data = corpus(12_000)
    sampler = ChunkedBatchSampler(data, chunk_size=500)
    iterator = iter(sampler)
    for _ in range(sampler.num_batches - 10):
        next(iterator)
    state = json.loads(json.dumps(sampler.state_dict()))
    resumed = ChunkedBatchSampler(data, chunk_size=500)
    resumed.load_state_dict(state)
    data.num_read = 0
    assert next(iter(resumed)) == next(iterator)
    assert data.num_read <= 3 * 2 * 500


def test_other_data_and_chunks_of_another_size_are_rejected():
    sampler = ChunkedBatchSampler(corpus(), chunk_size=500)
    next(iter(sampler))
    for other in (ChunkedBatchSampler(corpus(), chunk_size=400), ChunkedBatchSampler(corpus(5000), chunk_size=500)):
        with pytest.raises(ValueError, match="Cannot resume from this sampler state"):
            other.load_state_dict(sampler.state_dict())


def test_invalid_options_are_rejected():
    for options, message in [
        ({"batch_duration": 0}, "`batch_duration` must be a positive number"),
        ({"exponent": 2}, r"`exponent` must be from 0 .* to 1 .*; got 2"),
        ({"chunk_size": 0}, "`chunk_size` must be a positive integer; got 0"),
        ({"group_names": ["ces"]}, r"`group_names` must have one name for each of \d+ groups; got 1"),
    ]:
        with pytest.raises(ValueError, match=message):
            ChunkedBatchSampler(corpus(), **options)
