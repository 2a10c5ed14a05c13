"""The log of training: totals per group over all processes, and the records of `log.jsonl`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch import Tensor

from ..objectives.memberships import sum_by_group
from ..runtime.ranks import gather
from ..storage.json_files import append_line

if TYPE_CHECKING:
    from ..speech.batch import Batch
    from .run import Run


StepCallback: TypeAlias = Callable[[dict[str, Any]], None]
"""Called with the record of every step and validation."""

# Figures per group, which go to a separate file. The last three are only of groups that occur in the step.
BY_GROUP = ("weights", "losses", "num_utterances", "num_characters", "durations")


class StepTotals:
    """Sums over the batches of a step on the device; the host reads them only in `over_all_processes`."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._totals = torch.zeros(4, len(run.groups.names), device=run.accelerator.device)
        self.skipped: list[str] = []
        """Errors of unreadable audio, in this process."""

    def add(self, batch: Batch, losses: Tensor) -> None:
        kept = losses != math.inf
        seconds, characters = (
            values.to(self._totals, non_blocking=True)
            for values in (self._run.durations_of(batch.indices), batch.num_characters)
        )
        figures = torch.stack([kept.float(), losses.where(kept, 0.0), seconds, characters.where(kept, 0.0)])
        self._totals += sum_by_group(figures, batch.groups, self._totals.shape[1])

    def over_all_processes(self) -> tuple[dict[str, Any], list[float]]:
        """Figures for the log, and (G,) seconds of audio. All processes must call it."""
        skipped = gather(self.skipped) if self._run.config.data.on_bad_audio == "skip" else self.skipped
        totals = self._run.accelerator.reduce(self._totals, "sum").tolist()
        num_utterances, losses, seconds, num_characters = totals
        names = self._run.groups.names

        def of_present(values: list[float], digits: int | None = None) -> dict[str, float]:
            present = zip(names, values, seconds, strict=True)
            if self._run.groups.rows is not None:
                digits = 3  # shares of utterances
            return {name: round(value, digits) for name, value, duration in present if duration}

        by_group = zip(names, losses, num_utterances, strict=True)
        record = {
            "loss": sum(losses) / max(1, sum(num_utterances)),
            "losses": {name: loss / number if number else None for name, loss, number in by_group},
            "num_utterances": of_present(num_utterances),
            "num_characters": of_present(num_characters),
            "durations": of_present(seconds, 3),
            "audio_seconds": sum(seconds),
            **({"skipped": skipped} if skipped else {}),
        }
        return record, seconds


def log_step(run: Run, record: dict[str, Any], callback: StepCallback) -> None:
    """Appends the record of a step to the files of the run, and passes it to the trackers and the callback."""
    if not run.accelerator.is_main_process:
        return
    by_group = {key: record.pop(key) for key in BY_GROUP}
    append_line(run.folder.group_weights, {"step": record["step"], **by_group})
    record["seconds"] = round(run.progress.seconds, 3)
    append_line(run.folder.log, record)
    if record["step"] % run.config.training.log_every_steps == 0:
        track_figures(run, record, {key: by_group[key] for key in ("weights", "losses")})
    callback({**record, **by_group})


def track_figures(run: Run, record: dict[str, Any], by_name: dict[str, dict[str, Any]]) -> None:
    """Passes the numbers of a record to trackers such as TensorBoard. Nested values get names such as `weights/ces`."""
    flat = {f"{key}/{name}": value for key, values in by_name.items() for name, value in values.items()}
    figures = {name: value for name, value in {**record, **flat}.items() if isinstance(value, int | float)}
    run.accelerator.log(figures, step=record["step"])
