"""The tasks of a sweep: fill a feature cache, and train and score a run. Each logs its progress to its job's log."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from ..runtime.extras import extra

with extra("sweep", "A sweep"):
    from ..runs.config import Config

from ..runs.folder import RunFolder
from ..runtime.progress import Track
from ..runtime.ranks import is_first_process, leave_group
from ..scoring.formatting import format_percent
from ..scoring.scores import read_scores
from ..speech.language_names import language_name
from ..storage.json_files import read_json, write_json
from ..training.progress_text import ProgressLines, describe_step, last_record

Item = TypeVar("Item")

SPLITS = ("train", "dev", "test")


@dataclass(frozen=True)
class TaskStatus:
    """A file in which a job reports work other than training steps to the command that started it."""

    path: Path

    def track(self, lines: Track) -> Track:
        """Writes the progress to the file, and passes it on to `lines`."""

        def tracked(sequence: Iterable[Item], description: str, total: float | None = None) -> Iterator[Item]:
            for number, item in enumerate(lines(sequence, description, total), 1):
                if number % 20 == 1:
                    write_json(self.path, {"work": description, "completed": number, "total": total})
                yield item
            self.path.unlink(missing_ok=True)

        return tracked

    def read(self) -> tuple[float, str] | None:
        """The completed fraction and a description of the current work; None if there is none."""
        try:
            status = read_json(self.path)
            fraction = status["completed"] / status["total"]
            return fraction, f"{status['work']}: {status['completed']:,} of {status['total']:,}"
        except (OSError, ValueError, TypeError, KeyError, ZeroDivisionError):
            return None


@dataclass(frozen=True)
class TrainAndScore:
    """A task for `launch`: trains one run of a sweep, and scores it on the given splits."""

    config: Config
    path: Path
    splits: tuple[str, ...]
    profile: str
    status: TaskStatus

    @property
    def name(self) -> str:
        return self.path.name

    def __call__(self) -> None:
        from ..decoding.evaluate import evaluate
        from ..training.loop import train
        from ..training.optimizer import num_steps

        folder, config = RunFolder(self.path), self.config
        lines = ProgressLines(num_steps(config), _print)
        track = self.status.track(lines.track) if is_first_process() else lines.track
        if not folder.is_finished:
            train(config, folder.path, callback=lines, track=track)
            leave_group()
        if not is_first_process():  # the first one decodes alone
            return
        for split in self.splits:
            if not self._is_scored(split):
                evaluate(
                    folder.path,
                    split,
                    profile=self.profile,
                    batch_duration=config.sampling.batch_duration,
                    num_workers=config.data.num_workers,
                    on_bad_audio=config.data.on_bad_audio,
                    track=track,
                )
                _print(self._result(split))

    def is_done(self) -> bool:
        return RunFolder(self.path).is_finished and all(map(self._is_scored, self.splits))

    def progress(self) -> tuple[float, str]:
        from ..training.optimizer import num_steps

        folder = RunFolder(self.path)
        if self.is_done():
            return 1.0, self._result(self.splits[-1])
        record, total = last_record(folder.log), num_steps(self.config)
        if folder.is_finished:
            _, words = self.status.read() or (1.0, "")
            missing = next(split for split in self.splits if not self._is_scored(split))
            return 1.0, f"scoring {missing}" + (f", {words}" if words else "")
        if record is None:
            status = self.status.read()
            return 0.0, status[1] if status else "starting"
        return record["step"] / total, describe_step(record, total)

    def _is_scored(self, split: str) -> bool:
        try:
            return read_scores(RunFolder(self.path).scores(split)).profile == self.profile
        except (OSError, ValueError):
            return False

    def _result(self, split: str) -> str:
        scores = read_scores(RunFolder(self.path).scores(split))
        worst = scores.worst_label(language_name)
        figures = scores.summary()
        return (
            f"{split}: worst CER {format_percent(figures['worst_cer'])}% ({worst}), "
            f"mean CER {format_percent(figures['mean_cer'])}%"
        )


@dataclass(frozen=True)
class FillCache:
    """A task for `launch`: computes the features of a frozen encoder, so that runs do not compute them repeatedly."""

    config: Config
    folder: Path
    """Log folder of the task."""

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def _mark(self) -> Path:
        return self.folder / "filled"

    @property
    def _status(self) -> TaskStatus:
        return TaskStatus(self.folder / "status.json")

    def __call__(self) -> None:
        from ..models.feature_cache import FeatureCache
        from ..runtime.devices import select_device
        from ..speech.manifest import Manifest
        from ..training.start import build_recognizer

        model, data = self.config.model, self.config.data
        assert model.feature_cache_dir is not None
        manifests = {split: Manifest.read(self.config.dataset / f"{split}.jsonl") for split in SPLITS}
        recognizer, _, _ = build_recognizer(self.config, manifests["train"])
        cache = FeatureCache(model.feature_cache_dir, recognizer.to(select_device()))
        track = self._status.track(ProgressLines(0, _print).track)
        for manifest in manifests.values():
            cache.fill(manifest, on_bad_audio=data.on_bad_audio, num_workers=data.num_workers, track=track)
        self._mark.touch()

    def is_done(self) -> bool:
        folder = self.config.model.feature_cache_dir
        return self._mark.exists() and folder is not None and folder.is_dir()

    def progress(self) -> tuple[float, str]:
        if self.is_done():
            return 1.0, str(self.config.model.feature_cache_dir)
        return self._status.read() or (0.0, "starting")


def caches_to_fill(configs: Sequence[Config], logs: Path) -> list[FillCache]:
    """One task for each cache that runs use."""
    tasks = {}
    for config in configs:
        model = config.model
        if model.feature_cache_dir is not None:
            content = [str(model.feature_cache_dir), model.encoder, model.head == "linear", str(config.dataset)]
            digest = hashlib.sha256(json.dumps(content).encode()).hexdigest()[:8]
            tasks[digest] = FillCache(config, logs / f"features-{digest}")
    return list(tasks.values())


def _print(line: str) -> None:
    print(line, flush=True)
