"""Fine-tunes a whole model that was first trained with a frozen encoder.

    .venv/bin/python benchmarks/full_fine_tuning.py CONFIG FROZEN_MODEL OUT --set seed=1 --set objective.name=erm

CONFIG describes the fine-tuning: dataset, encoder and head of the frozen run, without `freeze_encoder`. FROZEN_MODEL
is the folder `model` of the frozen run. Run the same command again to resume.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ctcdro.models.recognizer import load
from ctcdro.runs.config import read_config
from ctcdro.runs.folder import RunFolder
from ctcdro.storage.locks import lock_folder
from ctcdro.training.loop import run_steps
from ctcdro.training.setup import set_up_run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", type=Path, help="configuration of the fine-tuning run")
    parser.add_argument("frozen_model", type=Path, help="folder `model` of the run with a frozen encoder")
    parser.add_argument("out", type=Path, help="folder of the fine-tuning run")
    parser.add_argument("--set", action="append", default=[], help="override a key of the configuration, e.g. seed=1")
    arguments = parser.parse_args()
    with lock_folder(arguments.out):
        run = set_up_run(read_config(arguments.config, arguments.set), RunFolder(arguments.out))
        model, _ = load(arguments.frozen_model)
        run.recognizer.load_state_dict(model.state_dict())
        run_steps(run, _show)


def _show(record: dict[str, Any]) -> None:
    if "cer" in record:
        rates = record["cer"]
        by_language = ", ".join(f"{language} {rate:.1%}" for language, rate in rates.items())
        print(f"dev: worst {max(rates.values()):.1%}, mean {sum(rates.values()) / len(rates):.1%} ({by_language})")


if __name__ == "__main__":
    main()
