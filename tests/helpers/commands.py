"""The commands of the project on small data, and their expected results in spite of faults."""

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import tones
import yaml

# Sums by several threads may differ in the last bit.
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200"}

# Files that depend on the course of a run, not on its result: times, process numbers, progress.
OF_THE_WAY = ("checkpoints", "logs", "run.json", "log.jsonl", "config.yaml", "tracking", ".lock")


@dataclass(frozen=True)
class Command:
    """A command that writes `out`, and can be repeated after an interruption."""

    name: str
    arguments: tuple[str, ...]
    out: Path

    @property
    def line(self) -> list[str]:
        return [sys.executable, "-m", "ctcdro", *self.arguments]

    def start(self, also: dict[str, str] | None = None) -> subprocess.Popen:
        """Starts the command; `also` is added to the environment."""
        return subprocess.Popen(
            self.line,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            env=ENVIRONMENT | (also or {}),
        )

    def run(self, also: dict[str, str] | None = None) -> subprocess.CompletedProcess:
        with self.start(also) as process:
            told, _ = process.communicate(timeout=900)
        return subprocess.CompletedProcess(self.line, process.returncode, told)

    def finish(self) -> None:
        """Repeats the command until it is done; a command that has nothing left to do may fail."""
        done = self.run()
        assert done.returncode == 0 or "finished run" in done.stdout, done.stdout


def ended(out: Path) -> dict[str, bytes]:
    """The files of a finished command by path, without its folder and times."""
    found = {}
    for path in sorted(out.rglob("*")) if out.is_dir() else [out]:
        name = path.relative_to(out).as_posix()
        if path.is_file() and not any(part in OF_THE_WAY or part.startswith(".") for part in Path(name).parts):
            content = path.read_bytes().replace(str(out.parent).encode(), b"")
            found[name] = re.sub(rb'"seconds": [0-9.]+', b"", content)
    return found


def write_run(folder: Path, dataset: Path, **changes: dict) -> Path:
    """The configuration of a run of twelve steps."""
    values = {
        "dataset": str(dataset),
        "model": {"encoder": "mel-small", "head": "linear"},
        "objective": {"step_size": 1e-2, "smoothing": 0.5},
        "data": {"num_workers": 0},
        "sampling": {"batch_duration": 4.0},
        "optimizer": {"learning_rate": 2e-3, "batches_per_step": 2},
        "training": {"num_batches": 24, "validate_every_batches": 8, "checkpoint_every_steps": 2, "trackers": []},
    }
    for section, change in changes.items():
        values[section] = values[section] | change
    path = folder / "run.yaml"
    path.write_text(yaml.safe_dump(values))
    return path


def write_sweep(folder: Path, dataset: Path, **changes: dict) -> Path:
    run = yaml.safe_load(write_run(folder, dataset, **changes).read_text())
    path = folder / "sweep.yaml"
    settings = [{"objective": "erm"}, {"objective": "ctc-dro", "step_size": 1e-3, "smoothing": 0.5}]
    path.write_text(yaml.safe_dump({"run": run, "settings": settings, "seeds": [0]}))
    return path


def write_nemo(folder: Path, dataset: Path) -> Path:
    """The dataset as a NeMo manifest, with absolute audio paths."""
    path = folder / "nemo.jsonl"
    records = [json.loads(line) for line in (dataset / "train.jsonl").read_text().splitlines()]
    for record in records:
        record["audio_filepath"] = str(dataset / record["audio_filepath"])
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def make_commands(folder: Path, outs: Path) -> dict[str, Command]:
    """All commands, with their inputs in `folder` and their outputs in `outs`."""
    for one in (folder, outs):
        one.mkdir(parents=True, exist_ok=True)
    dataset = folder / "dataset"
    if not dataset.exists():
        tones.write_dataset(dataset)
    trained = folder / "trained"
    config = str(write_run(folder, dataset))
    if not trained.exists():
        Command("train", ("train", config, "--out", str(trained)), trained).finish()
        Command("evaluate", ("evaluate", str(trained), "--split", "dev"), trained).finish()
    lines = {
        "prepare": ("prepare", "nemo", "--train", str(write_nemo(folder, dataset))),
        "synthesis": ("prepare", "synthetic", "--languages", "ces,spa", "--minutes", "0.5:0.2:0.2"),
        "train": ("train", config),
        "sweep": ("sweep", str(write_sweep(folder, dataset)), "--jobs", "1"),
        "report": ("report", str(trained), "--split", "dev"),
    }
    paths = {name: outs / (f"{name}.html" if name == "report" else name) for name in lines}
    return {name: Command(name, (*line, "--out", str(paths[name])), paths[name]) for name, line in lines.items()}
