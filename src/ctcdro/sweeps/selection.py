"""Selects settings by the paper's rule, on the development set, before the test set is decoded."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..runs.folder import RunFolder, read_about
from ..scoring.scores import read_scores
from .config import BASELINE, SweepSetting

RULE = "for each objective, the lowest CER of the worst language, then the lowest mean CER"


@dataclass(frozen=True)
class Row:
    """Scores of one run, as in table.json. Rates are fractions."""

    setting: SweepSetting
    seed: int
    worst_cer: float
    worst_language: str
    mean_cer: float
    mean_lid: float
    """Language identification accuracy, mean over languages."""
    seconds: float
    """Training time."""

    def to_record(self) -> dict[str, Any]:
        return {**self.setting.model_dump(), **{key: value for key, value in vars(self).items() if key != "setting"}}


def read_row(run: RunFolder, setting: SweepSetting, seed: int, split: str) -> Row:
    scores = read_scores(run.scores(split))
    worst, mean_cer, mean_lid = scores.worst("cer"), scores.mean("cer"), scores.mean("lid")
    if worst is None or mean_cer is None or mean_lid is None:
        raise ValueError(f"{run.scores(split)}: no utterance has a reference text. Check the manifest of {split}.")
    seconds = read_about(run).get("seconds", 0.0)
    return Row(setting, seed, worst[1], worst[0], mean_cer, mean_lid, seconds)


@dataclass(frozen=True)
class SettingResult:
    """Development scores of a setting, averaged over its seeds."""

    setting: SweepSetting
    worst_cer: float
    mean_cer: float


def average(setting: SweepSetting, rows: Sequence[Row]) -> SettingResult:
    worst_cer = statistics.fmean(row.worst_cer for row in rows)
    return SettingResult(setting, worst_cer, statistics.fmean(row.mean_cer for row in rows))


def select(results: Sequence[SettingResult]) -> list[SettingResult]:
    """Selects the setting of each objective with the largest gain over the baseline in the CER of the worst language.

    Because the baseline is the same for all, this is the setting with the lowest CER. Ties are resolved by the lowest
    mean CER, then by order.
    """
    by_objective: dict[str, list[SettingResult]] = {}
    for result in results:
        by_objective.setdefault(result.setting.objective, []).append(result)
    return [min(same, key=lambda result: (result.worst_cer, result.mean_cer)) for same in by_objective.values()]


def selection_record(results: Sequence[SettingResult], selected: Sequence[SettingResult]) -> list[dict[str, Any]]:
    """The records in selected.json: settings with development scores, gain over the baseline, and whether selected."""
    baseline = next((result.worst_cer for result in results if result.setting.objective == BASELINE), None)
    return [
        {
            **result.setting.model_dump(),
            "worst_cer": result.worst_cer,
            "mean_cer": result.mean_cer,
            "gain": None if baseline is None else baseline - result.worst_cer,
            "chosen": result in selected,
        }
        for result in results
    ]
