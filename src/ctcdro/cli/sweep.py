"""`ctcdro sweep`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ..runtime.extras import extra
from .options import ConfigArgument, out_folder

if TYPE_CHECKING:
    from ..sweeps.jobs import Failure


def sweep(
    config: ConfigArgument,
    out: Annotated[Path, out_folder("Sweep folder to write. An unfinished sweep in it is resumed.")],
    overrides: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Override a key, e.g. seeds=[0,1] or training.num_batches=400. Repeatable.",
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and exit; write nothing.")] = False,
    jobs: Annotated[
        int | None,
        typer.Option(
            "--jobs",
            "-j",
            metavar="N",
            help="Runs at a time.",
            min=1,
            show_default="as GPUs or cores allow; all on Slurm",
        ),
    ] = None,
    threads: Annotated[
        int | None,
        typer.Option(metavar="N", help="CPU threads per process.", min=1, show_default="cores / processes; 4 on Slurm"),
    ] = None,
    cpu: Annotated[
        bool, typer.Option("--cpu", help="Train on the CPU; otherwise each run gets a GPU if there is one.")
    ] = False,
    gpus_per_run: Annotated[
        int,
        typer.Option(
            "--gpus-per-run",
            "--processes-per-run",
            metavar="N",
            help="GPUs per run on each of its nodes, with a process each; with --cpu, processes.",
            min=1,
        ),
    ] = 1,
    nodes_per_run: Annotated[int, typer.Option(metavar="N", help="Nodes per run, on Slurm.", min=1)] = 1,
    cluster: Annotated[
        Literal["local", "slurm"], typer.Option(help="Train on this machine, or submit jobs to Slurm.")
    ] = "local",
    partition: Annotated[str | None, typer.Option(metavar="NAME", help="Slurm partition to submit to.")] = None,
    time_limit: Annotated[
        float,
        typer.Option(
            metavar="HOURS", help="Time limit of a Slurm job, which is then queued again and resumes.", min=0.01
        ),
    ] = 24.0,
    sbatch: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="Further option of sbatch, e.g. account=speech. Repeatable."),
    ] = None,
) -> None:
    """Train several settings, select on dev, and score the selected settings on test.

    CONFIG describes a sweep. If it describes a run, the sweep tries the settings of the paper on it. Run the same
    command again to resume, or to retry failed runs; add seeds or settings to extend the sweep. Exit status: 1 if runs
    failed.

    Example: ctcdro sweep mel-small.yaml --out sweeps/first --dry-run
    """
    with extra("sweep", "`ctcdro sweep`"):
        from ..sweeps.config import read_sweep
        from ..sweeps.submission import JobOptions
        from ..sweeps.sweep import check_processes
        from ..sweeps.sweep import sweep as run_sweep
    from ..runs.objective_config import join_words
    from .console import print_notes
    from .run_progress import JobProgress
    from .sweep_plan import describe_plan, print_plan
    from .sweep_results import print_result

    settings = read_sweep(config, overrides or [])
    print_notes(settings)
    minutes = round(60 * time_limit) or 1
    options = JobOptions(
        cluster=cluster,
        num_jobs=jobs,
        num_threads=threads,
        cpu=cpu,
        processes_per_node=gpus_per_run,
        num_nodes=nodes_per_run,
        minutes=minutes,
        partition=partition,
        sbatch=_parse_options(sbatch or []),
    )
    if replaced := settings.replaced_keys():
        keys = join_words(replaced, "and")
        typer.echo(f"Note: the sweep has its own values of {keys}; those of the run have no effect.", err=True)
    if dry_run:
        check_processes(settings, options)
        print_plan(settings, out, options)
        return
    with JobProgress(describe_plan(settings, options)) as progress:
        result = run_sweep(settings, out, options, progress)
    exit_if_failed(result.failures)
    print_result(result)
    typer.echo(f"Table: {result.folder.table}\nSelection: {result.folder.selected}")


def _parse_options(given: Sequence[str]) -> dict[str, str]:
    options = {}
    for option in given:
        key, sign, value = option.partition("=")
        if not key or not sign:
            raise ValueError(f"--sbatch requires KEY=VALUE, e.g. account=speech; got {option!r}.")
        options[key] = value
    return options


def exit_if_failed(failures: Sequence[Failure]) -> None:
    from .console import escaped

    for failure in failures:
        typer.echo(f"{failure.name} failed: " + "\n  ".join(map(escaped, failure.last_lines)), err=True)
        typer.echo(f"  Log: {failure.log}", err=True)
    if failures:
        typer.echo(f"{len(failures)} failed. Run the same command again to retry; finished runs are kept.", err=True)
        raise typer.Exit(1)
