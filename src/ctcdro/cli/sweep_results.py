"""The results of a sweep on the terminal: test scores, ties in the selection, and which run folder to use."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .console import print_table, results
from .sweep_plan import setting_columns

if TYPE_CHECKING:
    from ..report.table import Cell, Table
    from ..sweeps.selection import Row, Selection
    from ..sweeps.sweep import SweepResult


def print_result(result: SweepResult) -> None:
    has_seeds = len(result.config.seeds) > 1
    print_table(result_table(result))
    results.print(f"In percent, on test{'; mean ± standard deviation over seeds' if has_seeds else ''}")
    for selection in result.selections:
        if selection.tied:
            results.print(describe_ties(selection), soft_wrap=True)
    if wrong := {row.setting.method for row in result.rows if _is_blank(row)}:
        results.print(f"The model may predict only blanks, so train longer: {', '.join(sorted(wrong))}", soft_wrap=True)
    seed = ", from the seed with the lowest worst CER on dev" if has_seeds else ""
    results.print(f"Run folders for `ctcdro transcribe`{seed}:", soft_wrap=True)
    for selection in result.selections:
        path = result.folder.path / selection.selected.best_run
        results.print(f"  {selection.selected.setting.method}: {path}", soft_wrap=True)


def result_table(result: SweepResult) -> Table:
    """One line per selected setting, averaged over seeds. A star marks methods with ties in the selection."""
    from ..report.table import Column, Table, percent
    from ..speech.language_names import language_name

    by_setting: dict[str, list[Row]] = {}
    for row in result.rows:
        by_setting.setdefault(row.setting.name, []).append(row)
    tied = {selection.selected.setting.name for selection in result.selections if selection.tied}

    def average(rates: Sequence[float]) -> Cell:
        return percent(statistics.fmean(rates), statistics.stdev(rates) if len(rates) > 1 else None)

    def method(runs: list[Row]) -> str:
        return runs[0].setting.method + (" *" if runs[0].setting.name in tied else "")

    columns: list[Column[list[Row]]] = [
        Column("method", method),
        *setting_columns(result.config, lambda runs: runs[0].setting)[1:],
        Column("worst CER", lambda runs: average([run.worst_cer for run in runs]), "lower"),
        Column("worst language", lambda runs: ", ".join(sorted({language_name(run.worst_language) for run in runs}))),
        Column("mean CER", lambda runs: average([run.mean_cer for run in runs]), "lower"),
        Column("LID", lambda runs: average([run.mean_lid for run in runs]), "higher"),
    ]
    return Table.of("sweep", "", columns, by_setting.values())


def describe_ties(selection: Selection) -> str:
    lowest, selected = selection.lowest.setting, selection.selected.setting
    return (
        f"* {selected.method}: {len(selection.tied)} of {len(selection.differences)} other settings cannot be "
        f"distinguished from the one with the lowest worst CER on dev, {lowest.name}: the 95% interval of the "
        f"difference includes zero. Selected by mean CER: {selected.name}"
    )


def _is_blank(row: Row) -> bool:
    return row.worst_cer == row.mean_cer == 1 and row.mean_lid == 0
