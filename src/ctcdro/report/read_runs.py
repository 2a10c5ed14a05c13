"""Run folders -> one `RunResult` for each run, with all that the page shows of it.

What one can rely on: figures are of the predictions in the folder, counted under the profile of its scores, and agree
with them; a run that is not finished, or not scored on the split, is refused with the command that mends it. A dataset
that has been moved takes nothing but its lengths, its audio and its kinship to the paper's sets from the page.
"""

from __future__ import annotations

import shlex
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

from ..runs.config import Config, read_config
from ..runs.folder import ResultName, RunFolder, is_number, read_about
from ..scoring.scores import Counts, Scores, count, read_scores
from ..scoring.transcripts import Prediction, read_predictions
from ..speech.manifest import Manifest
from ..speech.utterance import Utterance
from ..storage.json_files import read_json, read_log
from ..storage.paths import PathLike
from .paper_results import MODELS, set_of


@dataclass(frozen=True)
class Dataset:
    """What a page shows of a dataset; all empty if the folder is not there."""

    path: Path
    is_synthetic: bool = False
    durations: dict[str, list[float]] = field(default_factory=dict)
    """Seconds of the training utterances, by language."""
    utterances: dict[str, Utterance] = field(default_factory=dict)
    """Those of the split, by the ids that predictions have."""
    set_name: str | None = None
    """The paper's set that it is."""

    @property
    def name(self) -> str:
        """The paper's, or that of the folder."""
        return self.set_name or self.path.resolve().name


@dataclass(frozen=True)
class WeightHistory:
    """Weights of groups at steps."""

    steps: list[int]
    groups: dict[str, list[float]]

    @property
    def is_constant(self) -> bool:
        return all(max(own) - min(own) < 1e-6 for own in self.groups.values() if own)


@dataclass(frozen=True)
class TrainingSpeed:
    """How long training took; None where the log does not tell."""

    num_steps: int | None
    seconds: float | None
    """Wall-clock, with the looks at development data."""
    audio_seconds: float | None
    """Audio that was trained on."""
    audio_per_second: float | None
    """Seconds of audio in a second of training: the median over steps."""


@dataclass(frozen=True)
class RunResult:
    """A finished run and what it gave on a split."""

    name: str
    """The folder's name, or more of its path where names are the same."""
    path: Path
    config: Config
    about: dict[str, Any]
    """What run.json says."""
    split: str
    predictions: list[Prediction]
    counts: Counts
    weights: WeightHistory
    speed: TrainingSpeed
    dataset: Dataset

    @cached_property
    def scores(self) -> Scores:
        return self.counts.scores()

    @cached_property
    def test_data(self) -> int:
        """The same for runs that were tested on the same utterances and references, and scored alike: those that can be
        compared."""
        references = tuple((one.id, one.lang, one.text) for one in self.predictions)
        return hash((self.counts.profile, references))

    @property
    def data_name(self) -> str:
        return self.dataset.name

    @property
    def model_name(self) -> str:
        """The paper's name of the encoder, or its own."""
        encoder = self.config.model.encoder
        return MODELS.get(encoder, encoder.rstrip("/").rpartition("/")[2])


@dataclass(frozen=True)
class LoadedRuns:
    """Runs, and how many of a folder of runs were left out since they are not finished or not scored."""

    runs: list[RunResult]
    num_skipped: int = 0


def read_runs(paths: Iterable[PathLike], split: str = "test") -> LoadedRuns:
    """Reads runs.

    Args:
        paths: folders of runs, or folders with `runs/` below them, of which all scored runs are taken.
        split: whose scores and predictions to read.

    Raises:
        ValueError: naming the folder, and the command to run, if there is nothing to report on.
    """
    folders: list[Path] = []
    num_skipped = 0
    for path in map(Path, paths):
        own, left_out = _runs_in(path, split)
        folders += [folder for folder in own if folder.resolve() not in {one.resolve() for one in folders}]
        num_skipped += left_out
    if not folders:
        raise ValueError("`runs` must have at least one run; got none.")
    datasets: dict[Path, Dataset] = {}
    runs = []
    for folder, name in zip(folders, _names(folders), strict=True):
        config = read_config(folder / "config.yaml")
        if config.dataset not in datasets:
            datasets[config.dataset] = read_dataset(config.dataset, split)
        runs.append(_read_run(RunFolder(folder), name, config, datasets[config.dataset], split))
    return LoadedRuns(runs, num_skipped)


def _runs_in(path: Path, split: str) -> tuple[list[Path], int]:
    if (path / "config.yaml").is_file():
        return [path], 0
    candidates = sorted(one.parent for one in (path / "runs").glob("*/config.yaml"))
    if not candidates:
        raise ValueError(f"{path}: no config.yaml in it, and no runs/ with runs; expected what `ctcdro train` writes.")
    scored = [one for one in candidates if RunFolder(one).is_finished and RunFolder(one).scores(split).is_file()]
    if not scored:
        raise ValueError(
            f"{path}: none of its {len(candidates)} runs is finished and scored on {split!r}; first "
            f"`{_evaluate(candidates[0], split)}`."
        )
    return scored, len(candidates) - len(scored)


def _names(folders: Sequence[Path]) -> list[str]:
    """The shortest ends of paths that differ from each other.

    Example:
        >>> _names([Path("a/erm"), Path("a/dro")]), _names([Path("a/run"), Path("b/run")])
        (['erm', 'dro'], ['a/run', 'b/run'])
    """
    parts = [folder.resolve().parts for folder in folders]
    for length in range(1, max(map(len, parts)) + 1):
        names = ["/".join(own[-length:]) for own in parts]
        if len(set(names)) == len(names):
            return names
    return [folder.as_posix() for folder in folders]


def _read_run(folder: RunFolder, name: str, config: Config, dataset: Dataset, split: str) -> RunResult:
    path = folder.path
    if not folder.is_finished:
        command = shlex.join(["ctcdro", "train", str(folder.config), "--out", str(path)])
        raise ValueError(f"{path}: not finished; resume it with `{command}`.")
    for needed in (folder.scores(split), folder.predictions(split)):
        if not needed.is_file():
            raise ValueError(f"{needed} is not there; first `{_evaluate(path, split)}`.")
    scores = read_scores(folder.scores(split))
    predictions = read_predictions(folder.predictions(split))
    try:
        counts = count(predictions, scores.profile)
    except ValueError as error:  # none, or an id twice
        raise ValueError(f"{folder.predictions(split)}: {error}") from error
    if counts.scores() != scores:
        raise ValueError(
            f"{folder.scores(split)} is not of the predictions beside it; write both anew with "
            f"`{_evaluate(path, split)} --profile {scores.profile}`."
        )
    about = read_about(folder)
    weights, speed = _weights(folder), _training_speed(folder, about)
    return RunResult(name, path, config, about, split, predictions, counts, weights, speed, dataset)


def _evaluate(path: Path, split: str) -> str:
    """The command that scores a run."""
    name = ResultName.parse(split)
    dataset = ["--dataset", f"FOLDER/{name.dataset}"] if name.dataset else []
    beam = ["--beam-size", "16"] if name.is_beam else []
    return shlex.join(["ctcdro", "evaluate", str(path), "--split", name.split, *dataset, *beam])


def _weights(folder: RunFolder) -> WeightHistory:
    steps: list[int] = []
    groups: dict[str, list[float]] = {}
    for number, record in enumerate(read_log(folder.group_weights), start=1):
        own = record.get("weights")
        if (
            not (own and isinstance(own, dict) and all(map(is_number, own.values())) and is_number(record.get("step")))
            or own.keys() != (groups or own).keys()
        ):
            wanted = f"a step and weights of {', '.join(groups)}" if groups else "a step and weights"
            raise ValueError(f"{folder.group_weights}:{number}: expected {wanted}; got {record!r:.60}.")
        steps.append(record["step"])
        for name, weight in own.items():
            groups.setdefault(name, []).append(weight)
    return WeightHistory(steps, groups)


def _training_speed(folder: RunFolder, about: dict[str, Any]) -> TrainingSpeed:
    steps = [
        (record["audio_seconds"], record["seconds"])
        for record in read_log(folder.log)
        if is_number(record.get("audio_seconds")) and is_number(record.get("seconds"))
    ]
    seconds = about.get("seconds", steps[-1][1] if steps else None)
    speeds = [audio / (after - before) for (_, before), (audio, after) in pairwise(steps) if after > before]
    return TrainingSpeed(
        about.get("steps", len(steps) or None),
        seconds,
        sum(audio for audio, _ in steps) if steps else None,
        statistics.median(speeds) if speeds else None,
    )


def read_dataset(path: PathLike, split: str) -> Dataset:
    """Reads what there is of a dataset.

    Raises:
        ValueError: naming the file and line where a manifest is wrong.
    """
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
        is_synthetic=_reader(folder) == "synthetic" or any(one.corpus == "synthetic" for one in (*train, *tested)),
        durations=dict(sorted(durations.items())),
        # An utterance without an id is called by its place, as when it was decoded.
        utterances={one.id or str(index): one for index, one in enumerate(tested)},
        set_name=set_of(frozenset((one.lang, one.corpus) for one in train)),
    )


def _reader(folder: Path) -> str | None:
    """Which command made the dataset, as its dataset.json tells."""
    try:
        about = read_json(folder / "dataset.json")
    except (OSError, ValueError):
        return None
    return about.get("reader") if isinstance(about, dict) else None
