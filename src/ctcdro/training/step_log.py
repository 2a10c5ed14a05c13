"""What a step leaves in the log: totals per group over all processes, and the records of `log.jsonl`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import torch
from torch import Tensor

from ..runtime.ranks import gather
from ..storage.json_files import append_line

if TYPE_CHECKING:
    from ..speech.batch import Batch
    from .state import Run


class StepCallback(Protocol):
    """Receives the record of every step and epoch."""

    def __call__(self, record: dict[str, Any]) -> None: ...


class StepSums(NamedTuple):
    """Sums over the batches of a step, of all processes; lists have one number per group."""

    num_utterances: list[float]
    losses: list[float]
    seconds: list[float]
    skipped: list[str]

    def record(self, names: Sequence[str]) -> dict[str, Any]:
        means = [
            loss / number if number else None for loss, number in zip(self.losses, self.num_utterances, strict=True)
        ]
        return {
            "loss": sum(self.losses) / max(1, sum(self.num_utterances)),
            "losses": dict(zip(names, means, strict=True)),
            "audio_seconds": sum(self.seconds),
            **({"skipped": self.skipped} if self.skipped else {}),
        }


class StepTotals:
    """Adds up the batches of a step on the device; nothing is read from it before `over_all_processes`."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._totals = torch.zeros(3, len(run.groups.names), device=run.accelerator.device)
        self.skipped: list[str] = []
        """Errors of unreadable audio, in this process."""

    def add(self, batch: Batch, losses: Tensor) -> None:
        """Args:
        losses: (B,) detached.
        """
        kept = losses != math.inf
        seconds = self._run.durations[batch.indices].to(self._totals, non_blocking=True)
        self._totals.index_add_(1, batch.groups, torch.stack([kept.float(), losses.where(kept, 0.0), seconds]))

    def over_all_processes(self) -> StepSums:
        """The sums over all processes, which must all call it."""
        skips = self._run.config.batches.on_fault == "skip"
        skipped = gather(self.skipped) if skips else self.skipped
        num_utterances, losses, seconds = self._run.accelerator.reduce(self._totals, "sum").tolist()
        return StepSums(num_utterances, losses, seconds, skipped)


def log_step(run: Run, record: dict[str, Any], callback: StepCallback) -> None:
    """Appends the record of a step to the files of the run, and passes it to trackers and to the callback."""
    if not run.accelerator.is_main_process:
        return
    by_group = {key: record.pop(key) for key in ("weights", "losses")}
    append_line(run.folder.group_weights, {"step": record["step"], **by_group})
    record["seconds"] = round(run.progress.seconds, 3)
    append_line(run.folder.log, record)
    if record["step"] % run.config.training.track_every == 0:
        track_figures(run, record, by_group)
    callback({**record, **by_group})


def track_figures(run: Run, record: dict[str, Any], by_name: dict[str, dict[str, Any]]) -> None:
    """Passes the numbers of a record to the trackers, such as TensorBoard; those by name as `weights/ces`."""
    flat = {f"{key}/{name}": value for key, values in by_name.items() for name, value in values.items()}
    figures = {name: value for name, value in {**record, **flat}.items() if isinstance(value, int | float)}
    run.accelerator.log(figures, step=record["step"])
