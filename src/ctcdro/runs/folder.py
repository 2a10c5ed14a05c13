"""Which files a run leaves behind, and how to read and write each of them.

config.yaml                 complete, with all defaults
run.json                    versions, commit, seed, machine, wall-clock
log.jsonl                   a line a step or epoch: losses, learning rate, throughput
group_weights.jsonl         a line a step: weight and mean loss of each group
vocab.json                  the labels
checkpoints/                what a restart needs
model/                      the selected model; where it is, the run is finished
predictions/<split>.jsonl   scores/<split>.json
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

from ..storage.atomic import atomic_write
from ..storage.json_files import read_json, read_log
from ..storage.paths import PathLike

PACKAGES = ("ctcdro", "torch", "numpy", "transformers", "accelerate", "peft", "soundfile", "soxr")


class RunFolder:
    """The files of a run.

    Example:
        >>> RunFolder("run").scores("test").as_posix()
        'run/scores/test.json'
    """

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

    def predictions(self, split: str) -> Path:
        return self.path / "predictions" / f"{split}.jsonl"

    def scores(self, split: str) -> Path:
        return self.path / "scores" / f"{split}.json"

    @property
    def is_finished(self) -> bool:
        return self.model.exists()

    def require_model(self) -> Path:
        """The folder of the model; an error if the run is not finished."""
        if not self.is_finished:
            raise ValueError(f"{self.path}: the run has no model yet. Resume it with the command that started it.")
        return self.model


class ResultName(NamedTuple):
    """The file name of predictions and scores, such as `test`, `test-beam` or `test-of-fleurs-beam`.

    Example:
        >>> str(ResultName("test", dataset="fleurs")), ResultName.parse("dev-beam")
        ('test-of-fleurs', ResultName(split='dev', dataset=None, is_beam=True))
    """

    split: str
    dataset: str | None = None
    """Name of the dataset, if it is not that of the run."""
    is_beam: bool = False
    """Whether the results are those of a beam search."""

    def __str__(self) -> str:
        return f"{self.split}{f'-of-{self.dataset}' if self.dataset else ''}{'-beam' if self.is_beam else ''}"

    @classmethod
    def parse(cls, name: str) -> ResultName:
        split, _, dataset = name.removesuffix("-beam").partition("-of-")
        return cls(split, dataset or None, name.endswith("-beam"))


def read_about(folder: RunFolder) -> dict[str, Any]:
    """What run.json says of a run; nothing if it is not there.

    Raises:
        ValueError: naming the file, if it holds something else.
    """
    if not folder.run.is_file():
        return {}
    try:
        about = read_json(folder.run)
        if not isinstance(about, dict):
            raise ValueError(f"got {about!r:.60}")
        for name in ("seconds", "steps"):
            if about.get(name) is not None and not is_number(about[name]):
                raise ValueError(f"`{name}` is {about[name]!r:.60}")
    except ValueError as error:
        raise ValueError(f"{folder.run}: expected what `ctcdro train` writes ({error}); mend or remove it.") from error
    return about


def is_number(value: Any) -> bool:
    """Whether what was read is a number that one can reckon with.

    Example:
        >>> is_number(1.5), is_number(float("nan")), is_number(True), is_number("1")
        (True, False, False, False)
    """
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e15


def forget_after(path: Path, step: int) -> None:
    """Removes lines of steps after this one, which are about to be done again."""
    records = list(read_log(path))
    for record in records:
        if not is_number(record.get("step")):
            raise ValueError(f"{path}: expected a step on each line; got {record!r:.60}. Mend or remove it.")
    kept = [record for record in records if record["step"] <= step]
    with atomic_write(path) as file:
        file.writelines(json.dumps(record, ensure_ascii=False) + "\n" for record in kept)


def about_this_run(seed: int, num_processes: int) -> dict[str, Any]:
    """What one would need to know to do the run again: versions, commit, machine."""
    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return {
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "seed": seed,
        "num_processes": num_processes,
        "command": sys.argv,
        "python": platform.python_version(),
        "versions": versions,
        "commit": _commit(),
        "machine": {"system": platform.platform(), "processor": platform.machine(), "cores": os.cpu_count()},
    }


def _commit() -> str | None:
    """Of the code that runs, if it is in a git repository."""
    try:
        done = subprocess.run(
            ["git", "rev-parse", "HEAD"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
        return done.stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None
