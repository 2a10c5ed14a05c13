"""Many runs, of which one setting is chosen for each objective: by the development data, before the test data are seen.

    swept = sweep(read_sweep("sweep.yaml"), "sweep")

A sweep is a folder:

    sweep.yaml       complete, with all defaults
    runs/            a run folder for each setting and seed, as ctc-dro-0.001-0.5-seed0
    logs/            of the jobs
    selected.json    what every setting came to on the development data, and which were chosen
    table.json       the chosen runs on the test data, one row each

What one can rely on: a finished run is not repeated, an unfinished one is gone on with; nothing is chosen before all
runs are finished; the test data are decoded for chosen settings only, once. The same sweep gives the same tables, on a
CPU and with as many threads, except for the seconds.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from ..runtime import bfloat16
from ..runtime.extras import extra

with extra("sweep", "A sweep"):
    from ..runs.config import Config
    from ..runs.parsing import differences

from ..runs.folder import RunFolder, read_about
from ..scoring.scores import read_scores
from ..storage.atomic import remove_leftovers
from ..storage.json_files import parse_json, write_json
from ..storage.locks import is_locked, lock_folder
from ..storage.paths import PathLike
from .jobs import Failure, Place, Progress, Task, Watch, launch
from .sweep_config import BASELINE, Setting, SweepConfig, read_sweep
from .sweep_search import OptunaSearch


class SweepFolder:
    """The files of a sweep.

    Example:
        >>> SweepFolder("sweep").run(Setting(objective="group-dro", step_size=1e-4), seed=0).path.as_posix()
        'sweep/runs/group-dro-0.0001-seed0'
    """

    def __init__(self, path: PathLike) -> None:
        self.path = Path(path)
        self.config = self.path / "sweep.yaml"
        self.runs = self.path / "runs"
        self.logs = self.path / "logs"
        self.selected = self.path / "selected.json"
        self.table = self.path / "table.json"

    def run(self, setting: Setting, seed: int) -> RunFolder:
        return RunFolder(self.runs / f"{setting.name}-seed{seed}")

    @property
    def has_begun(self) -> bool:
        """Whether another configuration would conflict with a run that would be resumed."""
        from ..training.checkpoints import has_checkpoints  # imports torch

        runs = map(RunFolder, self.runs.glob("*"))
        has_results = any(run.is_finished or has_checkpoints(run.checkpoints) for run in runs)
        return has_results or any(map(is_locked, self.logs.glob("*")))


@dataclass(frozen=True)
class Tried:
    """What a setting came to on the development data: means over its seeds."""

    setting: Setting
    worst_cer: float
    """Of the worst language."""
    mean_cer: float
    """Over languages."""


def select(tried: Sequence[Tried]) -> list[Tried]:
    """The setting of each objective that lowers the CER of the worst language most, beside the baseline.

    Of several that lower it alike, the one with the lowest mean; of these, the first. The CER of the baseline is the
    same for all, so that the lowest CER is the largest gain.

    Example:
        >>> gentle, bold = (Setting(objective="group-dro", step_size=size) for size in (1e-4, 1e-3))
        >>> tried = [Tried(Setting(objective="erm"), 0.6, 0.3), Tried(gentle, 0.5, 0.3), Tried(bold, 0.5, 0.2)]
        >>> [one.setting.name for one in select(tried)]
        ['erm', 'group-dro-0.001']
    """
    objectives = dict.fromkeys(one.setting.objective for one in tried)
    return [
        min((one for one in tried if one.setting.objective == name), key=lambda one: (one.worst_cer, one.mean_cer))
        for name in objectives
    ]


@dataclass(frozen=True)
class Row:
    """A run on the test data. Rates are fractions."""

    objective: str
    step_size: float | None
    smoothing: float | None
    seed: int
    max_cer: float
    worst_lang: str
    avg_cer: float
    lid: float
    """Over languages, each counting the same."""
    seconds: float
    """Of training."""


@dataclass(frozen=True)
class Swept:
    """What came of a sweep: rows, unless something failed."""

    folder: SweepFolder
    rows: list[Row]
    failures: list[Failure]


@dataclass(frozen=True)
class TrainAndScore:
    """A run of a sweep, and the splits on which it is scored; a task of `launching`."""

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

        folder, batches = RunFolder(self.path), self.config.batches
        if not folder.is_finished:
            train(self.config, folder.path)
        for split in self.splits:
            if not self._is_scored(split):
                evaluate(
                    folder.path,
                    split,
                    profile=self.profile,
                    batch_duration=batches.batch_duration,
                    num_workers=batches.num_workers,
                    skip_faults=batches.on_fault == "skip",
                )

    def is_done(self) -> bool:
        return RunFolder(self.path).is_finished and all(map(self._is_scored, self.splits))

    def progress(self) -> Progress:
        from ..training.setup import num_steps

        folder = RunFolder(self.path)
        if folder.is_finished:
            return Progress(1.0, "scoring")
        step, total = _last_step(folder.log), num_steps(self.config)
        return Progress(step / total, f"step {step:,} of {total:,}" if step else "starting")

    def _is_scored(self, split: str) -> bool:
        try:
            return read_scores(RunFolder(self.path).scores(split)).profile == self.profile
        except (OSError, ValueError):
            return False


def sweep(config: SweepConfig, out: PathLike, place: Place | None = None, watch: Watch = lambda state: None) -> Swept:
    """Trains every setting with every seed, chooses, and scores what was chosen on the test data.

    Args:
        config: the sweep.
        out: its folder; a sweep that is in it is gone on with.
        place: where runs are trained; by default this machine.
        watch: is told how far it is.

    Raises:
        ValueError: if `out` has a sweep of another configuration that has trained something; if another process is
            writing to it; if the dataset lacks a split; if `place` asks for something unavailable; or if runs on this
            CPU ask for bfloat16 and it does not work.
        KeyboardInterrupt: after Ctrl-C, SIGTERM or SIGHUP, when all runs have stopped, with their checkpoints.
    """
    place = place or Place()
    if config.run.training.precision == "bf16" and place.cluster == "local" and not place.gpu:
        bfloat16.require_cpu()  # once, instead of in every run
    with lock_folder(out) as path:
        remove_leftovers(path)
        folder = SweepFolder(path)
        _claim(config, folder)
        return _sweep(config, folder, place, watch)


def _sweep(config: SweepConfig, folder: SweepFolder, place: Place, watch: Watch) -> Swept:
    def do(settings: Iterable[Setting], splits: Callable[[Setting], tuple[str, ...]]) -> list[Failure]:
        tasks: list[Task] = [
            TrainAndScore(config.config(setting, seed), folder.run(setting, seed).path, splits(setting), config.profile)
            for setting in settings
            for seed in config.seeds
        ]
        return launch(tasks, folder.logs, place, watch)

    if config.search == "grid":
        settings = config.grid()
        failures = do(settings, lambda setting: ("dev", "test") if _is_alone(setting, settings) else ("dev",))
    else:
        settings, failures = _search(config, folder, lambda asked: do(asked, lambda setting: ("dev",)))
    if failures:
        return Swept(folder, [], failures)
    tried = [_tried(config, folder, setting) for setting in settings]
    chosen = select(tried)
    _write_selected(folder, config, tried, chosen)
    if failures := do((one.setting for one in chosen), lambda setting: ("dev", "test")):
        return Swept(folder, [], failures)
    rows = [_row(folder, one.setting, seed) for one in chosen for seed in config.seeds]
    write_json(folder.table, [asdict(row) for row in rows])
    return Swept(folder, rows, [])


def _search(
    config: SweepConfig, folder: SweepFolder, do: Callable[[list[Setting]], list[Failure]]
) -> tuple[list[Setting], list[Failure]]:
    """All settings that Optuna asked for; it hears of a round when all of it is finished."""
    search = OptunaSearch(config)
    settings: dict[Setting, None] = {}
    while asked := search.ask():
        if failures := do(asked):
            return [], failures
        search.tell({setting: _tried(config, folder, setting).worst_cer for setting in asked})
        settings |= dict.fromkeys(asked)
    return list(settings), []


def _is_alone(setting: Setting, settings: Sequence[Setting]) -> bool:
    """Whether it is sure to be chosen, and so can be tested at once."""
    return sum(one.objective == setting.objective for one in settings) == 1


def _claim(config: SweepConfig, folder: SweepFolder) -> None:
    """Checks that the folder has no other sweep; one that has trained nothing yet may be corrected."""
    for split in ("train", "dev", "test"):
        if not (config.run.dataset / f"{split}.jsonl").is_file():
            raise ValueError(
                f"run.dataset: {config.run.dataset} has no {split}.jsonl; `ctcdro prepare` makes datasets."
            )
    if folder.config.exists() and folder.has_begun:
        if differing := differences(read_sweep(folder.config), config):
            raise ValueError(f"{folder.path} has a sweep of another configuration ({differing}). Give another folder.")
        return
    config.write(folder.config)


def _tried(config: SweepConfig, folder: SweepFolder, setting: Setting) -> Tried:
    found = [_figures(folder.run(setting, seed), "dev") for seed in config.seeds]
    return Tried(
        setting,
        statistics.fmean(worst_cer for worst_cer, *_ in found),
        statistics.fmean(mean_cer for _, _, mean_cer, _ in found),
    )


def _figures(folder: RunFolder, split: str) -> tuple[float, str, float, float]:
    """Worst CER and its language, mean CER, mean LID."""
    scores = read_scores(folder.scores(split))
    worst, mean, lid = scores.worst("cer"), scores.mean("cer"), scores.mean("lid")
    if worst is None or mean is None or lid is None:
        raise ValueError(f"{folder.scores(split)}: no language has text to be scored.")
    return worst[1], worst[0], mean, lid


def _row(folder: SweepFolder, setting: Setting, seed: int) -> Row:
    run = folder.run(setting, seed)
    max_cer, worst_lang, avg_cer, lid = _figures(run, "test")
    seconds = read_about(run).get("seconds", 0.0)
    return Row(
        setting.objective, setting.step_size, setting.smoothing, seed, max_cer, worst_lang, avg_cer, lid, seconds
    )


def _write_selected(folder: SweepFolder, config: SweepConfig, tried: Sequence[Tried], chosen: Sequence[Tried]) -> None:
    baseline = next((one.worst_cer for one in tried if one.setting.objective == BASELINE), None)
    settings = [
        {
            **one.setting.model_dump(),
            "worst_cer": one.worst_cer,
            "mean_cer": one.mean_cer,
            "gain": None if baseline is None else baseline - one.worst_cer,
            "chosen": one in chosen,
        }
        for one in tried
    ]
    rule = "of each objective the largest gain in the CER of the worst language over erm, then the lowest mean CER"
    record = {"rule": rule, "split": "dev", "profile": config.profile, "seeds": config.seeds, "settings": settings}
    write_json(folder.selected, record)


def _last_step(log: Path) -> int:
    """The step of the last line that is whole; 0 before there is one."""
    for line in reversed(list(_last_lines(log))):
        try:
            return int(parse_json(line.decode())["step"])
        except (ValueError, KeyError, TypeError, OverflowError):
            continue
    return 0


def _last_lines(path: Path, num_bytes: int = 8192) -> Iterator[bytes]:
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - num_bytes))
            yield from file.read().splitlines()
    except OSError:
        return
