"""The adaptive sampler: shares follow the weights, every utterance is used, and resuming is exact with workers."""

import json

import numpy as np
import pytest
import torch
from corpora import like_set_1
from torch.utils.data import DataLoader

import ctcdro
from ctcdro.sampling.planned_rounds import take_turns

NUM_GROUPS = 3


def corpus(num_utterances=240):
    durations, _ = like_set_1(num_utterances, seed=1)
    return durations, np.arange(num_utterances) % NUM_GROUPS


def make(objective, **options):
    durations, groups = corpus()
    return ctcdro.AdaptiveBatchSampler(durations, groups, objective, batch_duration=20.0, **options)


def shares(batches):
    _, groups = corpus()
    counts = np.bincount([groups[batch[0]] for batch in batches], minlength=NUM_GROUPS)
    return counts / counts.sum()


def with_rates(rates):
    objective = ctcdro.error_weighted(NUM_GROUPS, power=1.0, signal="error_rate")
    objective.update_error_rates(rates)
    return objective


def test_shares_of_batches_are_the_weights_at_every_moment():
    batches = list(make(with_rates([0.6, 0.3, 0.1])))
    for num_batches in range(NUM_GROUPS, len(batches) + 1, NUM_GROUPS):
        errors = shares(batches[:num_batches]) - np.array([0.6, 0.3, 0.1])
        assert np.abs(errors).max() < 1.01 / num_batches


def test_shares_change_with_the_weights_in_the_next_round():
    objective = with_rates([0.5, 0.5, 0.5])
    sampler = iter(make(objective))
    assert shares([next(sampler) for _ in range(12)]).tolist() == pytest.approx([1 / 3] * 3)
    objective.update_error_rates([1.0, 0.01, 0.01])
    assert shares([next(sampler) for _ in range(30)])[0] >= 0.9


def test_equal_weights_give_rounds_of_all_groups():
    _, groups = corpus()
    batches = list(make(ctcdro.erm(NUM_GROUPS)))
    for start in range(0, len(batches) - NUM_GROUPS, NUM_GROUPS):
        assert sorted(groups[batch[0]] for batch in batches[start : start + NUM_GROUPS]) == [0, 1, 2]


def test_a_group_is_passed_through_before_an_utterance_repeats():
    _, groups = corpus()
    batches = [batch for batch in make(with_rates([1.0, 0.01, 0.01])) if groups[batch[0]] == 0]
    per_pass = next(
        number for number in range(1, len(batches) + 1) if len({i for b in batches[:number] for i in b}) == 80
    )
    assert sorted(index for batch in batches[:per_pass] for index in batch) == np.flatnonzero(groups == 0).tolist()
    assert len(batches) > 2 * per_pass
    assert set(map(tuple, batches[:per_pass])) != set(map(tuple, batches[per_pass : 2 * per_pass]))


def test_passes_continue_from_one_epoch_to_the_next():
    _, groups = corpus()
    sampler = make(with_rates([1.0, 0.5, 0.1]))
    seen = []
    for epoch in range(12):
        sampler.set_epoch(epoch)
        seen += [index for batch in sampler for index in batch if groups[index] == 2]
    for number in range(len(seen) // 80):
        assert sorted(seen[80 * number : 80 * (number + 1)]) == np.flatnonzero(groups == 2).tolist()
    assert len(seen) > 160


def test_an_epoch_without_history_depends_on_its_number_only():
    first, second = make(with_rates([0.6, 0.3, 0.1])), make(with_rates([0.6, 0.3, 0.1]))
    list(first)
    for sampler in (first, second):
        sampler.start_at(1)
    assert list(first) == list(second)


def test_exponent_and_weights_multiply():
    durations, _ = like_set_1(240, seed=1)
    groups = np.array([0, 0, 0, 1])[np.arange(240) % 4]  # three quarters of the audio
    objective = ctcdro.error_weighted(2, power=1.0, signal="error_rate")
    objective.update_error_rates([0.2, 0.6])
    sampler = ctcdro.AdaptiveBatchSampler(durations, groups, objective, batch_duration=20.0, exponent=1.0)
    share = np.mean([groups[batch[0]] for batch in sampler])
    assert share == pytest.approx(0.5, abs=0.05)


def test_losses_are_not_weighted_twice():
    losses, groups = torch.tensor([10.0, 20.0]), torch.tensor([0, 2])
    for objective in (
        with_rates([0.6, 0.3, 0.1]),
        ctcdro.error_weighted(NUM_GROUPS),
        ctcdro.ctc_dro(NUM_GROUPS, step_size=1e-2, smoothing=0.5),
    ):
        make(objective)
        assert objective(losses, groups, torch.tensor([1, 1])) == 30.0
    with pytest.raises(ValueError, match=r"Group DRO .* Use another sampler"):
        make(ctcdro.group_dro(NUM_GROUPS, step_size=1e-3))
    with pytest.raises(ValueError, match="`objective` has 2 groups, but `groups` has 3"):
        make(ctcdro.erm(2))


class Training:
    """A loop whose losses move the weights, so that the next batches depend on the previous ones."""

    def __init__(self, num_workers):
        self.objective = ctcdro.error_weighted(NUM_GROUPS)
        self.sampler = make(self.objective)
        self.num_workers = num_workers
        self.seen = []

    def run(self, stop_after=None):
        """Trains until the end of the third epoch, or until a number of batches; returns the state."""
        _, groups = corpus()
        for epoch in range(self.sampler.epoch, 3):
            self.sampler.set_epoch(epoch)
            loader = DataLoader(
                range(240), batch_sampler=self.sampler, num_workers=self.num_workers, generator=torch.Generator()
            )
            for num_taken, batch in enumerate(loader, 1):
                self.seen.append(batch.tolist())
                numbers = torch.from_numpy(groups)[batch]
                losses = 10.0 / (1 + numbers + 0.01 * batch.float().mean())
                self.objective(losses, numbers, torch.full((len(batch),), 5))
                if len(self.seen) == stop_after:
                    return json.loads(json.dumps(self.sampler.state_dict(num_taken))), self.objective.state_dict()
        return None


@pytest.mark.parametrize("num_workers", [0, 2])
def test_resuming_is_exact_although_workers_request_batches_ahead_of_time(num_workers):
    whole = Training(num_workers)
    whole.run()
    assert np.ptp(whole.objective.weights.numpy()) > 0.1
    for stop_after in (1, 2, 7, 50, len(whole.seen) // 3, len(whole.seen) - 2):
        first = Training(num_workers)
        sampler_state, objective_state = first.run(stop_after)
        second = Training(num_workers)
        second.objective.load_state_dict(objective_state)
        second.sampler.load_state_dict(sampler_state)
        second.run()
        assert first.seen + second.seen == whole.seen


def test_ranks_take_turns_with_the_same_rounds():
    _, groups = corpus()
    ranks = [list(make(with_rates([0.6, 0.3, 0.1]), rank=rank, world_size=2)) for rank in range(2)]
    assert len(ranks[0]) == len(ranks[1])
    turns = [batch for turn in zip(*ranks, strict=True) for batch in turn]
    assert np.abs(shares(turns) - [0.6, 0.3, 0.1]).max() < 0.03
    first_pass = [index for batch in turns for index in batch if groups[index] == 0][:80]
    assert sorted(first_pass) == np.flatnonzero(groups == 0).tolist()


def test_a_state_that_is_damaged_is_rejected():
    sampler = make(with_rates([0.6, 0.3, 0.1]))
    next(iter(sampler))
    state = sampler.state_dict()
    for rounds in ([{"start": 0}], [{**state["rounds"][0], "taken": [1]}], [{**state["rounds"][0], "groups": [3]}]):
        with pytest.raises(ValueError, match=r"`state` must be the `state_dict\(\)` of a sampler; got the round"):
            make(with_rates([0.6, 0.3, 0.1])).load_state_dict({**state, "rounds": rounds})


def test_no_group_is_ever_owed_more_than_a_batch():
    credit = np.zeros(4)
    totals = np.zeros(4)
    given = np.array([0.55, 0.3, 0.14, 0.01])
    for number in range(1, 101):
        groups, credit = take_turns(4, given, credit)
        totals += np.bincount(groups, minlength=4)
        assert len(groups) == 4
        assert np.abs(totals - 4 * number * given).max() <= 1


def test_groups_with_equal_weights_take_turns_in_an_order_that_changes_with_the_epoch():
    sampler = make(with_rates([0.5, 0.5, 0.5]))
    _, groups = corpus()
    orders = set()
    for epoch in range(10):
        taken = [groups[batch[0]] for batch in sampler.plan(epoch)]
        assert taken[NUM_GROUPS:] == taken[:-NUM_GROUPS]
        orders.add(tuple(taken[:NUM_GROUPS]))
    assert len(orders) > 1
