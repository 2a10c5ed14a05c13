"""examples/accelerate_loop.py, on the corpus that all toolkits are compared on; accelerate is in the main environment.

As a program it is what `torchrun` starts: python test_accelerate.py folder '{"kill_at": 13}'
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
import torch
import toy
from kills import assert_kills_change_nothing
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch.nn.utils import parameters_to_vector
from torch.utils.data import DataLoader

EXAMPLE = Path(__file__).parents[2] / "examples" / "accelerate_loop.py"
GUIDE = Path(__file__).parents[2] / "docs" / "integrations" / "accelerate.md"
sys.path.insert(0, str(EXAMPLE.parent))

import accelerate_loop  # noqa: E402

NUM_EPOCHS = 2
TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]


class Killed(BaseException):
    """An exception that nothing catches."""


class Corpus:
    """Utterances as the example has them; notes which batches are loaded, and kills the run at one of them."""

    def __init__(self, kill_at: int | None = None) -> None:
        self.toy = toy.Toy()
        self.kill_at = kill_at
        self.batches: list[list[int]] = []

    def __getitems__(self, indices: list[int]) -> list[tuple]:
        if len(self.batches) == self.kill_at:
            raise Killed
        self.batches.append(list(indices))
        return [(self.toy[index].frames, self.toy[index].labels, self.toy[index].group) for index in indices]


def run(folder: Path, kill_at: int | None = None, dropout: float = 0.0) -> dict:
    """Trains or resumes; killed where batch number `kill_at`, from 0, would be loaded."""
    corpus, model, criterion = Corpus(kill_at), toy.make_model(dropout=dropout), None
    torch.manual_seed(0)
    with suppress(Killed):
        criterion = accelerate_loop.train(corpus, corpus.toy.durations, corpus.toy.groups, model, folder, NUM_EPOCHS)
    return {
        "batches": corpus.batches,
        "weights": criterion.weights if criterion else None,
        "parameters": parameters_to_vector(model.parameters()).detach(),
    }


def logged(folder: Path) -> torch.Tensor:
    """(epochs, G): the weights that TensorBoard shows."""
    events = EventAccumulator(str(folder / "log")).Reload()
    return torch.tensor([[scalar.value for scalar in events.Scalars(name)] for name in toy.LANGUAGES]).T


def all_batches() -> list[list[int]]:
    sampler = toy.Toy().sampler()
    batches = []
    for epoch in range(NUM_EPOCHS):
        sampler.set_epoch(epoch)
        batches += list(sampler)
    return batches


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> dict:
    """A run that was not stopped."""
    folder = tmp_path_factory.mktemp("whole")
    return {**run(folder), "logged": logged(folder)}


def test_weights_are_those_of_the_plain_loop(whole):
    plain = toy.plain_loop(NUM_EPOCHS)
    torch.testing.assert_close(whole["weights"], plain[-1])
    torch.testing.assert_close(whole["logged"], plain[len(plain) // NUM_EPOCHS - 1 :: len(plain) // NUM_EPOCHS])
    assert whole["batches"] == all_batches()


@pytest.mark.parametrize("epoch", range(NUM_EPOCHS))
def test_a_run_with_dropout_that_is_killed_in_an_epoch_resumes_exactly(tmp_path, epoch):
    whole = run(tmp_path / "whole", dropout=0.2)
    num_done = epoch * len(whole["batches"]) // NUM_EPOCHS
    saved = num_done + accelerate_loop.SAVE_EVERY
    run(tmp_path / "killed", kill_at=saved + 3, dropout=0.2)
    resumed = run(tmp_path / "killed", dropout=0.2)
    assert resumed["batches"] == whole["batches"][saved:]  # none lost, none twice, and nothing else is loaded
    assert torch.equal(resumed["weights"], whole["weights"])
    assert torch.equal(resumed["parameters"], whole["parameters"])


def test_error_weighted_training_is_that_of_the_plain_loop_and_resumes_exactly(tmp_path, monkeypatch):
    toy.use_error_weighted(monkeypatch, accelerate_loop)
    whole = run(tmp_path / "whole")
    batches, weights = toy.adaptive_loop(toy.make_error_weighted(), NUM_EPOCHS)
    assert whole["batches"] == batches
    torch.testing.assert_close(whole["weights"], weights[-1])
    run(tmp_path / "killed", kill_at=len(batches) // NUM_EPOCHS + 13)
    resumed = run(tmp_path / "killed")
    assert resumed["batches"] == batches[len(batches) // NUM_EPOCHS + 10 :]
    assert torch.equal(resumed["parameters"], whole["parameters"])


def launch(folder: Path, **options) -> list[dict]:
    """What each of two processes noted."""
    done = subprocess.run(
        [sys.executable, *TORCHRUN, __file__, folder, json.dumps(options)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return [torch.load(folder / f"rank-{rank}.pt") for rank in (0, 1)]


def main(folder: Path, options: str) -> None:
    noted = run(folder, **json.loads(options))
    torch.save(noted, folder / f"rank-{os.environ['RANK']}.pt")
    if torch.distributed.is_initialized():  # `end_training` ends it, but not of a run that was killed
        torch.distributed.destroy_process_group()


def test_two_processes_share_the_batches_hold_the_same_weights_and_resume(tmp_path):
    whole = launch(tmp_path / "whole")
    assert torch.equal(whole[0]["weights"], whole[1]["weights"])
    assert torch.equal(whole[0]["parameters"], whole[1]["parameters"])
    torch.testing.assert_close(whole[0]["weights"], toy.loop_of_two(NUM_EPOCHS)[-1], rtol=1e-4, atol=1e-5)
    in_turns = [batch for turn in zip(whole[0]["batches"], whole[1]["batches"], strict=True) for batch in turn]
    half = len(all_batches()) // 2
    filled = half + half % 2
    assert in_turns[:half] == all_batches()[:half]
    assert in_turns[filled : filled + half] == all_batches()[half:]

    launch(tmp_path / "two", kill_at=13)
    shutil.copytree(tmp_path / "two", tmp_path / "one")
    resumed = launch(tmp_path / "two")
    for rank in (0, 1):
        assert resumed[rank]["batches"] == whole[rank]["batches"][accelerate_loop.SAVE_EVERY :]
        assert torch.equal(resumed[rank]["weights"], whole[rank]["weights"])
        assert torch.equal(resumed[rank]["parameters"], whole[rank]["parameters"])
    assert run(tmp_path / "one")["batches"] == all_batches()[2 * accelerate_loop.SAVE_EVERY :]  # one in their stead


def test_position_of_the_guide_does_not_count_what_workers_request():
    names = {}
    [position] = re.findall(r"^```python\n(.*?)^```$", GUIDE.read_text(), flags=re.DOTALL | re.MULTILINE)
    exec(position, names)
    sampler, corpus = toy.Toy().sampler(), Corpus()
    position = names["Position"](sampler)
    batches = iter(DataLoader(corpus, batch_sampler=sampler, collate_fn=accelerate_loop.collate, num_workers=2))
    for position.num_taken in (1, 2, 3):
        next(batches)
    assert sampler.state_dict()["position"] > position.state_dict()["position"] == 3
    state = position.state_dict()
    position.load_state_dict(state)
    assert list(sampler) == all_batches()[3 : len(sampler)]


@pytest.mark.parametrize("launcher", [[], TORCHRUN], ids=["one process", "two"])
def test_example_runs(tmp_path, launcher):
    done = subprocess.run([sys.executable, *launcher, EXAMPLE, tmp_path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len(set(re.findall(r"tensor\(.*?\)", done.stdout))) == 1  # the same weights in all processes


@pytest.mark.faults
def test_killed_at_random_moments_a_run_ends_with_the_same_bytes(tmp_path):
    assert_kills_change_nothing(Path(__file__).with_name("killed_accelerate.py"), tmp_path, num_kills=20)


def test_example_changes_less_than_ten_lines():
    changed = [line for line in EXAMPLE.read_text().splitlines() if "  # ctcdro" in line]
    assert 0 < len(changed) < 10


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
