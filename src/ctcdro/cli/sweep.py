"""`ctcdro sweep` and `ctcdro demo`."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ..objectives.methods import METHODS
from ..runtime.extras import extra

if TYPE_CHECKING:
    from ..report.table import Cell, Table
    from ..sweeps.jobs import Failure, LaunchState
    from ..sweeps.selection import Row


def sweep(
    config: Annotated[Path | None, typer.Argument(help="YAML file of a sweep or a run.")] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Folder of the sweep.")] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", help="Override a key, e.g. seeds=[0,1] or run.training.num_batches=400."),
    ] = None,
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", help="Runs at a time. Default: one per core; all on Slurm.", min=1)
    ] = None,
    threads: Annotated[
        int | None, typer.Option(help="CPU threads per run. Default: equal share of the cores; 4 on Slurm.", min=1)
    ] = None,
    cpu: Annotated[bool, typer.Option("--cpu", help="Use no GPU. Default: one GPU per run, if there are any.")] = False,
    cluster: Annotated[Literal["local", "slurm"], typer.Option(help="Train on this machine or on Slurm.")] = "local",
    partition: Annotated[str | None, typer.Option(help="Slurm partition to submit to.")] = None,
    hours: Annotated[
        float, typer.Option(help="Time limit of a Slurm job; it is then queued again and resumes.", min=0.01)
    ] = 24.0,
    sbatch: Annotated[list[str] | None, typer.Option(help="Further sbatch option, e.g. account=speech.")] = None,
    show_schema: Annotated[bool, typer.Option("--schema", help="Print the JSON schema of sweeps, and exit.")] = False,
) -> None:
    """Train several settings, select on dev by the paper's rule, and score the selected settings on test.

    Run the same command again to resume, or to retry failed runs. Exit status: 1 if runs failed.

    Example: ctcdro sweep mel-small.yaml --out sweep
    """
    with extra("sweep", "`ctcdro sweep`"):
        from ..sweeps.config import SweepConfig, read_sweep
        from ..sweeps.submission import JobOptions
        from ..sweeps.sweep import sweep as run_sweep

    if show_schema:
        typer.echo(json.dumps(SweepConfig.model_json_schema(), indent=2))
        return
    if config is None or out is None:
        raise typer.BadParameter("CONFIG and --out are required.")
    settings = read_sweep(config, overrides or [])
    options = JobOptions(cluster, jobs, threads, cpu, round(60 * hours) or 1, partition, _parse_options(sbatch or []))
    with JobProgress() as progress:
        result = run_sweep(settings, out, options, progress)
    _exit_if_failed(result.failures)
    print_rows(result.rows)
    typer.echo(f"Table: {result.folder.table}\nSelection: {result.folder.selected}")


def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for corpus, runs and page.")] = Path("ctcdro-demo"),
    seed: Annotated[int, typer.Option(help="Seed of training; the corpus is always the same.", min=0)] = 0,
    jobs: Annotated[int | None, typer.Option("--jobs", "-j", help="Runs at a time. Default: all.", min=1)] = None,
    minutes: Annotated[str | None, typer.Option(help="Minutes of train:dev:test per language.", hidden=True)] = None,
    steps: Annotated[int | None, typer.Option(help="Steps per run.", hidden=True, min=1)] = None,
) -> None:
    """Demonstrate the method in minutes: synthetic speech in six languages, three objectives, a table and a page.

    Run the same command again to resume, or to print the table again.
    """
    from ..synthetic.spec import DEMO_SPECS
    from .console import progress, results
    from .speech_specs import parse_speech_specs

    with extra("demo", "`ctcdro demo`"):
        from ..demo.demo import demo as run_demo

    typer.echo(f"Synthetic speech in {', '.join(DEMO_SPECS)} (eSpeak NG), a small model, three objectives.", err=True)
    specs = parse_speech_specs(DEMO_SPECS, minutes=[minutes] if minutes else None)
    with JobProgress() as job_progress:
        try:
            result = run_demo(
                out, seed, specs=specs, num_steps=steps, num_jobs=jobs, track=progress, callback=job_progress
            )
        except RuntimeError as error:  # from eSpeak NG
            raise ValueError(str(error)) from error
    _exit_if_failed(result.failures)
    print_rows(result.rows)
    results.print("Synthetic speech: these figures say nothing about human speech.")
    typer.echo(f"Table: {result.folder.table}\nPage: {out / 'report.html'}")


def print_rows(rows: Sequence[Row]) -> None:
    from .console import results

    results.print(rows_table(rows).to_rich())
    seeds = "; mean ± standard deviation over seeds" if len({row.seed for row in rows}) > 1 else ""
    results.print(f"In percent, on test{seeds}")


def rows_table(rows: Sequence[Row]) -> Table:
    """One line per setting, averaged over seeds."""
    from ..report.table import Column, Table, percent
    from ..sweeps.config import TUNED

    by_setting: dict[str, list[Row]] = {}
    for row in rows:
        by_setting.setdefault(row.setting.name, []).append(row)

    def value(name: str) -> Callable[[list[Row]], str]:
        return lambda runs: f"{runs[0].setting.values[name]:g}" if name in runs[0].setting.values else ""

    def average(rates: Sequence[float], languages: Iterable[str] = ()) -> Cell:
        deviation = statistics.stdev(rates) if len(rates) > 1 else None
        return percent(statistics.fmean(rates), deviation, note=", ".join(sorted(set(languages))))

    columns: list[Column[list[Row]]] = [
        Column("objective", lambda runs: METHODS[runs[0].setting.objective].title),
        *(Column(name.replace("_", " "), value(name)) for name in TUNED),
        Column(
            "worst CER",
            lambda runs: average([run.worst_cer for run in runs], [run.worst_language for run in runs]),
            "lower",
        ),
        Column("mean CER", lambda runs: average([run.mean_cer for run in runs]), "lower"),
        Column("LID", lambda runs: average([run.mean_lid for run in runs]), "higher"),
    ]
    return Table.of("sweep", "", columns, by_setting.values())


def _parse_options(given: Sequence[str]) -> dict[str, str]:
    options = {}
    for option in given:
        key, sign, value = option.partition("=")
        if not key or not sign:
            raise ValueError(f"--sbatch requires KEY=VALUE, e.g. account=speech; got {option!r}.")
        options[key] = value
    return options


def _exit_if_failed(failures: Sequence[Failure]) -> None:
    from .console import escaped

    for failure in failures:
        typer.echo(f"{failure.name} failed: " + "\n  ".join(map(escaped, failure.last_lines)), err=True)
        typer.echo(f"  Log: {failure.log}", err=True)
    if failures:
        typer.echo(f"{len(failures)} failed. Run the same command again to retry; finished runs are kept.", err=True)
        raise typer.Exit(1)


class JobProgress:
    """Prints a line per run that ended; on a terminal also shows a bar for all runs and one per running run."""

    def __init__(self) -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        from .console import messages

        name, words = TextColumn("{task.description}"), TextColumn("{task.fields[words]}")
        columns = (name, BarColumn(), TimeElapsedColumn(), TimeRemainingColumn(), words)
        self._bar = Progress(*columns, console=messages, disable=not messages.is_terminal, transient=True)
        self._state: LaunchState | None = None
        self._ended: set[str] = set()
        self._bars: dict[str, Any] = {}

    def __enter__(self) -> JobProgress:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def __call__(self, state: LaunchState) -> None:
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
        self._bar.console.print(text, highlight=False, markup=False)
