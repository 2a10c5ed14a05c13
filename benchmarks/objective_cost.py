"""What does each objective cost in a training step? .venv/bin/python benchmarks/objective_cost.py

Forward and backward pass of the objective, and the next batch of its sampler, per batch of 50 s in six languages. They
are compared with the smallest step of the package: `mel-small` on 6 s of audio, with `F.ctc_loss` and AdamW. CPU time
of one thread, medians over rounds in which the objectives take turns.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np
import torch
import torch.nn.functional as F
from corpora import like_set_1
from measuring import ResultTable

import ctcdro
from ctcdro.models.recognizer import build
from ctcdro.objectives.objective import Objective
from ctcdro.sampling.adaptive import make_sampler
from ctcdro.speech.audio import SAMPLE_RATE

NUM_GROUPS = 6
NUM_ROUNDS = 200
BATCHES_A_ROUND = 12

OBJECTIVES: dict[str, Callable[[], Objective]] = {
    "Baseline (ERM)": lambda: ctcdro.erm(NUM_GROUPS),
    "CTC-DRO": lambda: ctcdro.ctc_dro(NUM_GROUPS, step_size=1e-4, smoothing=0.1),
    "Error-weighted": lambda: ctcdro.error_weighted(NUM_GROUPS),
}


def batches(objective: Objective) -> Iterator[None]:
    """Takes batches of its sampler, and passes their losses through the objective."""
    durations, groups = like_set_1(20_000)
    sampler = make_sampler(durations, groups % NUM_GROUPS, objective, batch_duration=50.0)
    for epoch in range(1000):
        sampler.set_epoch(epoch)
        for batch in sampler:
            indices = torch.tensor(batch)
            losses = torch.full((len(batch),), 60.0, requires_grad=True)
            characters = torch.full((len(batch),), 40)
            taken = {"num_characters": characters} if objective.needs_characters else {}
            objective(losses, torch.from_numpy(groups % NUM_GROUPS)[indices], **taken).backward()
            yield


def seconds_of_objectives() -> dict[str, float]:
    running = {name: batches(make()) for name, make in OBJECTIVES.items()}
    seconds: dict[str, list[float]] = {name: [] for name in running}
    for _ in range(NUM_ROUNDS):
        for name, taken in running.items():
            start = time.process_time()
            for _ in range(BATCHES_A_ROUND):
                next(taken)
            seconds[name].append((time.process_time() - start) / BATCHES_A_ROUND)
    return {name: float(np.median(times)) for name, times in seconds.items()}


def seconds_of_smallest_step() -> float:
    model = build("mel-small", vocabulary_size=40, seed=0)
    optimizer = torch.optim.AdamW(model.parameters())
    audio, lengths = torch.randn(4, int(1.5 * SAMPLE_RATE)), torch.full((4,), int(1.5 * SAMPLE_RATE))
    targets, num_targets = torch.randint(1, 26, (4, 12)), torch.full((4,), 12)
    times = []
    for _ in range(30):
        start = time.process_time()
        output = model(audio, lengths)
        log_probs = output.logits.log_softmax(-1).transpose(0, 1)
        F.ctc_loss(log_probs, targets, output.num_frames, num_targets, reduction="sum").backward()
        optimizer.step()
        optimizer.zero_grad()
        times.append(time.process_time() - start)
    return float(np.median(times))


def main() -> dict[str, ResultTable]:
    torch.set_num_threads(1)
    table = ResultTable("objective", "CPU time per batch", "of the smallest step", "beyond CTC-DRO")
    step, seconds = seconds_of_smallest_step(), seconds_of_objectives()
    for name, taken in seconds.items():
        beyond = 100 * (taken - seconds["CTC-DRO"]) / step
        table.add(name, f"{1e6 * taken:.0f} µs", f"{100 * taken / step:.2f}%", f"{beyond:+.2f}%".replace("-", "−"))
    return {"objective-cost": table}


if __name__ == "__main__":
    main()
