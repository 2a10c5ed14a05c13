"""What does the robust loss cost over plain CTC? .venv/bin/python benchmarks/loss_cost.py

Forward and backward of `CTCDROLoss` and of `torch.nn.functional.ctc_loss`, in turns. A turn is a round of six batches,
one of each group, in which the weights are updated once. The ratio is the median of the ratios of neighbouring turns,
which see the same state of the machine, with a 95 % interval by bootstrap.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F

from ctcdro import CTCDROLoss

NUM_GROUPS = 6

# Batches of 50 s, as in the paper: utterances, seconds of each, frames a second, labels a second, size of the output.
SHAPES = {
    "10 x 5 s, 50 Hz, 60 labels": (10, 5.0, 50, 10, 60),
    "10 x 5 s, 50 Hz, 1,000 labels": (10, 5.0, 50, 10, 1000),
    "10 x 5 s, 25 Hz, 60 labels": (10, 5.0, 25, 10, 60),
    "10 x 5 s, 25 Hz, 1,000 labels": (10, 5.0, 25, 10, 1000),
    "4 x 12.5 s, 50 Hz, 60 labels": (4, 12.5, 50, 10, 60),
    "4 x 12.5 s, 50 Hz, 1,000 labels": (4, 12.5, 50, 10, 1000),
    "20 x 2.5 s, 50 Hz, 60 labels": (20, 2.5, 50, 10, 60),
    "20 x 2.5 s, 50 Hz, 1,000 labels": (20, 2.5, 50, 10, 1000),
}


def make_rounds(
    num_utterances: int, seconds: float, frame_rate: int, label_rate: int, num_labels: int
) -> tuple[Callable[[], None], Callable[[], None]]:
    """Functions that go through a round each, with plain CTC and with the robust loss, of the same batches."""
    num_frames, num_targets = int(seconds * frame_rate), int(seconds * label_rate)
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(num_frames, num_utterances, num_labels, generator=generator)
    log_probs = logits.log_softmax(-1).requires_grad_()
    targets = torch.randint(1, num_labels, (num_utterances, num_targets), generator=generator)
    lengths = torch.full((num_utterances,), num_frames), torch.full((num_utterances,), num_targets)
    groups = [torch.full((num_utterances,), group) for group in range(NUM_GROUPS)]
    criterion = CTCDROLoss(NUM_GROUPS, step_size=1e-4, smoothing=0.1)

    def plain() -> None:
        for _ in groups:
            F.ctc_loss(log_probs, targets, *lengths, reduction="sum", zero_infinity=True).backward()
            log_probs.grad = None

    def robust() -> None:
        for group in groups:
            criterion(log_probs, targets, *lengths, group).backward()
            log_probs.grad = None

    return plain, robust


def measure(shape: tuple[int, float, int, int, int], num_pairs: int) -> dict[str, float]:
    rounds = make_rounds(*shape)
    seconds = np.empty((num_pairs, 2))
    for pair in range(-2, num_pairs):  # the first two to warm up
        for which in (0, 1) if pair % 2 else (1, 0):
            start = time.perf_counter()
            rounds[which]()
            seconds[pair, which] = time.perf_counter() - start
    ratios = seconds[:, 1] / seconds[:, 0]
    resampled = np.random.default_rng(0).choice(ratios, (2000, num_pairs))
    low, high = np.quantile(np.median(resampled, axis=1), [0.025, 0.975])
    return {
        "plain_ms": float(np.median(seconds[:, 0]) / NUM_GROUPS * 1e3),
        "ratio": float(np.median(ratios)),
        "low": float(low),
        "high": float(high),
    }


def main(num_pairs: int = 150) -> str:
    lines = [
        "| batch | CTC alone, a batch | robust over CTC | 95 % interval |",
        "|---|---|---|---|",
    ]
    for name, shape in SHAPES.items():
        result = measure(shape, num_pairs)
        lines.append("| {} | {plain_ms:.1f} ms | {ratio:.3f} | {low:.3f} to {high:.3f} |".format(name, **result))
        print(lines[-1], flush=True)
    return "\n".join(lines)


if __name__ == "__main__":
    main()
