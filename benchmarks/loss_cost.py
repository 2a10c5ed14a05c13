"""What does the robust loss cost over plain CTC? .venv/bin/python benchmarks/loss_cost.py

Forward and backward pass of `CTCDROLoss` and of `torch.nn.functional.ctc_loss`, alternating batch by batch. Times are
summed over rounds of six batches, one per group, in which the weights are updated once. The ratio is the median of the
ratios of all rounds, with a 95% bootstrap interval.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from measuring import ResultTable, shown

import ctcdro
from ctcdro import ObjectiveCTCLoss
from ctcdro.objectives.objective import Objective

NUM_GROUPS = 6

# Batches of 50 s, as in the paper: utterances, seconds per utterance, frames and labels per second, vocabulary size.
SHAPES = {
    "10 × 5 s, 50 Hz, 60 labels": (10, 5.0, 50, 10, 60),
    "10 × 5 s, 50 Hz, 1,000 labels": (10, 5.0, 50, 10, 1000),
    "10 × 5 s, 25 Hz, 60 labels": (10, 5.0, 25, 10, 60),
    "10 × 5 s, 25 Hz, 1,000 labels": (10, 5.0, 25, 10, 1000),
    "4 × 12.5 s, 50 Hz, 60 labels": (4, 12.5, 50, 10, 60),
    "4 × 12.5 s, 50 Hz, 1,000 labels": (4, 12.5, 50, 10, 1000),
    "20 × 2.5 s, 50 Hz, 60 labels": (20, 2.5, 50, 10, 60),
    "20 × 2.5 s, 50 Hz, 1,000 labels": (20, 2.5, 50, 10, 1000),
}


def ctc_dro_of_paper(num_groups: int) -> Objective:
    return ctcdro.ctc_dro(num_groups, step_size=1e-4, smoothing=0.1)


def make_steps(
    num_utterances: int,
    seconds: float,
    frame_rate: int,
    label_rate: int,
    num_labels: int,
    make_objective: Callable[[int], Objective] = ctc_dro_of_paper,
    device: torch.device | str = "cpu",
) -> tuple[Callable[[int], None], Callable[[int], None]]:
    """Two functions that take a step with plain CTC and with the robust loss, on the same batch of a given group."""
    num_frames, num_targets = int(seconds * frame_rate), int(seconds * label_rate)
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(num_frames, num_utterances, num_labels, generator=generator)
    log_probs = logits.log_softmax(-1).to(device).requires_grad_()
    targets = torch.randint(1, num_labels, (num_utterances, num_targets), generator=generator).to(device)
    lengths = torch.full((num_utterances,), num_frames), torch.full((num_utterances,), num_targets)
    groups = [torch.full((num_utterances,), group, device=device) for group in range(NUM_GROUPS)]
    criterion = ObjectiveCTCLoss(make_objective(NUM_GROUPS)).to(device)

    def plain(group: int) -> None:
        F.ctc_loss(log_probs, targets, *lengths, reduction="sum", zero_infinity=True).backward()
        log_probs.grad = None

    def robust(group: int) -> None:
        criterion(log_probs, targets, *lengths, groups[group]).backward()
        log_probs.grad = None

    return plain, robust


def measure(shape: tuple[int, float, int, int, int], num_rounds: int) -> npt.NDArray[np.float64]:
    """(rounds, 2) seconds of six batches, with plain CTC and with the robust loss."""
    steps = make_steps(*shape)
    seconds = np.zeros((num_rounds, 2))
    for number in range(-2, num_rounds):  # the first two to warm up
        for group in range(NUM_GROUPS):
            for which in (0, 1) if (number + group) % 2 else (1, 0):
                start = time.perf_counter()
                steps[which](group)
                seconds[max(number, 0), which] += (time.perf_counter() - start) * (number >= 0)
    return seconds


def main(num_rounds: int = 300) -> dict[str, ResultTable]:
    table = ResultTable("batch", "`F.ctc_loss` alone (ms per batch)", "time relative to `F.ctc_loss`")
    for name, shape in SHAPES.items():
        seconds = measure(shape, num_rounds)
        plain = np.median(seconds[:, 0]) / NUM_GROUPS
        table.add(name, f"{1e3 * plain:.1f}", shown(seconds[:, 1] / seconds[:, 0], digits=3))
    return {"loss-cost": table}


if __name__ == "__main__":
    main()
