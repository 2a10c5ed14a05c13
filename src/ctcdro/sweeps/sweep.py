"""A sweep: trains every setting with every seed, selects on the development set, and scores the selected on test.

Guarantees: a finished run is not repeated, and an unfinished one is resumed. Nothing is selected before all runs are
finished. The test set is decoded only after that, only for selected settings, and once per run. A sweep can be extended
by seeds and settings. On a CPU with the same number of threads, the same sweep gives the same tables, except for
training times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ..runtime import bfloat16
from ..runtime.extras import extra

with extra("sweep", "A sweep"):
    from ..runs.parsing import refuse_changes

from ..runs.folder import RunFolder
from ..scoring.comparisons import compare
from ..scoring.intervals import Interval
from ..scoring.scores import Counts
from ..storage.atomic import remove_leftovers
from ..storage.json_files import write_json
from ..storage.locks import is_locked, lock_folder
from ..storage.paths import PathLike
from .config import SweepConfig, SweepSetting, read_sweep
from .jobs import Failure, JobCallback, launch
from .selection import RULE, Row, Selection, average, read_counts, read_row, select, selection_record
from .submission import JobOptions
from .tasks import SPLITS, TaskStatus, TrainAndScore, caches_to_fill


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
    config: SweepConfig
    folder: SweepFolder
    rows: list[Row]
    """Empty if runs failed."""
    selections: list[Selection]
    """Empty if runs failed."""
    failures: list[Failure]


def sweep(
    config: SweepConfig, out: PathLike, options: JobOptions | None = None, callback: JobCallback = lambda state: None
) -> SweepResult:
    """Trains every setting with every seed, selects on dev, and scores the selected settings on test.

    Args:
        out: folder of the sweep; an existing sweep in it is resumed, and extended if `config` has more seeds or
            settings.
        callback: called with the state of the jobs, several times per second.

    Raises:
        ValueError: if `out` is in use or contains a sweep with another configuration that has started to train; if the
            dataset lacks a split; if this machine does not support `options` or bfloat16; or if a setting cannot use
            the processes of `options`.
        KeyboardInterrupt: after Ctrl-C, SIGTERM or SIGHUP, when all runs have stopped and written checkpoints.
    """
    options = options or JobOptions()
    check_processes(config, options)
    configs = [config.config(setting, 0) for setting in config.grid()]
    has_bf16 = any(run.training.precision == "bf16" for run in configs)
    if has_bf16 and options.cluster == "local" and not options.local_gpus():
        bfloat16.require_cpu()  # once, instead of in every run
    with lock_folder(out) as path:
        remove_leftovers(path)
        folder = SweepFolder(path)
        claim_folder(config, folder)
        return _Sweep(config, folder, options, callback).run()


def check_processes(config: SweepConfig, options: JobOptions) -> None:
    """Raises a ValueError if this machine cannot run jobs of so many processes, or a setting cannot use them."""
    options.check()
    for setting in config.grid():
        try:
            config.config(setting, 0).check_num_processes(options.num_processes)
        except ValueError as error:
            raise ValueError(f"{setting.name}: {error} Change it, --gpus-per-run or --nodes-per-run.") from error


def claim_folder(config: SweepConfig, folder: SweepFolder) -> None:
    """Writes sweep.yaml. Rejects changes of a sweep that has started to train, except more seeds and settings."""
    for split in SPLITS:
        if not (config.run.dataset / f"{split}.jsonl").is_file():
            raise ValueError(
                f"run.dataset: {config.run.dataset} has no {split}.jsonl. Create the dataset with `ctcdro prepare`."
            )
    if folder.config.exists():
        there = read_sweep(folder.config)
        if folder.has_begun:
            refuse_all_but_more(folder.path, there, config)
        elif there.to_yaml() != folder.config.read_text(encoding="utf-8"):
            raise ValueError(f"{folder.config} was not written by a sweep and would be replaced. Choose another --out.")
    config.write(folder.config)


def refuse_all_but_more(folder: Path, there: SweepConfig, here: SweepConfig) -> None:
    """Rejects a configuration unless it is the one in the folder, with or without more seeds and settings."""
    kept = here.grid()
    removed = [setting.name for setting in there.grid() if setting not in kept]
    if removed:
        raise ValueError(
            f"Cannot extend {folder}: settings were removed or changed ({', '.join(removed)}). Add them again, or "
            "choose another --out."
        )
    seeds = there.seeds if set(there.seeds) <= set(here.seeds) else here.seeds
    refuse_changes(folder, there, here.model_copy(update={"settings": there.settings, "seeds": seeds}))


@dataclass(frozen=True)
class _Sweep:
    """The phases of a sweep."""

    config: SweepConfig
    folder: SweepFolder
    options: JobOptions
    callback: JobCallback

    def run(self) -> SweepResult:
        settings = self.config.grid()
        training = self._tasks(settings, "dev")
        waiting = [task.config for task in training if not task.is_done()]
        caches = caches_to_fill(waiting, self.folder.logs)
        alone = self.options.alone()
        failures = launch(caches, self.folder.logs, alone, self.callback, "Filling the feature cache")
        failures = failures or launch(training, self.folder.logs, self.options, self.callback, "Training")
        if failures:
            return SweepResult(self.config, self.folder, [], [], failures)
        selections = self._select(settings)
        selected = [selection.selected.setting for selection in selections]
        tasks = self._tasks(selected, "test")
        if failures := launch(tasks, self.folder.logs, alone, self.callback, "Decoding test"):
            return SweepResult(self.config, self.folder, [], [], failures)
        rows = [row for setting in selected for row in self._read_rows(setting, "test")]
        write_json(self.folder.table, [row.to_record() for row in rows])
        return SweepResult(self.config, self.folder, rows, selections, [])

    def _tasks(self, settings: Sequence[SweepSetting], split: str) -> list[TrainAndScore]:
        """Tasks that train all runs that are not trained yet, and score them on a split."""
        tasks = []
        for setting in settings:
            for seed in self.config.seeds:
                path = self.folder.run(setting, seed).path
                status = TaskStatus(self.folder.logs / path.name / "status.json")
                config = self.config.config(setting, seed)
                tasks.append(TrainAndScore(config, path, (split,), self.config.scoring, status))
        return tasks

    def _select(self, settings: Sequence[SweepSetting]) -> list[Selection]:
        """Selects on dev, and writes selected.json."""
        by_name = {setting.name: setting for setting in settings}

        @cache
        def counts(name: str) -> Counts:
            runs = [self.folder.run(by_name[name], seed) for seed in self.config.seeds]
            return read_counts(runs, "dev", self.config.scoring)

        def differ(first: SweepSetting, second: SweepSetting) -> Interval:
            return compare(counts(first.name), counts(second.name)).summary["worst_cer"]

        results = [average(self._read_rows(setting, "dev")) for setting in settings]
        selections = select(results, differ)
        about = {"rule": RULE, "split": "dev", "profile": self.config.scoring, "seeds": self.config.seeds}
        write_json(self.folder.selected, {**about, "settings": selection_record(results, selections)})
        return selections

    def _read_rows(self, setting: SweepSetting, split: str) -> list[Row]:
        return [read_row(self.folder.run(setting, seed), setting, seed, split) for seed in self.config.seeds]
