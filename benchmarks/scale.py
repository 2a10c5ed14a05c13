"""How does CTC-DRO behave with thousands of groups and many ranks? .venv/bin/python benchmarks/scale.py

Losses are random numbers, not trained: the loss of a batch is lognormal around the level of its group, with a spread of
15%, and the levels of groups are lognormal around 400 nats (a batch of 50 s), with a spread of 20%. Everything else is
the package's code: the order of batches, the pooling over ranks, the update. "Share" is a weight relative to the
uniform weight, 1/|G|.
"""

from __future__ import annotations

import os
import tempfile
import time
from functools import partial

import numpy as np
import torch
import torch.distributed
from measuring import ResultTable
from torch.multiprocessing.spawn import spawn

from ctcdro import ctc_dro
from ctcdro.objectives.pending_losses import add_losses
from ctcdro.objectives.signals import loss_per_second
from ctcdro.objectives.weights import smoothed_rule
from ctcdro.sampling.samplers import order

NUM_GROUPS = (6, 18, 100, 1000, 2000)
NUM_RANKS = (1, 8, 64)
EPOCH = 1200  # batches, as in the paper
LEVEL, LEVEL_SPREAD, BATCH_SPREAD = 400.0, 0.2, 0.15


def main() -> dict[str, ResultTable]:
    return {
        "many-languages-updates": count_all_updates(),
        "many-languages-weights": simulate_weights(),
        "many-languages-cost": measure_cost(),
    }


def groups_of_batches(num_groups: int, num_batches: int, sizes: str, seed: int = 0) -> np.ndarray:
    """The group of each batch: in rounds (`even`), in shares by Zipf's law (`zipf`), or at random (`random`)."""
    rng = np.random.default_rng(seed)
    if sizes == "random":
        return rng.integers(num_groups, size=num_batches)
    shares = 1 / np.arange(1, num_groups + 1) if sizes == "zipf" else np.ones(num_groups)
    an_epoch = max(EPOCH, num_groups)
    of_group = np.maximum(1, np.rint(an_epoch * shares / shares.sum())).astype(int)
    owner = np.repeat(np.arange(num_groups), of_group)
    epochs = [owner[order(of_group, rng)] for _ in range(-(-num_batches // len(owner)))]
    return np.concatenate(epochs)[:num_batches]


class Simulation:
    """The weights of CTC-DRO over the steps of any number of ranks, each with one batch of one group."""

    def __init__(self, num_groups: int, step_size: float, smoothing: float) -> None:
        self.log_weights = torch.full((num_groups,), -np.log(num_groups), dtype=torch.float32)
        self.pending = torch.zeros(3, num_groups)
        self.num_skipped = torch.zeros(num_groups, dtype=torch.int64)
        self.rule = partial(smoothed_rule, step_size=step_size, smoothing=smoothing)
        self.num_updates = 0

    def step(self, losses: np.ndarray, groups: np.ndarray) -> None:
        for loss, group in zip(torch.tensor(losses, dtype=torch.float32), torch.tensor(groups), strict=True):
            add_losses(self.pending, self.num_skipped, loss[None], group[None], by_batch=True)
        if self.pending[1].all():
            self.log_weights = self.rule(self.log_weights, loss_per_second(self.pending))
            self.pending.zero_()
            self.num_updates += 1


def count_all_updates() -> ResultTable:
    """Counts updates, without computing the weights."""
    shapes = {
        **{f"{ranks} rank{'' if ranks == 1 else 's'}": ("even", ranks) for ranks in NUM_RANKS},
        "1 rank, shares by Zipf's law": ("zipf", 1),
        "1 rank, groups drawn at random": ("random", 1),
    }
    table = ResultTable("groups", *shapes)
    for num_groups in NUM_GROUPS:
        counts = [
            _count_updates(groups_of_batches(num_groups, 40 * EPOCH, sizes), num_groups, num_ranks)
            for sizes, num_ranks in shapes.values()
        ]
        table.add(f"{num_groups:,}", *(f"{count:,}" for count in counts))
    return table


def _count_updates(groups: np.ndarray, num_groups: int, num_ranks: int) -> int:
    num_updates, seen = 0, set()
    for start in range(0, len(groups), num_ranks):
        seen.update(groups[start : start + num_ranks].tolist())
        if len(seen) == num_groups:
            num_updates, seen = num_updates + 1, set()
    return num_updates


def simulate_weights() -> ResultTable:
    table = ResultTable(
        "groups",
        "step size",
        "smoothing",
        "largest weight relative to equal weights",
        "groups below a tenth of the equal weight",
        "correlation of weight and loss",
    )
    for num_groups in NUM_GROUPS:
        for is_scaled in (False, True) if num_groups > 6 else (False,):
            factor = 6 / num_groups if is_scaled else 1.0
            shares, levels = _shares_over_time(num_groups, 1e-4 * factor, 0.5 * factor)
            scaled = f" × 6/{num_groups:,}" if is_scaled else ""
            last = shares[-1]
            table.add(
                f"{num_groups:,}",
                f"1e-4{scaled}",
                f"0.5{scaled}",
                f"{last.max():.2g}",
                f"{(last < 0.1).mean():.0%}",
                f"{np.corrcoef(levels, last)[0, 1]:.2f}",
            )
    return table


def _shares_over_time(num_groups: int, step_size: float, smoothing: float) -> tuple[np.ndarray, np.ndarray]:
    """(updates, G) weights times |G| after each update; and (G,) the level of each group's losses."""
    rng = np.random.default_rng(1)
    levels = LEVEL * rng.lognormal(0, LEVEL_SPREAD, num_groups)
    simulation = Simulation(num_groups, step_size, smoothing)
    shares = []
    for group in groups_of_batches(num_groups, 40 * EPOCH, "even"):
        loss = levels[group] * rng.lognormal(0, BATCH_SPREAD)
        before = simulation.num_updates
        simulation.step(np.array([loss]), np.array([group]))
        if simulation.num_updates > before:
            shares.append(num_groups * simulation.log_weights.exp().numpy())
    return np.stack(shares), levels


def measure_cost() -> ResultTable:
    table = ResultTable(
        "groups", "time per call (ms)", "bytes per exchange", "gloo, 2 ranks (ms)", "gloo, 8 ranks (ms)"
    )
    for num_groups in NUM_GROUPS:
        pooled = [f"{1e3 * _seconds_to_pool(num_groups, ranks):.2f}" for ranks in (2, 8)]
        call = f"{1e3 * _seconds_a_call(num_groups):.2f}"
        table.add(f"{num_groups:,}", call, f"{3 * 4 * num_groups:,}", *pooled)
    return table


def _seconds_a_call(num_groups: int, num_calls: int = 300) -> float:
    objective = ctc_dro(num_groups, step_size=1e-4, smoothing=0.5)
    losses = torch.full((8,), 50.0)
    groups = [torch.full((8,), number % num_groups) for number in range(num_calls)]
    seconds = []
    for own in groups:
        started = time.perf_counter()
        objective(losses, own)
        seconds.append(time.perf_counter() - started)
    return float(np.median(seconds))


def _seconds_to_pool(num_groups: int, num_ranks: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        place = os.path.join(folder, "seconds")
        spawn(_pool, (num_ranks, num_groups, place), nprocs=num_ranks)
        return float(np.load(place + ".npy"))


def _pool(rank: int, num_ranks: int, num_groups: int, place: str, num_times: int = 200) -> None:
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", f"file://{place}.store", rank=rank, world_size=num_ranks)
    totals = torch.zeros(3, num_groups)
    seconds = []
    for _ in range(num_times):
        started = time.perf_counter()
        torch.distributed.all_reduce(totals)
        seconds.append(time.perf_counter() - started)
    if rank == 0:
        np.save(place, np.median(seconds))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
