"""Training with utterances in two languages: weights, logs, predictions and scores."""

import json

import pytest
from tones import write_dataset

from ctcdro.decoding.evaluate import evaluate
from ctcdro.runs.config import parse_config
from ctcdro.scoring.transcripts import read_predictions
from ctcdro.storage.json_files import read_log
from ctcdro.training.loop import train

pytestmark = pytest.mark.usefixtures("one_thread")

SHARES = {"aaa": 0.75, "bbb": 0.25}


def mix(path):
    """Gives every second utterance of the first language a share of the second."""
    records = [json.loads(line) for line in path.read_text().splitlines()]
    for record in records[::2]:
        record["lang"] = SHARES if record["lang"] == "aaa" else record["lang"]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


def test_utterances_in_two_languages_are_trained_and_scored(tmp_path):
    dataset = write_dataset(tmp_path / "tones")
    for split in ("train", "dev", "test"):
        mix(dataset / f"{split}.jsonl")
    values = {
        "dataset": str(dataset),
        "model": {"encoder": "mel-small", "head": "linear"},
        "objective": {"step_size": 1e-2, "smoothing": 0.5},
        "data": {"num_workers": 0},
        "sampling": {"batch_duration": 4.0},
        "training": {"num_batches": 8, "validate_every_batches": 8, "trackers": []},
    }
    folder = train(parse_config(values, ["optimizer.batches_per_step=2"]), tmp_path / "run")
    steps = list(read_log(folder.group_weights))
    assert steps[-1]["weights"]["aaa"] != 0.5
    assert all(sum(step["weights"].values()) == pytest.approx(1, abs=1e-6) for step in steps)
    numbers = {name: [step["num_utterances"].get(name, 0) for step in steps] for name in ("aaa", "bbb")}
    assert any(number % 1 for number in numbers["bbb"])  # a share of an utterance
    assert all(sum(pair) % 1 == pytest.approx(0, abs=0.01) for pair in zip(*numbers.values(), strict=True))
    evaluate(folder.path, "test", device="cpu")
    predictions = read_predictions(folder.predictions("test"))
    assert [dict(one.languages) for one in predictions[:2]] == [SHARES, {"aaa": 1.0}]
    scores = json.loads(folder.scores("test").read_text())
    assert scores["languages"]["bbb"]["num_utterances"] == 4 + 2
    assert scores["num_utterances"] == 8
