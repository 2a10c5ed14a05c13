"""How fast is training on a GPU, and how much memory does it need? .venv/bin/python benchmarks/gpu.py

Four tables: the training step of a model of the size of XLS-R 300M (random weights, the paper's head, batches of 50 s)
with each objective; the loss alone compared with `torch.nn.functional.ctc_loss`; several processes, one per GPU, each
with its own batch (DDP, started by torchrun); and the lines for which the host waits in a step, as reported by
`torch.cuda.set_sync_debug_mode`. The tables and the versions are also written to gpu-results.json.

`--cpu` runs everything on the CPU with a tiny model, to try the script. Its figures mean nothing.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from corpora import SET_1
from loss_cost import NUM_GROUPS, SHAPES, make_steps
from measuring import ResultTable, peak_memory, shown
from real_size import XLS_R_300M

from ctcdro.objectives.methods import METHODS
from ctcdro.objectives.objective import Objective
from ctcdro.runs.config import Config, parse_config, read_config
from ctcdro.runtime.environment import describe_environment
from training import SMALL_WAV2VEC2, make_config, write_dataset, write_wav2vec2

RESULTS = Path("gpu-results.json")
STATIC_WEIGHTS = dict.fromkeys(SET_1, 1.0)


class Size(NamedTuple):
    """The extent of the benchmark on one kind of device."""

    device: str
    encoder: dict[str, Any]
    batch_duration: float
    num_steps: int
    num_rounds: int
    """Of the loss alone."""
    shapes: list[str]
    """Of the loss alone."""
    max_processes: int
    variants: dict[str, dict[str, Any]]
    """Changes of the configuration, by name. All objectives are measured with the first."""


BF16 = {"training": {"precision": "bf16"}}
ON_GPU = Size(
    "cuda",
    XLS_R_300M | {"attention_dropout": 0.1},
    batch_duration=50.0,
    num_steps=20,
    num_rounds=100,
    shapes=list(SHAPES),
    max_processes=torch.cuda.device_count(),
    variants={
        "bf16": BF16,
        "bf16, gradient checkpointing": {**BF16, "model": {"gradient_checkpointing": True}},
        "bf16, LoRA": {**BF16, "model": {"lora": {"rank": 8}}},
        "fp32": {},
    },
)
ON_CPU = Size(
    "cpu",
    SMALL_WAV2VEC2 | {"hidden_size": 32, "num_hidden_layers": 2, "intermediate_size": 64, "conv_dim": [16] * 7},
    batch_duration=2.0,
    num_steps=2,
    num_rounds=2,
    shapes=[next(iter(SHAPES))],
    max_processes=2,
    variants={"fp32": {}, "fp32, gradient checkpointing": {"model": {"gradient_checkpointing": True}}},
)


class Measured(NamedTuple):
    """What the processes of a run measured."""

    audio: float
    """Seconds of audio in all steps and processes."""
    seconds: float
    memory: float
    """Peak of one process in bytes: of the GPU, or of the process on a CPU."""
    waits: dict[str, int]
    """How often the host waited in one step, by line. Empty on a CPU."""


# The processes.


def take_steps(folder: Path, size: Size) -> None:
    """Trains for a few steps in one process of torchrun. The first process writes what it measured."""
    from ctcdro.runs.folder import RunFolder
    from ctcdro.training.loop import train_step
    from ctcdro.training.setup import set_up_run

    run = set_up_run(read_config(folder / "config.yaml"), RunFolder(folder / "run"), device=torch.device(size.device))
    train_step(run)  # to warm up
    waits = count_waits(lambda: train_step(run))
    wait_for_device(size.device)
    start = time.perf_counter()
    audio = sum(train_step(run)["audio_seconds"] for _ in range(size.num_steps))
    wait_for_device(size.device)
    memory = torch.cuda.max_memory_allocated() if size.device == "cuda" else peak_memory()
    if run.accelerator.is_main_process:
        measured = Measured(audio, time.perf_counter() - start, memory, waits)
        (folder / "measured.json").write_text(json.dumps(measured._asdict()))


def count_waits(step: Callable[[], object]) -> dict[str, int]:
    """How often the host waits for the GPU in a step, by the line that it waits in."""
    if not torch.cuda.is_available():
        return {}
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            step()
        finally:
            torch.cuda.set_sync_debug_mode("default")
    lines = Counter(
        f"{'/'.join(Path(warning.filename).parts[-2:])}:{warning.lineno}"
        for warning in found
        if "synchronizing" in str(warning.message)
    )
    return dict(lines.most_common())


def wait_for_device(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def measure(config: Config, folder: Path, size: Size, num_processes: int = 1) -> Measured | str:
    """Runs the processes with torchrun. Returns the end of their output instead, if they fail."""
    folder.mkdir()
    config.write(folder / "config.yaml")
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={num_processes}"]
    own = [str(Path(__file__)), "--take-steps", str(folder), *(["--cpu"] if size.device == "cpu" else [])]
    process = subprocess.run([*torchrun, *own], capture_output=True, text=True)
    with suppress(FileNotFoundError):
        return Measured(**json.loads((folder / "measured.json").read_text()))
    print(process.stderr[-3000:], file=sys.stderr)
    return "out of memory" if "OutOfMemoryError" in process.stderr else "failed"


# The tables.


def vary(plain: Config, *changes: dict[str, Any]) -> Config:
    values = plain.model_dump(mode="json", exclude_unset=True)
    for change in changes:
        for section, keys in change.items():
            values[section] = values.get(section, {}) | keys
    return parse_config(values)


def training_tables(plain: Config, folder: Path, size: Size) -> dict[str, ResultTable]:
    first, *others = size.variants
    settings = [(first, name) for name in METHODS] + [(variant, "ctc-dro") for variant in others]
    table = ResultTable(
        *("model and precision", "objective", "audio seconds per second", "relative to the baseline (ERM)"),
        *("seconds per step", "peak memory (GB)", "waits per step"),
    )
    baseline: float | None = None
    waits: dict[str, int] = {}
    for number, (variant, name) in enumerate(settings):
        objective: dict[str, Any] = {"name": name, **({"weights": STATIC_WEIGHTS} if name == "static" else {})}
        found = measure(vary(plain, size.variants[variant], {"objective": objective}), folder / f"{number}", size)
        if isinstance(found, str):
            table.add(variant, METHODS[name].title, found, "", "", "", "")
            continue
        rate = found.audio / found.seconds
        baseline = rate if name == "erm" else baseline
        waits = found.waits if name == "ctc-dro" and variant == first else waits
        relative = f"{rate / baseline:.3f}" if baseline and variant == first else ""
        cells = [f"{rate:,.1f}", relative, f"{found.seconds / size.num_steps:.3f}", f"{found.memory / 1e9:.2f}"]
        table.add(variant, METHODS[name].title, *cells, f"{sum(found.waits.values())}" if found.waits else "")
    lines = ResultTable("line", "waits per step")
    for line, number in waits.items():
        lines.add(f"`{line}`", f"{number}")
    return {"gpu-training": table, "gpu-waits": lines}


def create_objective(name: str, num_groups: int) -> Objective:
    """With the default settings."""
    return METHODS[name].create(num_groups, {setting.name: setting.default for setting in METHODS[name].settings})


def loss_table(size: Size) -> ResultTable:
    """Rounds of six batches, in which plain CTC and the objectives take turns."""
    table = ResultTable("batch", "objective", "`F.ctc_loss` alone (ms per batch)", "time relative to `F.ctc_loss`")
    for name in size.shapes:
        for method in ("erm", "ctc-dro", "error-weighted"):
            steps = make_steps(*SHAPES[name], partial(create_objective, method), size.device)
            seconds = np.zeros((size.num_rounds, 2))
            for number in range(-2, size.num_rounds):  # the first two to warm up
                for which in (0, 1) if number % 2 else (1, 0):
                    start = time.perf_counter()
                    for group in range(NUM_GROUPS):
                        steps[which](group)
                    wait_for_device(size.device)
                    seconds[max(number, 0), which] = time.perf_counter() - start
            plain = 1e3 * np.median(seconds[:, 0]) / NUM_GROUPS
            ratio = shown(seconds[:, 1] / seconds[:, 0], digits=3)
            table.add(name, METHODS[method].title, f"{plain:.2f}", ratio)
    return table


def scaling_table(plain: Config, folder: Path, size: Size) -> ResultTable:
    """1, 2, 4, … processes, each with its own batch in every step."""
    table = ResultTable("processes", "audio seconds per second", "relative to one process", "peak memory (GB)")
    one = None
    number = 1
    while number <= size.max_processes:
        changes = {"optimizer": {"batches_per_step": number}}
        config = vary(plain, size.variants[next(iter(size.variants))], changes)
        found = measure(config, folder / f"processes-{number}", size, number)
        if isinstance(found, str):
            table.add(f"{number}", found, "", "")
        else:
            rate = found.audio / found.seconds
            one = rate if one is None else one
            table.add(f"{number}", f"{rate:,.1f}", f"{rate / one:.2f}", f"{found.memory / 1e9:.2f}")
        number *= 2
    return table


def main(size: Size | None = None, results: Path = RESULTS) -> dict[str, ResultTable]:
    if size is None and not torch.cuda.is_available():
        raise SystemExit(
            "This benchmark needs a GPU, and PyTorch finds none. Run `ctcdro env` to see why, or try the script on the "
            "CPU: python benchmarks/gpu.py --cpu"
        )
    size = size or ON_GPU
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_wav2vec2(folder / "encoder", **size.encoder)
        write_dataset(folder / "dataset", scale=size.batch_duration / 50)
        plain = make_config(folder / "dataset", str(folder / "encoder"), size.batch_duration, optimizer="adam")
        tables = training_tables(plain, folder, size)
        tables |= {"gpu-loss-cost": loss_table(size), "gpu-scaling": scaling_table(plain, folder, size)}
    rows = {name: {"columns": table.columns, "rows": table.rows} for name, table in tables.items()}
    results.write_text(json.dumps({"environment": describe_environment(), "tables": rows}, indent=1) + "\n")
    print(f"\nThe results: {results}")
    return tables


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cpu", action="store_true", help="try the script on the CPU, with a tiny model")
    parser.add_argument("--out", type=Path, default=RESULTS, help=f"file of the results; default: {RESULTS}")
    parser.add_argument("--take-steps", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.take_steps:
        take_steps(arguments.take_steps, ON_CPU if arguments.cpu else ON_GPU)
    else:
        main(ON_CPU if arguments.cpu else None, arguments.out)
