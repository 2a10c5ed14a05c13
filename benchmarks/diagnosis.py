"""Are the verdicts of the diagnosis right? .venv/bin/python benchmarks/diagnosis.py DATASET --out DIR

Trains `mel-small` on DATASET in four situations, of which the right verdict is known, and prints the verdicts. Run it
again to resume.

    normal       the data as they are
    few data     a language has a tenth of its training utterances
    shuffled     a fifth of the transcripts of a language belong to other utterances of it
    short        60 batches instead of 1,500

Other utterances that are listed as suspicious are false alarms.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from dataset_variants import write_variant
from measuring import ResultTable

from ctcdro import Manifest
from ctcdro.runs.config import Config, parse_config
from ctcdro.runs.folder import RunFolder
from ctcdro.scoring.diagnosis import read_diagnosis
from ctcdro.scoring.formatting import format_percent
from ctcdro.scoring.verdicts import VERDICTS
from ctcdro.speech.language_names import language_name
from ctcdro.storage.json_files import read_log
from ctcdro.training.loop import train
from ctcdro.training.training_sample import sample_indices

# The language and the variant of the dataset; without a language, nothing changes.
SITUATIONS = {"normal": ("", "few"), "few data": ("deu", "few"), "shuffled": ("ces", "shuffled"), "short": ("", "few")}


def make_config(dataset: Path, num_batches: int) -> Config:
    return parse_config(
        {
            "dataset": dataset,
            "model": {"encoder": "mel-small"},
            "objective": {"name": "ctc-dro", "step_size": 1e-3, "smoothing": 0.5},
            "data": {"num_workers": 0},
            "sampling": {"batch_duration": 12.0},
            "optimizer": {
                **{"name": "adamw", "learning_rate": 4e-3, "betas": (0.9, 0.98), "weight_decay": 1e-2},
                **{"max_grad_norm": None, "batches_per_step": 1, "lr_schedule": "cosine", "warmup_fraction": 0.1},
            },
            "training": {"num_batches": num_batches, "validate_every_batches": 500, "trackers": []},
        }
    )


def count_found(dataset: Path, variant: Path, run: RunFolder, language: str) -> tuple[str, str]:
    """The shuffled transcripts in the sample that are listed as suspicious, and the number of false alarms."""
    true_texts = {one.id: one.text for one in Manifest.read(dataset / "train.jsonl")}
    train_data, dev = (Manifest.read(variant / f"{split}.jsonl") for split in ("train", "dev"))
    sample = train_data.select(sample_indices(train_data, dev))
    wrong = {one.id for one in sample if one.lang == language and one.text != true_texts[one.id]}
    listed = {record["id"] for record in read_log(run.suspicious) if record["lang"] == language}
    return f"{len(listed & wrong)} of {len(wrong)}" if wrong else "", f"{len(listed - wrong)}"


def main(dataset: Path, out: Path) -> dict[str, ResultTable]:
    columns = ["situation", "language", "training CER", "dev CER", "shuffled texts found", "false alarms", "verdict"]
    table = ResultTable(*columns)
    for name, (language, kind_of_change) in SITUATIONS.items():
        variant, run = (out / kind / name.replace(" ", "-") for kind in ("data", "runs"))
        if not RunFolder(run).is_finished:
            write_variant(dataset, variant, {language}, kind_of_change)
            train(make_config(variant, 60 if name == "short" else 1500), run)
        diagnosis = read_diagnosis(RunFolder(run).diagnosis)
        assert diagnosis is not None
        for one in diagnosis.by_dev_cer:
            own = diagnosis.languages[one]
            table.add(
                name + (" (this language)" if one == language else ""),
                language_name(one, with_code=False),
                f"{format_percent(own.train_cer)}%",
                f"{format_percent(own.dev_cer)}%",
                *count_found(dataset, variant, RunFolder(run), one),
                ", ".join(VERDICTS[verdict].title for verdict in own.verdicts),
            )
    return {"diagnosis": table}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", type=Path)
    parser.add_argument("--out", type=Path, required=True, help="folder for the changed data and the runs")
    arguments = parser.parse_args()
    main(arguments.dataset, arguments.out)
