"""`ctcdro sweep` and `ctcdro demo`."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Annotated

import typer

from ..runtime.extras import extra

if TYPE_CHECKING:
    from rich.progress import TaskID

    from ..report.table import Table
    from ..sweeps.jobs import Failure, State
    from ..sweeps.sweep import Row

JobsOption = Annotated[
    int | None, typer.Option("--jobs", "-j", help="Runs at a time; by default one a core, on a cluster all.", min=1)
]


class Cluster(StrEnum):
    """Where runs are trained."""

    local = "local"
    slurm = "slurm"


def sweep(
    config: Annotated[Path | None, typer.Argument(help="YAML file that describes the sweep, or a run.")] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Folder of the sweep.")] = None,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", help="As seeds=[0,1] or run.training.epochs=2.")
    ] = None,
    jobs: JobsOption = None,
    threads: Annotated[
        int | None, typer.Option(help="Of a run; by default its share of the cores, on a cluster 4.", min=1)
    ] = None,
    gpu: Annotated[bool, typer.Option("--gpu", help="A GPU for each run; otherwise they see none.")] = False,
    cluster: Annotated[Cluster, typer.Option(help="This machine, or jobs of Slurm.")] = Cluster.local,
    partition: Annotated[str | None, typer.Option(help="Of Slurm.")] = None,
    hours: Annotated[
        float, typer.Option(help="After which Slurm ends a job; it is queued again, and goes on.", min=0.01)
    ] = 24.0,
    sbatch: Annotated[list[str] | None, typer.Option(help="Further options of sbatch, as account=speech.")] = None,
    show_schema: Annotated[bool, typer.Option("--schema", help="Print all keys of sweeps, and end.")] = False,
) -> None:
    """Train a recognizer with many settings, choose on dev by the paper's rule, and score what was chosen on test.

    Stopped, the same command goes on. Ends with 1 if runs failed; the same command repeats those.
    """
    with extra("sweep", "`ctcdro sweep`"):
        from ..sweeps.sweep_config import read_sweep, schema

    if show_schema:
        typer.echo(schema())
        return
    if config is None or out is None:
        raise typer.BadParameter("give a configuration, and --out.")
    settings = read_sweep(config, overrides or [])
    with extra("sweep", "`ctcdro sweep`"):
        from ..sweeps.jobs import Place
        from ..sweeps.sweep import sweep as run_sweep

    place = Place(cluster.value, jobs, threads, gpu, round(60 * hours) or 1, partition, _options(sbatch or []))
    with _RunsShown() as shown:
        done = run_sweep(settings, out, place, watch=shown)
    _end_if_failed(done.failures)
    table_shown(done.rows)
    typer.echo(f"Table: {done.folder.table}\nWhy these: {done.folder.selected}")


def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for all of it.")] = Path("ctcdro-demo"),
    seed: Annotated[int, typer.Option(help="Of training; the corpus is always the same.", min=0)] = 0,
    jobs: Annotated[int | None, typer.Option("--jobs", "-j", help="Runs at a time; by default all.", min=1)] = None,
    minutes: Annotated[str | None, typer.Option(help="Of train, dev and test by language.", hidden=True)] = None,
    steps: Annotated[int | None, typer.Option(help="Of each run.", hidden=True, min=1)] = None,
) -> None:
    """See the method at work: synthetic speech in six languages, three objectives, a table and a page; in minutes.

    Stopped, the same command goes on; finished, it shows the table again.
    """
    from ..synthetic.spec import DEMO_SPECS
    from .console import progress, results
    from .speech_specs import parse_speech_specs

    with extra("demo", "`ctcdro demo`"):
        from ..demo.demo import demo as run_demo
        from ..demo.demo import page

    typer.echo(f"Synthetic speech of {', '.join(DEMO_SPECS)} (eSpeak NG), a small model, three objectives.", err=True)
    with _RunsShown() as shown:
        try:
            done = run_demo(
                out,
                seed,
                specs=parse_speech_specs(DEMO_SPECS, minutes),
                num_steps=steps,
                num_jobs=jobs,
                track=progress,
                watch=shown,
            )
        except RuntimeError as error:  # of eSpeak NG
            raise ValueError(str(error)) from error
    _end_if_failed(done.failures)
    table_shown(done.rows)
    results.print("On synthetic speech; it tells nothing about human speech.")
    typer.echo(f"Table: {done.folder.table}\nPage: {page(out)}")


def table_shown(rows: Sequence[Row]) -> None:
    """The paper's table: objectives with what was chosen for them, on the test data."""
    from .console import results

    results.print(sweep_table(rows).to_rich())
    several = len({row.seed for row in rows}) > 1
    results.print(f"Rates on test in percent{'; mean ± standard deviation over seeds' if several else ''}")


def sweep_table(rows: Sequence[Row]) -> Table:
    """One row per setting; rates are means over seeds."""
    from ..objectives.methods import METHODS
    from ..report.table import Cell, Column, Table, percent
    from ..scoring.seeds import mean_over_runs

    def mean(rates: Sequence[float], note: str = "") -> Cell:
        over_seeds = mean_over_runs(rates)
        return Cell(None) if over_seeds is None else percent(over_seeds.mean, over_seeds.deviation, note=note)

    def worst(seeds: Sequence[Row]) -> Cell:
        return mean([row.max_cer for row in seeds], ", ".join(sorted({row.worst_lang for row in seeds})))

    settings: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        settings.setdefault((row.objective, row.step_size, row.smoothing), []).append(row)
    columns: list[Column[list[Row]]] = [
        Column("method", lambda seeds: METHODS[seeds[0].objective].title),
        Column("step size", lambda seeds: "" if seeds[0].step_size is None else f"{seeds[0].step_size:g}"),
        Column("smoothing", lambda seeds: "" if seeds[0].smoothing is None else f"{seeds[0].smoothing:g}"),
        Column("worst CER", worst, "lower"),
        Column("mean CER", lambda seeds: mean([row.avg_cer for row in seeds]), "lower"),
        Column("LID", lambda seeds: mean([row.lid for row in seeds]), "higher"),
    ]
    return Table.of("sweep", "", columns, settings.values())


def _options(given: Sequence[str]) -> dict[str, str]:
    found = {}
    for one in given:
        key, sign, value = one.partition("=")
        if not key or not sign:
            raise ValueError(f"--sbatch must be as account=speech; got {one!r}.")
        found[key] = value
    return found


def _end_if_failed(failures: Sequence[Failure]) -> None:
    from .console import escaped

    if not failures:
        return
    for failure in failures:
        first, *others = failure.last_lines
        typer.echo(f"{failure.name} failed: {escaped(first)}", err=True)
        for line in others:
            typer.echo(f"  {escaped(line)}", err=True)
        typer.echo(f"  Log: {failure.log}", err=True)
    typer.echo(f"{len(failures)} failed. The same command repeats what is not finished, and nothing else.", err=True)
    raise typer.Exit(1)


class _RunsShown:
    """A bar for all runs, and one for each that is at work; and a line for each that has ended, the only thing that is
    shown elsewhere than on a terminal."""

    def __init__(self) -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        from .console import messages

        name, words = TextColumn("{task.description}"), TextColumn("{task.fields[words]}")
        columns = (name, BarColumn(), TimeElapsedColumn(), TimeRemainingColumn(), words)
        self._bar = Progress(*columns, console=messages, disable=not messages.is_terminal, transient=True)
        self._state: State | None = None
        self._ended: set[str] = set()
        self._bars: dict[str, TaskID] = {}

    def __enter__(self) -> _RunsShown:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._bar.stop()

    def __call__(self, state: State) -> None:
        if state is not self._state:
            self._begin(state)
        self._tell_of_ended(state)
        if not self._bar.disable:
            self._show_running(state)

    def _begin(self, state: State) -> None:
        """The state is one of another launch: the next round of a search, or the test of what was chosen."""
        self._bar.start()
        self._state, self._ended = state, {task.name for task in state.done}
        if state.done and (state.waiting or state.running):
            self._print(f"{len(state.done)} of {_total(state)} are finished already")

    def _tell_of_ended(self, state: State) -> None:
        ended = {task.name: "finished" for task in state.done} | {one.name: "failed" for one in state.failures}
        for name, how in ended.items():
            if name not in self._ended:
                self._ended.add(name)
                self._print(f"{name} {how} ({len(self._ended)} of {_total(state)})")
        if state.is_stopping:
            self._print("stopping: runs write their checkpoints")

    def _show_running(self, state: State) -> None:
        running = {task.name: task.progress() for task in state.running}
        for name in set(self._bars) - {"all", *running}:
            self._bar.remove_task(self._bars.pop(name))
        whole = (len(self._ended) + sum(one.part for one in running.values())) / max(1, _total(state))
        self._update("all", whole, f"{len(self._ended)} of {_total(state)}")
        for name, (part, words) in running.items():
            self._update(name, part, words)

    def _update(self, name: str, part: float, words: str) -> None:
        if name not in self._bars:
            self._bars[name] = self._bar.add_task(name, total=1.0, words="")
        self._bar.update(self._bars[name], completed=part, words=words)

    def _print(self, text: str) -> None:
        self._bar.console.print(text, highlight=False, markup=False)


def _total(state: State) -> int:
    return len(state.waiting) + len(state.running) + len(state.done) + len(state.failures)
