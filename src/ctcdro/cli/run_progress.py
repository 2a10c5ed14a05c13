"""Progress of training: one run, or the runs of a sweep."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from ..runtime.ranks import is_first_process
from ..scoring.formatting import format_percent
from ..speech.language_names import language_name
from . import console

if TYPE_CHECKING:
    from ..runs.config import Config
    from ..sweeps.jobs import LaunchState

Item = TypeVar("Item")


class TrainingProgress:
    """Prints a line per validation; on a terminal also shows a bar of steps with figures.

    The bar starts with the first step, so that errors before it stand alone.
    """

    def __init__(self, config: Config) -> None:
        from ..training.optimizer import num_steps

        columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.fields[figures]}"))
        is_shown = is_first_process() and console.shows_bars()
        self._bar = Progress(*columns, console=console.messages, disable=not is_shown, transient=True)
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
        if "validation" in record:
            self._print_validation(record)
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

    def _print_validation(self, record: dict[str, Any]) -> None:
        best = ", best so far" if record["is_best"] else ""
        worst = f"worst {language_name(record['worst_language'])} {format_percent(record['worst_cer'])}% CER"
        line = f"validation {record['validation']}: dev loss {record['dev_loss']:.2f}, {worst}{best}"
        self._bar.console.print(line, highlight=False, markup=False)


class JobProgress:
    """Prints a line per run that ended; on a terminal also shows a bar for all runs and one per running run.

    Args:
        heading: printed before the first run starts.
    """

    def __init__(self, heading: str = "") -> None:
        self._heading = heading
        name, words = TextColumn("{task.description}"), TextColumn("{task.fields[words]}")
        columns = (name, BarColumn(), TimeElapsedColumn(), TimeRemainingColumn(), words)
        is_shown = console.shows_bars()
        self._bar = Progress(*columns, console=console.messages, disable=not is_shown, transient=True)
        self._state: LaunchState | None = None
        self._ended: set[str] = set()
        self._bars: dict[str, Any] = {}

    def __enter__(self) -> JobProgress:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def __call__(self, state: LaunchState) -> None:
        if self._heading:
            self._print(self._heading)
            self._heading = ""
        if state is not self._state:  # another launch: the test of the selected settings
            self._bar.start()
            self._state, self._ended = state, {task.name for task in state.done}
            if state.done and (state.waiting or state.running):
                self._print(f"{len(state.done)} of {state.num_tasks} are already finished")
        outcomes = {task.name: "finished" for task in state.done} | {task.name: "failed" for task in state.failures}
        for name in outcomes.keys() - self._ended:
            self._ended.add(name)
            self._print(f"{name} {outcomes[name]} ({len(self._ended)} of {state.num_tasks})")
        if state.is_stopping:
            self._print("Stopping; runs are writing their checkpoints")
        if not self._bar.disable:
            self._show_running(state)

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
