"""Several processes: the same weights on all of them, as one process that saw all batches would have."""

import math
from pathlib import Path
from unittest import mock

import pytest
import torch
import torch.distributed
import torch.multiprocessing
from objective_runs import OBJECTIVES, WITH_CHARACTERS, assert_rows_equal_numbers, draw_batches, tensors
from oracle import algorithm_1

import ctcdro
from ctcdro.objectives import host_memory

EVERY = OBJECTIVES | WITH_CHARACTERS
NUM_GROUPS = 4
NUM_ROUNDS = 40


def rounds_of_all_groups():
    """Rounds of one batch for each group, in changing order, as the length-matched sampler yields them."""
    rng = torch.Generator().manual_seed(0)
    pools = {
        group: [b for b in draw_batches(NUM_GROUPS * 8 * NUM_ROUNDS, mixed=False) if b[0][1] == group]
        for group in range(4)
    }
    order = [torch.randperm(NUM_GROUPS, generator=rng).tolist() for _ in range(NUM_ROUNDS)]
    return [[pools[group].pop() for group in groups] for groups in order]


@pytest.fixture(scope="module")
def both_ranks(tmp_path_factory):
    return run_in_two_processes(tmp_path_factory.mktemp("ranks"), IN_PROCESSES)


def run_in_two_processes(folder, functions):
    """Runs functions in two processes with gloo. Returns their results per rank, by name."""
    torch.multiprocessing.spawn(_join, args=(str(folder), functions), nprocs=2)
    ranks = [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(2)]
    return {function.__name__: [rank[function.__name__] for rank in ranks] for function in functions}


def _join(rank, folder, functions):
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", f"file://{folder}/meeting", rank=rank, world_size=2)
    torch.save({function.__name__: function(rank, 2) for function in functions}, Path(folder) / f"{rank}.pt")
    torch.distributed.barrier()  # a process that leaves early may abort another
    torch.distributed.destroy_process_group()


def on_device():
    """The tensor operations for other devices, on the host."""
    return mock.patch.object(host_memory, "is_readable", return_value=False)


def weigh_rounds(rank, world_size, as_groups=lambda groups: groups):
    """The weights after every round of every objective, where ranks take the batches of a round in turns."""
    results = {}
    for name, make in EVERY.items():
        objective = make(NUM_GROUPS)
        results[name] = []
        for batches in rounds_of_all_groups():
            for batch in batches[rank::world_size]:
                losses, groups, characters = tensors(batch)
                objective(losses, as_groups(groups), characters)
            results[name].append(objective.weights)
    return {name: torch.stack(weights) for name, weights in results.items()}


def compare_rows(rank, world_size, num_batches=40):
    """Asserts that rows with a single 1 equal group numbers, where ranks have other batches. Returns the objectives."""
    compared = []
    for name, make in EVERY.items():
        assert_rows_equal_numbers(make, num_batches, seed=rank)
        compared.append(name)
    return compared


def compare_many_rows(rank, world_size):
    return compare_rows(rank, world_size, 10_000)


def weigh_rows(rank, world_size):
    """`weigh_rounds` with rows that have a single 1, and with rows that have shares in two groups."""
    rows = torch.eye(NUM_GROUPS)
    shares = 0.75 * rows + 0.25 * rows.roll(1, 0)
    return {
        kind: weigh_rounds(rank, world_size, as_groups=lambda groups, table=table: table[groups])
        for kind, table in (("one", rows), ("two", shares))
    }


@pytest.fixture(scope="module")
def weights_of_two(both_ranks):
    return both_ranks["weigh_rounds"]


def test_weights_are_equal_on_both_ranks_bit_for_bit(weights_of_two):
    for name in EVERY:
        assert torch.equal(weights_of_two[0][name], weights_of_two[1][name]), name


def test_weights_of_ctc_dro_are_those_of_one_process_that_saw_all_batches(weights_of_two):
    expected = weigh_rounds(0, 1)
    for name in ("ctc_dro", *WITH_CHARACTERS, "ctc_dro_unsmoothed, mean"):
        assert torch.equal(weights_of_two[0][name], expected[name]), name


def test_weights_of_group_dro_are_those_of_one_process_that_saw_both_batches_as_one(weights_of_two):
    together = [
        first + second
        for batches in rounds_of_all_groups()
        for first, second in zip(batches[::2], batches[1::2], strict=True)
    ]
    expected = list(algorithm_1(together, NUM_GROUPS, step_size=1e-3))[1::2]
    torch.testing.assert_close(
        weights_of_two[0]["group_dro"], torch.tensor([weights for weights, _ in expected]), rtol=2e-5, atol=1e-7
    )


def test_rows_of_shares_give_equal_weights_on_both_ranks_and_those_of_group_numbers(both_ranks, weights_of_two):
    ranks = both_ranks["weigh_rows"]
    for name in EVERY:
        assert torch.equal(ranks[0]["one"][name], weights_of_two[0][name]), name
        for kind in ("one", "two"):
            assert torch.equal(ranks[0][kind][name], ranks[1][kind][name]), name
    assert not torch.equal(ranks[0]["two"]["ctc_dro"], ranks[0]["one"]["ctc_dro"])


def test_rows_with_a_single_one_equal_group_numbers_bit_for_bit_on_both_ranks(both_ranks):
    assert both_ranks["compare_rows"] == [list(EVERY), list(EVERY)]


@pytest.mark.slow
def test_rows_with_a_single_one_equal_group_numbers_in_ten_thousand_batches_per_rank(tmp_path):
    ranks = run_in_two_processes(tmp_path, (compare_many_rows,))
    assert ranks["compare_many_rows"] == [list(EVERY), list(EVERY)]


def odd_batches(rank, world_size):
    """On the host, and with the tensor operations for other devices."""
    results = weigh_odd_batches(rank)
    with on_device():
        return results | {f"{name}, device": values for name, values in weigh_odd_batches(rank).items()}


def weigh_odd_batches(rank):
    """Ranks with unequal numbers of utterances, then without a finite loss, then with NaN, then without any loss."""
    objective = ctcdro.ctc_dro(2, step_size=1e-2, smoothing=0.1)
    seen = []
    for losses, groups in [
        ([[3.0, 4.0, 5.0], [9.0]], [[0, 0, 0], [1]]),
        ([[math.inf, math.nan], [7.0]], [[0, 0], [1]]),  # group 0 is still to come
        ([[math.inf, 1.0], [math.nan, 5.0]], [[1, 1], [1, 1]]),
        ([[2.0], []], [[0], []]),
    ]:
        own = torch.tensor(losses[rank], requires_grad=True)
        loss = objective(own, torch.tensor(groups[rank], dtype=torch.int64))
        loss.backward()
        seen.append(torch.cat([loss.detach()[None], objective.weights, objective.pending[1], own.grad.sum()[None]]))
    return {"seen": torch.stack(seen), "skipped": objective.num_skipped}


def test_ranks_may_have_unequal_batches_or_no_finite_loss(both_ranks):
    ranks = both_ranks["odd_batches"]
    for rank in ranks:
        assert rank["skipped"].tolist() == rank["skipped, device"].tolist() == [1, 1]
        torch.testing.assert_close(rank["seen, device"], rank["seen"], equal_nan=True)
    for path in ("seen", "seen, device"):
        assert torch.equal(ranks[0][path][:, 1:5], ranks[1][path][:, 1:5])
    weights = [rank["seen"][:, 1:5] for rank in ranks]
    alone = ctcdro.ctc_dro(2, step_size=1e-2, smoothing=0.1)
    for losses, groups in (
        ([3.0, 4.0, 5.0, 9.0], [0, 0, 0, 1]),
        ([7.0], [1]),
        ([1.0], [1]),
        ([5.0], [1]),
        ([2.0], [0]),
    ):
        alone(torch.tensor(losses), torch.tensor(groups))
    assert torch.equal(weights[0][-1, :2], alone.weights)
    no_finite_loss = ranks[0]["seen"][1]
    assert no_finite_loss[3:5].tolist() == [0, 1]  # only the other rank's batch waits
    is_nan = [rank["seen"][:, 0].isnan().tolist() for rank in ranks]  # where the NaN is, and nowhere else
    assert is_nan == [[False, True, False, False], [False, False, True, False]]


def on_device_and_alone(rank, world_size):
    """The weights with the tensor operations for other devices; and with a process group of this rank alone."""
    alone = [torch.distributed.new_group([other]) for other in range(world_size)][rank]
    results = {"alone": weigh_own(ctcdro.ctc_dro(1, step_size=1e-3, smoothing=0.5, process_group=alone), rank)}
    with on_device():
        return results | {f"device, {name}": weights for name, weights in weigh_rounds(rank, world_size).items()}


def weigh_own(objective, rank):
    """How many losses were not finite, of one on each rank."""
    objective(torch.tensor([math.inf, 2.0 + rank]), torch.tensor([0, 0]))
    return objective.num_skipped


def test_other_devices_and_process_groups(both_ranks, weights_of_two):
    ranks = both_ranks["on_device_and_alone"]
    for rank in ranks:
        assert rank["alone"].tolist() == [1]  # pooled over both ranks it would be 2
        for name in EVERY:
            assert torch.equal(rank[f"device, {name}"], ranks[0][f"device, {name}"])
            torch.testing.assert_close(rank[f"device, {name}"], weights_of_two[0][name], rtol=1e-5, atol=1e-7)


def group_dro_gradient(rank, world_size):
    """The gradient of one parameter under `DistributedDataParallel`, with groups spread unevenly over ranks."""
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1, bias=False))
    torch.nn.init.ones_(model.module.weight)
    objective = ctcdro.group_dro(2, step_size=1e-2)
    losses, groups = ([3.0, 4.0, 5.0], [0, 0, 1]) if rank == 0 else ([9.0], [0])
    loss = objective(model(torch.tensor(losses)[:, None])[:, 0], torch.tensor(groups))
    loss.backward()
    return {"gradient": model.module.weight.grad.flatten(), "loss": loss.detach()}


def test_group_dro_over_ranks_has_the_gradient_of_one_process(both_ranks):
    ranks = both_ranks["group_dro_gradient"]
    objective = ctcdro.group_dro(2, step_size=1e-2)
    weight = torch.ones(1, requires_grad=True)
    loss = objective(weight * torch.tensor([3.0, 4.0, 5.0, 9.0]), torch.tensor([0, 0, 1, 0]))
    loss.backward()
    for rank in ranks:
        torch.testing.assert_close(rank["gradient"], weight.grad)
    torch.testing.assert_close((ranks[0]["loss"] + ranks[1]["loss"]) / 2, loss.detach())


def sampled_batches(rank, world_size):
    sampler = ctcdro.LengthMatchedBatchSampler([5.0] * 60, [0] * 20 + [1] * 40, batch_duration=20.0)
    return {"rank and world size": list(sampler.rank_and_world_size), "batches": list(sampler)}


def test_samplers_ask_torch_distributed_for_rank_and_world_size(both_ranks):
    ranks = both_ranks["sampled_batches"]
    alone = ctcdro.LengthMatchedBatchSampler([5.0] * 60, [0] * 20 + [1] * 40, batch_duration=20.0)
    assert [rank["rank and world size"] for rank in ranks] == [[0, 2], [1, 2]]
    assert [batch for turn in zip(*(rank["batches"] for rank in ranks), strict=True) for batch in turn] == list(alone)


IN_PROCESSES = (
    weigh_rounds,
    weigh_rows,
    compare_rows,
    odd_batches,
    on_device_and_alone,
    group_dro_gradient,
    sampled_batches,
)
