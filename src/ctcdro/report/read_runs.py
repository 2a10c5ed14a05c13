"""Reads run folders: one `RunResult` per run, with everything that the page shows.

Guarantees: figures are computed from the predictions in the folder, under the scoring profile of its scores. A run that
is not finished, or not scored on the split, is rejected with the command that completes it. If a dataset has been
moved, the report omits utterance durations, audio and the comparison with the paper.
"""

from __future__ import annotations

import shlex
import statistics
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

from ..prepare.statistics import Statistics, statistics_by_language
from ..runs.config import Config, read_config
from ..runs.folder import ResultName, RunFolder, is_number, read_about
from ..scoring.before_after import BeforeAfter, read_before_after
from ..scoring.budget import Budget, read_budget
from ..scoring.diagnosis import Diagnosis, read_diagnosis
from ..scoring.scores import Counts, Scores, count, read_scores
from ..scoring.transcripts import Prediction, read_predictions
from ..speech.manifest import Manifest
from ..speech.utterance import Utterance
from ..storage.json_files import read_log
from ..storage.paths import PathLike
from .paper_results import MODELS, find_set


@dataclass(frozen=True)
class Dataset:
    """The parts of a dataset that the page shows; empty if the folder does not exist."""

    path: Path
    is_synthetic: bool = False
    durations: dict[str, list[float]] = field(default_factory=dict)
    """Seconds of the training utterances, by language."""
    statistics: dict[str, Statistics] = field(default_factory=dict)
    utterances: dict[str, Utterance] = field(default_factory=dict)
    """Utterances of the split, by their ids in the predictions."""
    set_name: str | None = None
    """The language set of the paper, if it is one."""

    @property
    def name(self) -> str:
        return self.set_name or self.path.resolve().name


@dataclass(frozen=True)
class WeightHistory:
    steps: list[int]
    groups: dict[str, list[float]]

    @property
    def is_uniform(self) -> bool:
        """Whether all groups have the same weight at all steps."""
        weights = [weight for history in self.groups.values() for weight in history]
        return not weights or max(weights) - min(weights) < 1e-6


@dataclass(frozen=True)
class TrainingSpeed:
    """Duration and throughput of training, if the log contains them."""

    num_steps: int | None
    seconds: float | None
    """Wall-clock time, including validation."""
    audio_seconds: float | None
    audio_per_second: float | None
    """Seconds of audio per second of training: the median over steps."""


@dataclass(frozen=True)
class RunResult:
    """A finished run and its results on a split."""

    name: str
    """Name of the folder, with as much of its path as needed to be unique."""
    path: Path
    config: Config
    about: dict[str, Any]
    """Contents of run.json."""
    split: str
    predictions: list[Prediction]
    counts: Counts
    weights: WeightHistory
    speed: TrainingSpeed
    dataset: Dataset
    diagnosis: Diagnosis | None = None
    """None if the run has none, because an earlier version trained it."""
    budget: Budget | None = None
    """None if the run has no guard."""
    before_after: BeforeAfter | None = None
    """None if the run did not start from another model."""

    @cached_property
    def scores(self) -> Scores:
        return self.counts.scores()

    @cached_property
    def test_data(self) -> int:
        """Equal for runs that can be compared: those with the same utterances, references and scoring profile."""
        references = tuple((record.id, record.lang, record.text) for record in self.predictions)
        return hash((self.counts.profile, references))

    @property
    def model_name(self) -> str:
        encoder = self.config.model.encoder
        return MODELS.get(encoder, encoder.rstrip("/").rpartition("/")[2])


@dataclass(frozen=True)
class LoadedRuns:
    """Runs, and the number of runs that are not finished or not scored."""

    runs: list[RunResult]
    num_skipped: int = 0


def read_runs(paths: Iterable[PathLike], split: str = "test") -> LoadedRuns:
    """Reads runs, and the scored runs in folders that contain `runs/`."""
    folders: dict[Path, Path] = {}
    num_skipped = 0
    for path in map(Path, paths):
        scored, num_unscored = _find_runs(path, split)
        for folder in scored:
            folders.setdefault(folder.resolve(), folder)
        num_skipped += num_unscored
    if not folders:
        raise ValueError("`runs` must have at least one run; got none.")
    datasets: dict[Path, Dataset] = {}
    runs = []
    for folder, name in zip(folders.values(), _names(folders), strict=True):
        config = read_config(folder / "config.yaml")
        if config.dataset not in datasets:
            datasets[config.dataset] = read_dataset(config.dataset, split)
        runs.append(_read_run(RunFolder(folder), name, config, datasets[config.dataset], split))
    return LoadedRuns(runs, num_skipped)


def _find_runs(path: Path, split: str) -> tuple[list[Path], int]:
    """The run in a folder, or the scored runs in its subfolder runs/ and the number of other runs there."""
    if (path / "config.yaml").is_file():
        return [path], 0
    candidates = sorted(config.parent for config in (path / "runs").glob("*/config.yaml"))
    if not candidates:
        raise ValueError(f"{path}: not the folder of a run or a sweep: found neither config.yaml nor runs/ with runs.")
    folders = map(RunFolder, candidates)
    scored = [folder.path for folder in folders if folder.is_finished and folder.scores(split).is_file()]
    if not scored:
        raise ValueError(
            f"{path}: none of its {len(candidates)} runs is finished and scored on {split!r}. Score finished runs with "
            f"`{_evaluate_command(candidates[0], split)}`."
        )
    return scored, len(candidates) - len(scored)


def _names(folders: Iterable[Path]) -> list[str]:
    """The shortest unique suffixes of absolute paths."""
    parts = [folder.parts for folder in folders]
    lengths = range(1, max(map(len, parts)) + 1)
    candidates = (["/".join(path[-length:]) for path in parts] for length in lengths)
    return next(names for names in candidates if len(set(names)) == len(names))


def _read_run(folder: RunFolder, name: str, config: Config, dataset: Dataset, split: str) -> RunResult:
    path = folder.path
    if not folder.is_finished:
        command = shlex.join(["ctcdro", "train", str(folder.config), "--out", str(path)])
        raise ValueError(f"{path}: the run is not finished. Resume it with `{command}`.")
    for needed in (folder.scores(split), folder.predictions(split)):
        if not needed.is_file():
            raise ValueError(f"{needed}: no such file. Run `{_evaluate_command(path, split)}`.")
    predictions = read_predictions(folder.predictions(split))
    profile = read_scores(folder.scores(split)).profile
    try:
        counts = count(predictions, profile)
    except ValueError as error:  # no predictions, or an id twice
        raise ValueError(f"{folder.predictions(split)}: {error}") from error
    about = read_about(folder)
    weights, speed = read_weights(folder), _read_speed(folder, about)
    judged = read_diagnosis(folder.diagnosis), read_budget(folder.budget), read_before_after(folder.before_after)
    return RunResult(name, path, config, about, split, predictions, counts, weights, speed, dataset, *judged)


def _evaluate_command(path: Path, split: str) -> str:
    name = ResultName.parse(split)
    dataset = ["--dataset", f"FOLDER/{name.dataset}"] if name.dataset else []
    beam = ["--beam-size", "16"] if name.is_beam else []
    return shlex.join(["ctcdro", "evaluate", str(path), "--split", name.split, *dataset, *beam])


def read_weights(folder: RunFolder) -> WeightHistory:
    steps: list[int] = []
    groups: dict[str, list[float]] = {}
    for number, record in enumerate(read_log(folder.group_weights), start=1):
        weights: Any = record.get("weights")
        is_valid = isinstance(weights, dict) and weights and all(map(is_number, weights.values()))
        if not is_valid or not is_number(record.get("step")) or weights.keys() != (groups or weights).keys():
            expected = f"a step and weights of {', '.join(groups)}" if groups else "a step and weights"
            raise ValueError(f"{folder.group_weights}:{number}: expected {expected}; got {record!r:.60}.")
        steps.append(record["step"])
        for name, weight in weights.items():
            groups.setdefault(name, []).append(weight)
    return WeightHistory(steps, groups)


def _read_speed(folder: RunFolder, about: dict[str, Any]) -> TrainingSpeed:
    steps = [
        (record["audio_seconds"], record["seconds"])
        for record in read_log(folder.log)
        if is_number(record.get("audio_seconds")) and is_number(record.get("seconds"))
    ]
    speeds = [audio / (after - before) for (_, before), (audio, after) in pairwise(steps) if after > before]
    return TrainingSpeed(
        about.get("steps", len(steps) or None),
        about.get("seconds", steps[-1][1] if steps else None),
        sum(audio for audio, _ in steps) if steps else None,
        statistics.median(speeds) if speeds else None,
    )


def read_dataset(path: PathLike, split: str) -> Dataset:
    """Reads the parts of a dataset that exist."""
    folder = Path(path)
    train, tested = (
        Manifest.read(folder / f"{name}.jsonl") if (folder / f"{name}.jsonl").is_file() else Manifest([])
        for name in ("train", str(ResultName.parse(split)._replace(is_beam=False)))
    )
    durations: dict[str, list[float]] = {}
    for utterance in train:
        durations.setdefault(utterance.lang, []).append(utterance.duration)
    return Dataset(
        path=folder,
        is_synthetic=any(utterance.corpus == "synthetic" for utterance in (*train, *tested)),
        durations=dict(sorted(durations.items())),
        statistics=statistics_by_language(train),
        # For utterances without an id, decoding uses the index.
        utterances={utterance.id or str(index): utterance for index, utterance in enumerate(tested)},
        set_name=find_set((utterance.lang, utterance.corpus) for utterance in train),
    )
