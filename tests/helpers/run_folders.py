"""Folders of finished runs with any error rate, without training."""

import json

import numpy as np
from tones import write_dataset

from ctcdro import Manifest
from ctcdro.runs.config import parse_config
from ctcdro.runs.folder import RunFolder
from ctcdro.scoring.scores import score
from ctcdro.scoring.transcripts import Prediction, write_predictions
from ctcdro.storage.json_files import append_line, write_json


def write_run(path, dataset, objective="erm", seed=0, share_wrong=0.2, profile="plain", split="test", overrides=()):
    """A finished run on a dataset. A share of the letters in its hypotheses is wrong, more in later languages.

    Args:
        overrides: overrides of the configuration, such as "objective.step_size=1e-3".
    """
    values = {"dataset": str(dataset), "seed": seed, "model": {"encoder": "mel-small"}}
    config = parse_config(values, [f"objective.name={objective}", *overrides])
    folder = RunFolder(path)
    folder.model.mkdir(parents=True)
    config.write(folder.config)
    manifest = Manifest.read(dataset / f"{split}.jsonl")
    languages = sorted({one.lang for one in manifest})
    rng = np.random.default_rng([seed, *objective.encode()])
    predictions = [
        Prediction(
            one.id or str(index),
            one.lang,
            one.text,
            one.lang if rng.random() < 0.8 else languages[0],
            _misheard(one.text, share_wrong * (1 + languages.index(one.lang)), rng),
        )
        for index, one in enumerate(manifest)
    ]
    write_evaluation(folder, predictions, profile, split)
    about = {"started": "2026-11-01T10:00:00+0000", "seed": seed, "num_processes": 1, "commit": "0123456789abcdef"}
    about |= {"machine": {"processor": "x86_64", "cores": 2}, "seconds": 90.0, "steps": 3, "versions": {}}
    write_json(folder.run, about)
    for step in (1, 2, 3):
        record = {"step": step, "loss": 1.0, "audio_seconds": 60.0, "seconds": 30.0 * step}
        append_line(folder.log, record)
        even = 1 / len(languages)
        moved = 0.0 if objective == "erm" else 0.1 * even * step
        weights = dict.fromkeys(languages, even) | {languages[0]: even - moved, languages[-1]: even + moved}
        append_line(folder.group_weights, {"step": step, "weights": weights, "losses": dict.fromkeys(languages)})
    append_line(folder.log, {"step": 3, "validation": 1, "dev_loss": 1.0})
    return folder


def write_evaluation(folder, predictions, profile="plain", split="test"):
    """Writes the files of `ctcdro evaluate`."""
    folder.predictions(split).parent.mkdir(exist_ok=True)
    write_predictions(folder.predictions(split), predictions)
    write_json(folder.scores(split), json.loads(json.dumps(score(predictions, profile).to_record())))


def _misheard(text, share, rng):
    return "".join("z" if rng.random() < share else letter for letter in text)


def write_runs(folder):
    """Two seeds of erm and of ctc-dro, which is better, on a dataset of tones."""
    dataset = write_dataset(folder / "tones", num_train=3, num_dev=8)
    for objective, share in (("erm", 0.3), ("ctc-dro", 0.1)):
        for seed in (0, 1):
            write_run(folder / "runs" / f"{objective}-{seed}", dataset, objective, seed, share)
    return folder
