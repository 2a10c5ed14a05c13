"""A sweep: trains every setting with every seed, selects on the development set, and scores the selected on test.

Guarantees: a finished run is not repeated, and an unfinished one is resumed. Nothing is selected before all runs are
finished. The test set is decoded once, and only for selected settings. On a CPU with the same number of threads, the
same sweep gives the same tables, except for training times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..runtime import bfloat16
from ..runtime.extras import extra

with extra("sweep", "A sweep"):
    from ..runs.config import Config
    from ..runs.parsing import refuse_changes

from ..runs.folder import RunFolder
from ..scoring.scores import read_scores
from ..storage.atomic import remove_leftovers
from ..storage.json_files import parse_json, write_json
from ..storage.locks import is_locked, lock_folder
from ..storage.paths import PathLike
from .config import SweepConfig, SweepSetting, read_sweep
from .jobs import Failure, JobCallback, launch
from .selection import RULE, Row, average, read_row, select, selection_record
from .submission import JobOptions


class SweepFolder:
    def __init__(self, path: PathLike) -> None:
        self.path = Path(path)
        self.config = self.path / "sweep.yaml"
        self.runs = self.path / "runs"
        self.logs = self.path / "logs"
        self.selected = self.path / "selected.json"
        self.table = self.path / "table.json"

    def run(self, setting: SweepSetting, seed: int) -> RunFolder:
        return RunFolder(self.runs / f"{setting.name}-seed{seed}")

    @property
    def has_begun(self) -> bool:
        """Whether a run is running, or has checkpoints or a model that another configuration could not resume."""
        from ..training.checkpoint_files import has_checkpoints  # imports torch

        runs = map(RunFolder, self.runs.glob("*"))
        has_results = any(run.is_finished or has_checkpoints(run.checkpoints) for run in runs)
        return has_results or any(map(is_locked, self.logs.glob("*")))


@dataclass(frozen=True)
class SweepResult:
    folder: SweepFolder
    rows: list[Row]
    """None if runs failed."""
    failures: list[Failure]


@dataclass(frozen=True)
class TrainAndScore:
    """A task for `launch`: trains one run of a sweep, and scores it on the given splits."""

    config: Config
    path: Path
    splits: tuple[str, ...]
    profile: str

    @property
    def name(self) -> str:
        return self.path.name

    def __call__(self) -> None:
        from ..decoding.evaluate import evaluate
        from ..training.loop import train

        folder, config = RunFolder(self.path), self.config
        if not folder.is_finished:
            train(config, folder.path)
        for split in self.splits:
            if not self._is_scored(split):
                evaluate(
                    folder.path,
                    split,
                    profile=self.profile,
                    batch_duration=config.sampling.batch_duration,
                    num_workers=config.data.num_workers,
                    on_bad_audio=config.data.on_bad_audio,
                )

    def is_done(self) -> bool:
        return RunFolder(self.path).is_finished and all(map(self._is_scored, self.splits))

    def progress(self) -> tuple[float, str]:
        from ..training.optimizer import num_steps

        folder = RunFolder(self.path)
        if folder.is_finished:
            return 1.0, "scoring"
        step, total = last_step(folder.log), num_steps(self.config)
        return step / total, f"step {step:,} of {total:,}" if step else "starting"

    def _is_scored(self, split: str) -> bool:
        try:
            return read_scores(RunFolder(self.path).scores(split)).profile == self.profile
        except (OSError, ValueError):
            return False


def sweep(
    config: SweepConfig, out: PathLike, options: JobOptions | None = None, callback: JobCallback = lambda state: None
) -> SweepResult:
    """Trains every setting with every seed, selects on dev, and scores the selected settings on test.

    Args:
        out: folder of the sweep; an existing sweep in it is resumed.
        callback: called with the state of the jobs, several times per second.

    Raises:
        ValueError: if `out` is in use or contains a sweep with another configuration that has started to train; if the
            dataset lacks a split; or if this machine does not support `options` or bfloat16.
        KeyboardInterrupt: after Ctrl-C, SIGTERM or SIGHUP, when all runs have stopped and written checkpoints.
    """
    options = options or JobOptions()
    if config.run.training.precision == "bf16" and options.cluster == "local" and not options.local_gpus():
        bfloat16.require_cpu()  # once, instead of in every run
    with lock_folder(out) as path:
        remove_leftovers(path)
        folder = SweepFolder(path)
        claim_folder(config, folder)
        return _sweep(config, folder, options, callback)


def claim_folder(config: SweepConfig, folder: SweepFolder) -> None:
    """Writes sweep.yaml, or checks that it is the same. A sweep that has not started to train is replaced."""
    for split in ("train", "dev", "test"):
        if not (config.run.dataset / f"{split}.jsonl").is_file():
            raise ValueError(
                f"run.dataset: {config.run.dataset} has no {split}.jsonl. Create the dataset with `ctcdro prepare`."
            )
    if folder.config.exists():
        there = read_sweep(folder.config)
        if folder.has_begun:
            refuse_changes(folder.path, there, config)
        elif there.to_yaml() != folder.config.read_text(encoding="utf-8"):
            raise ValueError(f"{folder.config} was not written by a sweep and would be replaced. Choose another --out.")
    config.write(folder.config)


def _sweep(config: SweepConfig, folder: SweepFolder, options: JobOptions, callback: JobCallback) -> SweepResult:
    def run_all(settings: Sequence[SweepSetting], tested: Sequence[SweepSetting]) -> list[Failure]:
        tasks = [
            TrainAndScore(
                config.config(setting, seed),
                folder.run(setting, seed).path,
                ("dev", "test") if setting in tested else ("dev",),
                config.scoring,
            )
            for setting in settings
            for seed in config.seeds
        ]
        return launch(tasks, folder.logs, options, callback)

    def read_rows(setting: SweepSetting, split: str) -> list[Row]:
        return [read_row(folder.run(setting, seed), setting, seed, split) for seed in config.seeds]

    settings = config.grid()
    objectives = [setting.objective for setting in settings]
    certain = [setting for setting in settings if objectives.count(setting.objective) == 1]
    if failures := run_all(settings, tested=certain):
        return SweepResult(folder, [], failures)
    results = [average(setting, read_rows(setting, "dev")) for setting in settings]
    selected = select(results)
    record = {"rule": RULE, "split": "dev", "profile": config.scoring, "seeds": config.seeds}
    write_json(folder.selected, {**record, "settings": selection_record(results, selected)})
    chosen = [result.setting for result in selected]
    if failures := run_all(chosen, tested=chosen):
        return SweepResult(folder, [], failures)
    rows = [row for setting in chosen for row in read_rows(setting, "test")]
    write_json(folder.table, [row.to_record() for row in rows])
    return SweepResult(folder, rows, [])


def last_step(log: Path, num_bytes: int = 8192) -> int:
    """The step in the last complete line of a log; 0 if there is none. Reads only the end of the file."""
    if not log.is_file():
        return 0
    with open(log, "rb") as file:
        file.seek(max(0, log.stat().st_size - num_bytes))
        lines = file.read().splitlines()
    for line in reversed(lines):
        try:
            return int(parse_json(line.decode())["step"])
        except (ValueError, KeyError, TypeError, OverflowError):
            continue
    return 0
