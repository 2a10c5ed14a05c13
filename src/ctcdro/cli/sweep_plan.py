"""The plan of a sweep: its runs, where they train, and how many batches that takes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ..objectives.methods import METHODS
from .console import print_table, results

if TYPE_CHECKING:
    from ..report.table import Column, Table
    from ..sweeps.config import SweepConfig, SweepSetting
    from ..sweeps.submission import JobOptions

Item = TypeVar("Item")


def print_plan(config: SweepConfig, out: Path, options: JobOptions) -> None:
    """Prints all settings, and the lines of `describe_plan`."""
    from ..sweeps.sweep import SweepFolder

    folder = SweepFolder(out)
    runs = [folder.run(setting, seed) for setting in config.grid() for seed in config.seeds]
    print_table(_settings_table(config))
    results.print(f"\n{describe_plan(config, options)}", soft_wrap=True)
    if num_finished := sum(run.is_finished for run in runs):
        results.print(f"Already finished: {_count(num_finished, 'run')}")
    results.print(f"First run folder: {runs[0].path}", soft_wrap=True)


def describe_plan(config: SweepConfig, options: JobOptions) -> str:
    """One line such as "9 runs (9 settings, 1 seed): 4,320 batches; 2 runs at a time on the CPU, 1 thread each"."""
    settings, num_seeds = config.grid(), len(config.seeds)
    num_runs = len(settings) * num_seeds
    num_batches = sum(_num_batches(config, setting) for setting in settings) * num_seeds
    num_jobs, num_threads = options.resolve(num_runs)
    return (
        f"{_count(num_runs, 'run')} ({_count(len(settings), 'setting')}, {_count(num_seeds, 'seed')}): "
        f"{num_batches:,} batches; {_count(min(num_jobs, num_runs), 'run')} at a time on {_devices(options)}, "
        f"{_count(num_threads, 'thread')} {'each' if options.num_processes == 1 else 'per process'}"
    )


def _devices(options: JobOptions) -> str:
    if options.cluster == "slurm":
        return "Slurm, " + (_processes(options) or ("no GPU each" if options.cpu else "one GPU each"))
    where = "the CPU" + ("" if options.cpu else " (PyTorch finds no GPU)")
    if gpus := options.local_gpus():
        where = f"GPU{'s' if len(gpus) > 1 else ''} {', '.join(gpus)}"
    return ", ".join(filter(None, [where, _processes(options)]))


def _processes(options: JobOptions) -> str:
    """Such as "8 GPUs on 2 nodes each"; empty for runs of one process."""
    if options.num_processes == 1:
        return ""
    kind = "processes" if options.cpu else "GPUs"
    return f"{options.num_processes} {kind} on {_count(options.num_nodes, 'node')} each"


def _settings_table(config: SweepConfig) -> Table:
    from ..report.table import Column, Table

    columns: list[Column[SweepSetting]] = [
        *setting_columns(config, lambda setting: setting),
        Column("seeds", lambda setting: ", ".join(map(str, config.seeds))),
        Column("batches per run", lambda setting: _num_batches(config, setting), decimals=0),
    ]
    return Table.of("plan", "", columns, config.grid())


def setting_columns(config: SweepConfig, setting_of: Callable[[Item], SweepSetting]) -> list[Column[Item]]:
    """The method, a column for each value that has to be tuned, and all other changes of the run."""
    from ..report.table import Column
    from ..runs.parsing import describe_settings, format_setting

    settings = config.grid()
    tuned = dict.fromkeys(name for setting in settings for name in METHODS[setting.objective].tuned)
    others = {setting.name: describe_settings(config.changes(setting)) for setting in settings}

    def tuned_column(name: str) -> Column[Item]:
        return Column(name.replace("_", " "), lambda item: format_setting(setting_of(item).values.get(name)) or "")

    columns = [Column[Item]("method", lambda item: setting_of(item).method), *map(tuned_column, tuned)]
    if any(others.values()):
        columns.append(Column("other settings", lambda item: others[setting_of(item).name]))
    return columns


def _num_batches(config: SweepConfig, setting: SweepSetting) -> int:
    return config.config(setting, 0).training.num_batches


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
