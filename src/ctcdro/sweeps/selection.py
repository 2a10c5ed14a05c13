"""Selects one setting of each method on the development set, before the test set is decoded.

The rule is the paper's, the lowest CER of the worst language, with a tolerance: settings whose difference from the
lowest is within its 95% interval over utterances count as tied, and the lowest mean CER decides among them.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..runs.folder import RunFolder, read_about
from ..scoring.edits import Edits
from ..scoring.intervals import Interval
from ..scoring.scores import Counts, count, read_scores
from ..scoring.transcripts import read_predictions
from .config import BASELINE, SweepSetting

RULE = (
    "for each method, the lowest CER of the worst language, averaged over seeds; among settings whose difference from "
    "it is within the 95% interval, the lowest mean CER"
)


@dataclass(frozen=True)
class Row:
    """Scores of one run, as in table.json. Rates are fractions."""

    setting: SweepSetting
    run: str
    """Path of the run folder, relative to the folder of the sweep."""
    seed: int
    worst_cer: float
    worst_language: str
    mean_cer: float
    mean_lid: float
    """Language identification accuracy, mean over languages."""
    seconds: float
    """Training time."""

    def to_record(self) -> dict[str, Any]:
        return {**self.setting.to_record(), **{key: value for key, value in vars(self).items() if key != "setting"}}


def read_row(run: RunFolder, setting: SweepSetting, seed: int, split: str) -> Row:
    scores = read_scores(run.scores(split))
    worst, mean_cer, mean_lid = scores.worst("cer"), scores.mean("cer"), scores.mean("lid")
    if worst is None or mean_cer is None or mean_lid is None:
        raise ValueError(f"{run.scores(split)}: no utterance has a reference text. Check the manifest of {split}.")
    seconds = read_about(run).get("seconds", 0.0)
    path = f"{run.path.parent.name}/{run.path.name}"
    return Row(setting, path, seed, worst[1], worst[0], mean_cer, mean_lid, seconds)


def read_counts(runs: Sequence[RunFolder], split: str, profile: str) -> Counts:
    """The edits of each utterance, summed over runs with different seeds."""
    counts = [count(read_predictions(run.predictions(split)), profile) for run in runs]

    def total(unit: str) -> Edits:
        parts = [getattr(one, unit) for one in counts]
        return Edits(*(np.sum([getattr(part, name) for part in parts], axis=0) for name in Edits.__slots__))

    return replace(counts[0], characters=total("characters"), words=total("words"))


@dataclass(frozen=True)
class SettingResult:
    """Development scores of a setting, averaged over its seeds."""

    setting: SweepSetting
    worst_cer: float
    mean_cer: float
    runs: tuple[str, ...] = ()
    """Paths of the run folders, relative to the folder of the sweep."""
    best_run: str = ""
    """The run whose worst language has the lowest CER."""


def average(rows: Sequence[Row]) -> SettingResult:
    """The result of a setting from the rows of its seeds."""
    best = min(rows, key=lambda row: (row.worst_cer, row.mean_cer))
    worst_cer, mean_cer = (statistics.fmean(getattr(row, name) for row in rows) for name in ("worst_cer", "mean_cer"))
    return SettingResult(rows[0].setting, worst_cer, mean_cer, tuple(row.run for row in rows), best.run)


@dataclass(frozen=True)
class Selection:
    """The selected setting of a method."""

    selected: SettingResult
    lowest: SettingResult
    """The setting with the lowest worst CER."""
    differences: dict[str, Interval]
    """By the names of the other settings: worst CER minus the lowest, with its interval over utterances."""

    @property
    def num_settings(self) -> int:
        return len(self.differences) + 1

    @property
    def tied(self) -> list[str]:
        """Names of the other settings whose interval includes zero."""
        return [name for name, difference in self.differences.items() if difference.low <= 0 <= difference.high]


Differ = Callable[[SweepSetting, SweepSetting], Interval]
"""(first, second) -> worst CER of the second minus that of the first, with its interval."""


def select(results: Sequence[SettingResult], differ: Differ) -> list[Selection]:
    """Selects one setting of each method. Ties that remain go to the lower worst CER, then to the first setting."""
    by_method: dict[str, list[SettingResult]] = {}
    for result in results:
        by_method.setdefault(result.setting.method, []).append(result)
    return [_select(candidates, differ) for candidates in by_method.values()]


def _select(candidates: Sequence[SettingResult], differ: Differ) -> Selection:
    lowest = min(candidates, key=lambda result: (result.worst_cer, result.mean_cer))
    others = [result for result in candidates if result is not lowest]
    differences = {result.setting.name: differ(lowest.setting, result.setting) for result in others}
    tied = Selection(lowest, lowest, differences).tied
    eligible = [lowest, *(result for result in others if result.setting.name in tied)]
    return Selection(min(eligible, key=lambda result: (result.mean_cer, result.worst_cer)), lowest, differences)


def selection_record(results: Sequence[SettingResult], selections: Sequence[Selection]) -> list[dict[str, Any]]:
    """The settings in selected.json."""
    baseline = next((one.selected for one in selections if one.selected.setting.objective == BASELINE), None)
    differences = {name: value for selection in selections for name, value in selection.differences.items()}
    tied = [name for selection in selections for name in (*selection.tied, *_if_tied(selection))]
    return [
        {
            **result.setting.to_record(),
            "worst_cer": result.worst_cer,
            "mean_cer": result.mean_cer,
            "gain": None if baseline is None else baseline.worst_cer - result.worst_cer,
            "difference": _interval_record(differences.get(result.setting.name)),
            "tied": result.setting.name in tied,
            "selected": any(result is selection.selected for selection in selections),
            "runs": result.runs,
            "best_run": result.best_run,
        }
        for result in results
    ]


def _if_tied(selection: Selection) -> list[str]:
    return [selection.lowest.setting.name] if selection.tied else []


def _interval_record(interval: Interval | None) -> dict[str, float] | None:
    return None if interval is None else {"value": interval.value, "low": interval.low, "high": interval.high}
