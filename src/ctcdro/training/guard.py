"""The guard of `error-weighted`: no language may become much worse than in a baseline run (`objective.baseline`).

After each validation, the CER of each language on the whole development set is compared with that of the baseline at
the same number of batches, which is interpolated between its validations. All processes have all predictions, so their
group weights are the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..runs.config import Config, read_config
from ..runs.folder import RunFolder, is_number
from ..scoring.budget import Budget
from ..scoring.scores import score
from ..scoring.transcripts import Prediction
from ..storage.json_files import read_log

if TYPE_CHECKING:
    from ..objectives.objective import Objective


@dataclass(frozen=True)
class Guard:
    """The CER of each language in the baseline run."""

    log: Path
    """File that it was read from."""
    num_batches: list[int]
    """Batches before each validation."""
    cer: dict[str, list[float]]
    """By language, one per validation."""
    selected_cer: dict[str, float]
    """Of the model that the baseline selected."""

    def cer_at(self, num_batches: int) -> dict[str, float]:
        """The CER of the baseline after this many batches; before its first validation, that of the first."""
        return {name: float(np.interp(num_batches, self.num_batches, rates)) for name, rates in self.cer.items()}

    def update(self, objective: Objective, num_batches: int, predictions: Sequence[Prediction]) -> dict[str, Any]:
        """Passes the CERs of both runs to the objective, and returns their fields in the log.

        Args:
            num_batches: batches so far, over all processes.
            predictions: for the whole development set.
        """
        rates = {name: rate for name, rate in score(predictions).rates("cer").items() if rate is not None}
        baseline_rates = self.cer_at(num_batches)
        objective.update_budgets(rates, baseline_rates)
        return {"whole_dev_cer": {name: rates[name] for name in self.cer}, "baseline_cer": baseline_rates}

    def budget(self, config: Config, selected: Mapping[str, Any]) -> Budget:
        """Compares the model that a run selected, by the record of its validation, with that of the baseline."""
        settings = config.objective.settings
        limit = settings["max_relative_loss"]
        return Budget(str(settings["baseline"]), limit, self.selected_cer, selected["whole_dev_cer"])


def read_guard(config: Config, languages: Sequence[str]) -> Guard | None:
    """Reads the baseline of a configuration; None if there is none.

    Args:
        languages: the groups of the run.

    Raises:
        ValueError: if it is not a finished run with validations of these languages on the same dataset.
    """
    path: Path | None = config.objective.settings.get("baseline")
    if path is None:
        return None
    folder = RunFolder(path)
    try:
        folder.require_model()
    except ValueError as error:
        raise ValueError(f"objective.baseline: {error}") from error
    baseline = read_config(folder.config)
    _check_baseline(path, baseline, config)
    records = [record for record in read_log(folder.log) if "validation" in record]
    if not records:
        raise ValueError(f"objective.baseline: {folder.log} has no validations. Train the baseline again.")
    rates = [_read_rates(folder.log, record, languages) for record in records]
    selected = [number for number, record in enumerate(records) if record.get("is_best")]
    return Guard(
        folder.log,
        [record["step"] * baseline.optimizer.batches_per_step for record in records],
        {name: [of_record[name] for of_record in rates] for name in languages},
        rates[selected[-1] if selected else -1],
    )


def _check_baseline(path: Path, baseline: Config, config: Config) -> None:
    if baseline.dataset.resolve() != config.dataset.resolve():
        raise ValueError(
            f"objective.baseline: {path} was trained on {baseline.dataset}, but `dataset` is {config.dataset}. Train a "
            "baseline on the same dataset."
        )
    if baseline.objective.settings.get("signal") == "error_rate":
        raise ValueError(
            f"objective.baseline: {path} was validated on one half of the development set (objective.signal: "
            "error_rate). Use a run with another objective, such as erm."
        )


def _read_rates(log: Path, record: Mapping[str, Any], languages: Sequence[str]) -> dict[str, float]:
    """The CER of each language in the record of a validation."""
    rates: Any = record.get("cer")
    if not isinstance(rates, dict) or not is_number(record.get("step")):
        raise ValueError(f"objective.baseline: {log} was not written by `ctcdro train`: got {record!r:.60}.")
    missing = [name for name in languages if not is_number(rates.get(name))]
    if missing:
        raise ValueError(
            f"objective.baseline: {log} has no CER of {', '.join(missing)}; it has {', '.join(rates)}. Train a "
            "baseline on the languages of this run."
        )
    return {name: float(rates[name]) for name in languages}
