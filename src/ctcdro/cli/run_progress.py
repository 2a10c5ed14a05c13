"""Progress of training: one run, or the runs of a sweep."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Column

from ..runtime.ranks import is_first_process
from ..speech.language_names import language_name
from ..training.progress_text import LinePace, describe_start, describe_validation
from . import console

if TYPE_CHECKING:
    from ..runs.config import Config
    from ..sweeps.jobs import LaunchState

Item = TypeVar("Item")

BAR_WIDTH = 20
LAST_COLUMN = Column(ratio=1, no_wrap=True, overflow="ellipsis")  # the one that narrow terminals cut


class TrainingProgress:
    """Prints a line per validation; on a terminal also shows a bar of steps with figures.

    The bar starts with the first step, so that errors before it stand alone.
    """

    def __init__(self, config: Config) -> None:
        from ..training.optimizer import num_steps

        figures = TextColumn("{task.fields[figures]}", table_column=LAST_COLUMN)
        columns = (BarColumn(BAR_WIDTH), MofNCompleteColumn(), TimeRemainingColumn(), figures)
        is_shown = is_first_process() and console.shows_bars()
        self._bar = Progress(*columns, console=console.messages, disable=not is_shown, transient=True, expand=True)
        self._num_steps = num_steps(config)
        self._groups_are_languages = config.data.group_by == ("lang",)
        self._task: Any = None
        self._last: float | None = None

    def __enter__(self) -> TrainingProgress:
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()

    def track(self, sequence: Iterable[Item], description: str, total: float | None = None) -> Iterator[Item]:
        """Shows work before the first step in a separate bar."""
        task = None
        for number, item in enumerate(sequence, 1):
            yield item
            if task is None:
                self._bar.start()
                task = self._bar.add_task("", total=total, figures=description)
            self._bar.update(task, completed=number)
        if task is not None:
            self._bar.remove_task(task)

    def __call__(self, record: dict[str, Any]) -> None:
        if "started_from" in record:
            text = console.escaped(describe_start(record))
            self._bar.console.print(text, highlight=False, markup=False, soft_wrap=True)
            return
        if "validation" in record:
            self._bar.console.print(describe_validation(record), highlight=False, markup=False, soft_wrap=True)
            return
        if self._task is None:
            self._bar.start()
            self._task = self._bar.add_task("", total=self._num_steps, figures="")
        group, weight = max(record["weights"].items(), key=lambda item: item[1])
        name = language_name(group) if self._groups_are_languages else group
        before, self._last = self._last, record["seconds"]
        speed = "" if before is None else f", {record['audio_seconds'] / (record['seconds'] - before):.0f} s of audio/s"
        figures = f"loss {record['loss']:.2f}{speed}, largest weight {name} {weight:.2f}"
        self._bar.update(self._task, completed=record["step"], figures=figures)


class JobProgress:
    """Prints a line when a phase begins, and when a run starts or ends.

    A terminal also shows a bar for all runs and one per running run. A file gets a line about each running run from
    time to time.

    Args:
        heading: printed before the first run starts.
    """

    def __init__(self, heading: str = "") -> None:
        self._heading = heading
        name, words = (TextColumn("{task.description}"), TextColumn("{task.fields[words]}", table_column=LAST_COLUMN))
        columns = (name, BarColumn(BAR_WIDTH), TimeElapsedColumn(), TimeRemainingColumn(), words)
        is_shown = console.shows_bars()
        self._bar = Progress(*columns, console=console.messages, disable=not is_shown, transient=True, expand=True)
        self._state: LaunchState | None = None
        self._ended: set[str] = set()
        self._paces: dict[str, LinePace] = {}
        self._bars: dict[str, Any] = {}

    def __enter__(self) -> JobProgress:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def __call__(self, state: LaunchState) -> None:
        if self._heading:
            self._print(self._heading)
            self._heading = ""
        if state is not self._state:
            self._begin_phase(state)
        self._print_changes(state)
        if state.is_stopping:
            self._print("Stopping; runs are writing their checkpoints")
        if self._bar.disable:
            self._print_running(state)
        else:
            self._show_running(state)

    def _begin_phase(self, state: LaunchState) -> None:
        self._bar.start()
        self._state, self._ended, self._paces = state, {task.name for task in state.done}, {}
        if state.waiting or state.running:
            number = f"{state.num_tasks} jobs" if state.num_tasks > 1 else "1 job"
            finished = f", of which {len(state.done)} are already finished" if state.done else ""
            self._print(f"{state.phase}: {number}{finished}")

    def _print_changes(self, state: LaunchState) -> None:
        for task in state.running:
            if task.name not in self._paces:
                self._paces[task.name] = LinePace()
                self._print(f"{task.name} started")
        outcomes = [(task.name, f": {task.progress()[1]}") for task in state.done if task.name not in self._ended]
        outcomes += [(one.name, " failed") for one in state.failures if one.name not in self._ended]
        for name, outcome in outcomes:
            self._ended.add(name)
            self._print(f"{name}{outcome} ({len(self._ended)} of {state.num_tasks})")

    def _print_running(self, state: LaunchState) -> None:
        for task in state.running:
            fraction, words = task.progress()
            if self._paces[task.name].is_due(fraction) and not task.is_done():
                self._print(f"{task.name}: {words}")

    def _show_running(self, state: LaunchState) -> None:
        running = {task.name: task.progress() for task in state.running}
        for name in self._bars.keys() - {"all", *running}:
            self._bar.remove_task(self._bars.pop(name))
        finished = len(self._ended) + sum(fraction for fraction, _ in running.values())
        bars = {"all": (finished / max(1, state.num_tasks), f"{len(self._ended)} of {state.num_tasks}"), **running}
        for name, (fraction, words) in bars.items():
            if name not in self._bars:
                self._bars[name] = self._bar.add_task(name, total=1.0, words="")
            self._bar.update(self._bars[name], completed=fraction, words=words)

    def _print(self, text: str) -> None:
        self._bar.console.print(text, highlight=False, markup=False, soft_wrap=True)
