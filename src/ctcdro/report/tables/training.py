"""Tables of training: time, settings and group weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...runs.parsing import format_setting
from ...speech.language_names import language_name
from ..read_runs import RunResult
from ..study import Study, differing_settings
from ..table import Cell, Column, Table


def time_table(study: Study) -> Table:
    columns: list[Column[RunResult]] = [
        Column("run", study.label),
        Column("steps", lambda run: run.speed.num_steps, decimals=0),
        Column("minutes", lambda run: run.speed.seconds and run.speed.seconds / 60),
        Column("hours of audio", lambda run: run.speed.audio_seconds and run.speed.audio_seconds / 3600, decimals=2),
        Column("s of audio / s", lambda run: run.speed.audio_per_second),
        Column("machine", lambda run: _machine(run.about)),
    ]
    caption = (
        "Steps, wall-clock time including validation, amount of training audio, and seconds of audio per second of "
        "training (median over steps)."
    )
    return Table.of("time", caption, columns, study.runs)


def differences_table(study: Study) -> Table:
    def setting_column(key: str) -> Column[RunResult]:
        return Column(key, lambda run: format_setting(run.config.effective_values().get(key)))

    different = differing_settings(study.runs)
    columns: list[Column[RunResult]] = [Column("run", study.label), *map(setting_column, different)]
    caption = "Settings that differ between runs; – means that the method does not use the setting."
    return Table.of("differences", caption, columns, study.runs)


def settings_table(study: Study) -> Table:
    config, different = study.runs[0].config.effective_values(), differing_settings(study.runs)
    columns: list[Column[str]] = [
        Column("setting", lambda key: key),
        Column("value", lambda key: format_setting(config[key])),
    ]
    return Table.of(
        "settings", "Settings that all runs share.", columns, [key for key in config if key not in different]
    )


def weights_table(study: Study) -> Table:
    def group_column(group: str) -> Column[RunResult]:
        def cell(run: RunResult) -> Cell:
            weights = run.weights.groups.get(group)
            return Cell(weights[-1], interval=(min(weights), max(weights))) if weights else Cell(None)

        return Column(language_name(group), cell, decimals=2)

    groups = sorted({name for run in study.runs for name in run.weights.groups})
    columns: list[Column[RunResult]] = [Column("run", study.label), *map(group_column, groups)]
    caption = "Weight of each group at the end of training, with its lowest and highest weight in parentheses."
    return Table.of("weights", caption, columns, study.runs)


def _machine(about: Mapping[str, Any]) -> str | None:
    machine = about.get("machine")
    if not isinstance(machine, dict):
        return None
    processes = about.get("num_processes", 1)
    unit = "process" if processes == 1 else "processes"
    return f"{machine.get('processor', '?')}, {machine.get('cores', '?')} cores, {processes} {unit}"
