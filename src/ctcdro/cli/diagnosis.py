"""The diagnosis of a run, the budget of its guard and errors before training, printed at the end of training."""

from __future__ import annotations

from ..report.tables.before_after import before_after_table
from ..report.tables.budget import budget_table
from ..report.tables.diagnosis import diagnosis_table
from ..runs.folder import RunFolder
from ..scoring.before_after import describe_before_after, read_before_after
from ..scoring.budget import describe_budget, read_budget
from ..scoring.diagnosis import describe, read_diagnosis
from . import console

MAX_ROWS = 20


def print_diagnosis(folder: RunFolder) -> None:
    """Prints the worst languages with their figures, and what limits each, to stderr."""
    diagnosis = read_diagnosis(folder.diagnosis)
    if diagnosis is None:
        return
    console.messages.print(diagnosis_table(diagnosis, max_rows=MAX_ROWS).to_rich(stack_titles=True))
    lines = describe(diagnosis)
    if len(diagnosis.languages) > MAX_ROWS:
        lines = [f"{len(diagnosis.languages) - MAX_ROWS} more languages are in {folder.diagnosis}", *lines]
    if any("label-errors" in own.verdicts for own in diagnosis.languages.values()):
        lines.append(f"Suspicious utterances: {folder.suspicious}")
    for line in lines:
        _print_line(line)


def print_budget(folder: RunFolder) -> None:
    """Prints the languages that lost most compared with the baseline, and those over their budget, to stderr."""
    budget = read_budget(folder.budget)
    if budget is None:
        return
    console.messages.print(budget_table(budget, max_rows=MAX_ROWS).to_rich(stack_titles=True))
    _print_line(describe_budget(budget))


def print_before_after(folder: RunFolder) -> None:
    """Prints what a run that started from another model learned and forgot, to stderr."""
    found = read_before_after(folder.before_after)
    if found is None:
        return
    console.messages.print(before_after_table(found, max_rows=MAX_ROWS).to_rich(stack_titles=True))
    _print_line(describe_before_after(found))


def _print_line(line: str) -> None:
    console.messages.print(console.escaped(line), highlight=False, markup=False, soft_wrap=True)
