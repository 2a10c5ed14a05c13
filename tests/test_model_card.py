"""A run with a pretrained encoder, from training to a folder for transformers with its card."""

import subprocess
import sys

import pytest

import tiny_encoders
from ctcdro.config import parse_config
from ctcdro.evaluation import evaluate
from ctcdro.model_card import model_card
from ctcdro.training import train
from tones import write_dataset


@pytest.fixture(scope="module")
def run(one_thread, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    values = {
        "dataset": str(write_dataset(folder / "tones", num_train=6, num_dev=2)),
        "model": {
            "encoder": tiny_encoders.write("wav2vec2", folder / "encoder"),
            "head": "linear",
            "lora": {"rank": 2},
        },
        "batches": {"batch_duration": 3.0, "num_workers": 0},
        "optimiser": {"accumulate": 1},
        "training": {"epochs": 1, "batches_per_epoch": 4, "trackers": ["tensorboard"], "precision": "bf16"},
    }
    return train(parse_config(values), folder / "run")


def test_figures_go_to_tensorboard(run):
    assert list(run.tracking.rglob("events.out.tfevents*"))


def test_without_test_data_the_card_says_so(run):
    assert "There are none: the model was not evaluated" in model_card(run)


def test_the_card_tells_data_languages_results_and_limits(run):
    scores = evaluate(run.path, "test")
    card = model_card(run)
    for expected in ("language:\n- aaa\n- bbb", "| dataset | tones |", "| objective | ctc-dro |", "## Limits"):
        assert expected in card
    assert f"| aaa | {100 * scores.languages['aaa'].cer:.1f} |" in card
    assert f"Worst: {scores.worst()[0]}" in card
    assert "Group weights at the end of training: aaa 0." in card


def test_the_exported_folder_is_loaded_by_transformers_alone(run, tmp_path):
    command = [sys.executable, "-m", "ctcdro", "export", str(run.path), str(tmp_path / "exported")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "exported" / "README.md").read_text(encoding="utf-8").startswith("---\nlanguage:")
    from transformers import AutoModelForCTC

    assert type(AutoModelForCTC.from_pretrained(tmp_path / "exported")).__name__ == "Wav2Vec2ForCTC"
    again = subprocess.run(command, capture_output=True, text=True)
    assert again.returncode == 2
    assert "is not empty" in again.stderr
