"""The log of training: totals per group over all processes, and the records of `log.jsonl`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

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


class StepFigures(NamedTuple):
    """What the host reads from the device in a step, by group and over all processes."""

    num_utterances: list[float]
    losses: list[float]
    seconds: list[float]
    num_characters: list[float]
    weights: list[float]
    gradient_norm: float
    skipped: list[str]
    """Errors of unreadable audio."""


class StepTotals:
    """Sums over the batches of a step on the device; the host reads them only in `read`."""

    def __init__(self, run: Run) -> None:
        self._run = run
        num_groups = len(run.groups.names)
        # The last two count skipped utterances and stop signals.
        self._totals = torch.zeros(4 * num_groups + 2, device=run.accelerator.device)
        self._by_group = self._totals[:-2].view(4, num_groups)
        self.skipped: list[str] = []
        """Errors of unreadable audio, in this process."""

    def add(self, batch: Batch, losses: Tensor) -> None:
        kept = losses != math.inf
        seconds, characters = (
            values.to(self._totals, non_blocking=True)
            for values in (self._run.durations_of(batch.indices), batch.num_characters)
        )
        figures = torch.stack([kept.float(), losses.where(kept, 0.0), seconds, characters.where(kept, 0.0)])
        self._by_group += sum_by_group(figures, batch.groups, self._by_group.shape[1])

    def read(self, gradient_norm: Tensor) -> StepFigures:
        """Reads the figures of the step in one transfer, the only one for which the host waits in a step.

        It also exchanges stop signals, and passes the weights to the sampler. All processes must call it.

        Args:
            gradient_norm: () on the device, the same in all processes.
        """
        run, num_groups = self._run, self._by_group.shape[1]
        self._totals[-2] += len(self.skipped)
        self._totals[-1] += run.stop_signals.num_received
        totals = run.accelerator.reduce(self._totals, "sum")
        values = torch.cat([totals, gradient_norm[None], run.objective.weights]).tolist()
        utterances, losses, seconds, characters = (
            values[start : start + num_groups] for start in range(0, 4 * num_groups, num_groups)
        )
        num_skipped, num_signals, norm, *weights = values[4 * num_groups :]
        run.stop_signals.any_process_received = num_signals > 0
        run.host_weights.replace(weights)
        skipped = gather(self.skipped) if num_skipped else []
        return StepFigures(utterances, losses, seconds, characters, weights, norm, skipped)


def make_record(run: Run, figures: StepFigures) -> dict[str, Any]:
    """The figures of a step as fields of its record."""
    names = run.groups.names

    def of_present(values: list[float], digits: int | None = None) -> dict[str, float]:
        present = zip(names, values, figures.seconds, strict=True)
        if run.groups.rows is not None:
            digits = 3  # shares of utterances
        return {name: round(value, digits) for name, value, duration in present if duration}

    by_group = zip(names, figures.losses, figures.num_utterances, strict=True)
    return {
        "weights": dict(zip(names, figures.weights, strict=True)),
        "loss": sum(figures.losses) / max(1, sum(figures.num_utterances)),
        "losses": {name: loss / number if number else None for name, loss, number in by_group},
        "num_utterances": of_present(figures.num_utterances),
        "num_characters": of_present(figures.num_characters),
        "durations": of_present(figures.seconds, 3),
        "audio_seconds": sum(figures.seconds),
        **({"skipped": figures.skipped} if figures.skipped else {}),
    }


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
