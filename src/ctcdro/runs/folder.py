"""The files of a run.

config.yaml                 complete configuration, with all defaults
run.json                    versions, commit, seed, machine, training time
log.jsonl                   one line per step or validation: losses, learning rate, throughput
group_weights.jsonl         one line per step: weight, mean loss and amount of data of each group
vocab.json                  labels
checkpoints/                state for a restart
diagnosis.json              training and development error of each language, and what limits it
before_after.json           CER of each language before and after training, if the run started from another model
budget.json                 CER of each language compared with the baseline of a guard, if there is one
suspicious_utterances.jsonl   training utterances whose transcripts may be wrong
model/                      the selected model; it exists once the run is finished
predictions/<split>.jsonl   scores/<split>.json
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

from ..runtime.environment import installed_versions
from ..storage.atomic import atomic_write
from ..storage.json_files import json_line, read_json, read_log
from ..storage.paths import PathLike

PACKAGES = ("ctcdro", "torch", "numpy", "transformers", "accelerate", "peft", "soundfile", "soxr")


class RunFolder:
    def __init__(self, path: PathLike) -> None:
        self.path = Path(path)
        self.config = self.path / "config.yaml"
        self.run = self.path / "run.json"
        self.log = self.path / "log.jsonl"
        self.group_weights = self.path / "group_weights.jsonl"
        self.vocabulary = self.path / "vocab.json"
        self.checkpoints = self.path / "checkpoints"
        self.best = self.path / "best"
        self.model = self.path / "model"
        self.tracking = self.path / "tracking"
        self.diagnosis = self.path / "diagnosis.json"
        self.before_after = self.path / "before_after.json"
        self.budget = self.path / "budget.json"
        self.suspicious = self.path / "suspicious_utterances.jsonl"

    def predictions(self, split: str) -> Path:
        return self.path / "predictions" / f"{split}.jsonl"

    def scores(self, split: str) -> Path:
        return self.path / "scores" / f"{split}.json"

    @property
    def is_finished(self) -> bool:
        return self.model.exists()

    def require_model(self) -> Path:
        if not self.is_finished and not self.config.exists():
            raise ValueError(
                f"{self.path}: not the folder of a run: no config.yaml in it. Specify a folder that `ctcdro train` "
                "wrote; those of a sweep are in its folder runs/."
            )
        if not self.is_finished:
            raise ValueError(f"{self.path}: the run has no model yet. Resume it with the command that started it.")
        return self.model


def find_model(path: PathLike) -> Path:
    """The model of a run; or the folder itself, if it is not a run."""
    folder = RunFolder(path)
    if folder.config.exists() or folder.is_finished:
        return folder.require_model()
    if folder.path.is_dir() and not (folder.path / "config.json").exists():
        raise ValueError(f"{path} is neither a run nor a model: no config.yaml or config.json in it. Specify a run.")
    return folder.path


class ResultName(NamedTuple):
    """The file name of predictions and scores, such as `test`, `test-beam` or `test-of-fleurs-beam`."""

    split: str
    dataset: str | None = None
    """Name of the dataset, if it is not that of the run."""
    is_beam: bool = False

    def __str__(self) -> str:
        return f"{self.split}{f'-of-{self.dataset}' if self.dataset else ''}{'-beam' if self.is_beam else ''}"

    @classmethod
    def parse(cls, name: str) -> ResultName:
        split, _, dataset = name.removesuffix("-beam").partition("-of-")
        return cls(split, dataset or None, name.endswith("-beam"))


def read_about(folder: RunFolder) -> dict[str, Any]:
    """The content of run.json; empty if there is no such file."""
    about = read_json(folder.run) if folder.run.is_file() else {}
    figures = [about.get(name) for name in ("seconds", "steps")] if isinstance(about, dict) else [about]
    if not all(figure is None or is_number(figure) for figure in figures):
        raise ValueError(f"{folder.run}: expected what `ctcdro train` writes; got {figures!r:.60}. Fix or remove it.")
    return about


def is_number(value: Any) -> bool:
    """Whether a value of a JSON file is a finite number, not too large to compute with."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e15


def forget_after(path: Path, step: int) -> None:
    """Removes the lines of later steps, which are about to be repeated."""
    records = list(read_log(path))
    for record in records:
        if not is_number(record.get("step")):
            raise ValueError(f"{path}: expected a step on each line; got {record!r:.60}. Fix or remove it.")
    with atomic_write(path) as file:
        file.writelines(json_line(record) for record in records if record["step"] <= step)


def about_this_run(seed: int, num_processes: int) -> dict[str, Any]:
    """What is needed to repeat the run: versions, commit, machine."""
    return {
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "seed": seed,
        "num_processes": num_processes,
        "command": sys.argv,
        "python": platform.python_version(),
        "versions": installed_versions(PACKAGES),
        "commit": _commit(),
        "machine": {"system": platform.platform(), "processor": platform.machine(), "cores": os.cpu_count()},
    }


def _commit() -> str | None:
    """The commit of this code, if it is in a git repository."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None
