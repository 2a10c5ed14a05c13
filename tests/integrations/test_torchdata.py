"""examples/resumable_loop.py: a plain loop with the StatefulDataLoader of torchdata, in the main environment."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
import torch
import toy
from torch.nn.utils import parameters_to_vector

EXAMPLE = Path(__file__).parents[2] / "examples" / "resumable_loop.py"
sys.path.insert(0, str(EXAMPLE.parent))

import resumable_loop  # noqa: E402

NUM_EPOCHS = 2
NUM_BATCHES = len(toy.Toy().sampler())


class KilledError(Exception):
    """A stop that the loop does not expect."""


class Dying(torch.nn.Module):
    """The model with dropout; it stops the run at batch number `kill_at`, from 0, and counts its batches."""

    def __init__(self, kill_at: int | None) -> None:
        super().__init__()
        self.layers, self.kill_at, self.num_batches = toy.make_model(dropout=0.2), kill_at, 0

    def forward(self, frames: torch.Tensor) -> torch.Tensor:
        if self.num_batches == self.kill_at:
            raise KilledError
        self.num_batches += 1
        return self.layers(frames)


def run(folder: Path, num_workers: int, kill_at: int | None = None) -> tuple[torch.Tensor, torch.Tensor | None, int]:
    """Trains or resumes; returns parameters, group weights if it came to its end, and the number of its batches."""
    corpus, model, criterion = toy.Toy(), Dying(kill_at), None
    items = [(one.frames, one.labels, one.group) for one in corpus.utterances]
    torch.manual_seed(0)
    folder.mkdir(exist_ok=True)
    with suppress(KilledError):
        criterion = resumable_loop.train(
            items, corpus.durations, corpus.groups, model, folder, NUM_EPOCHS, num_workers=num_workers
        )
    parameters = parameters_to_vector(model.parameters()).detach()
    return parameters, None if criterion is None else criterion.weights, model.num_batches


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """An uninterrupted run."""
    return run(tmp_path_factory.mktemp("whole"), num_workers=2)


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("epoch", range(NUM_EPOCHS))
def test_a_run_with_dropout_that_is_killed_in_an_epoch_resumes_exactly(tmp_path, whole, epoch, num_workers):
    saved = epoch * NUM_BATCHES + resumable_loop.SAVE_EVERY
    run(tmp_path, num_workers, kill_at=saved + 3)
    parameters, weights, num_batches = run(tmp_path, num_workers)
    assert num_batches == NUM_EPOCHS * NUM_BATCHES - saved
    assert torch.equal(weights, whole[1])
    assert torch.equal(parameters, whole[0])


def test_a_run_saved_at_the_end_of_an_epoch_resumes_with_the_next(tmp_path, whole, monkeypatch):
    monkeypatch.setattr(resumable_loop, "SAVE_EVERY", NUM_BATCHES)
    run(tmp_path, num_workers=2, kill_at=NUM_BATCHES + 3)
    parameters, weights, num_batches = run(tmp_path, num_workers=2)
    assert num_batches == NUM_BATCHES
    assert torch.equal(weights, whole[1])
    assert torch.equal(parameters, whole[0])


@pytest.mark.parametrize("num_workers", [0, 2])
def test_error_weighted_training_resumes_exactly_in_the_middle_of_a_round(tmp_path, monkeypatch, num_workers):
    toy.use_error_weighted(monkeypatch, resumable_loop)
    whole = run(tmp_path / "whole", num_workers)
    run(tmp_path / "killed", num_workers, kill_at=NUM_BATCHES + 13)
    resumed = run(tmp_path / "killed", num_workers)
    assert resumed[2] == NUM_BATCHES - 10
    assert torch.equal(resumed[1], whole[1])
    assert torch.equal(resumed[0], whole[0])


def test_example_runs_and_resumes(tmp_path):
    for num_epochs in (4, 0):  # it is done, so nothing is left
        done = subprocess.run([sys.executable, EXAMPLE, tmp_path], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("noisy") in (num_epochs, num_epochs + 1)  # the rest of the last epoch is done again
