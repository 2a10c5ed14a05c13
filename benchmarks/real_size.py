"""How much memory does the paper's model need in training? .venv/bin/python benchmarks/real_size.py

A model of the size of XLS-R 300M, with random weights and the paper's head, takes three steps of Adam with
`set_up_run` and `training.loop.train_step`, in 32-bit floats. Each step has one batch of 50 s (`batches_per_step: 1`;
the paper's 16 take 16 times as long, and no more memory). One process keeps all activations, another one uses gradient
checkpointing; the table has the peak memory of each. The first step includes initialization; the time of a step is the
median of the other two. Attention has no dropout, which takes much memory on a CPU. Not part of `make bench`: it takes
minutes, and most of 24 GB.
"""

from __future__ import annotations

import multiprocessing
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
from measuring import ResultTable, peak_memory

from ctcdro.runs.config import Config
from training import make_config, write_dataset, write_wav2vec2

BATCH_DURATION = 50.0
NUM_STEPS = 3

XLS_R_300M = {
    **{"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096},
    **{"feat_extract_norm": "layer", "do_stable_layer_norm": True, "conv_bias": True, "activation_dropout": 0.0},
    # XLS-R has 0.1, with which batches of 14 s utterances took more than 23 GB, probably because attention with dropout
    # stores a matrix of frames by frames for every layer.
    "attention_dropout": 0.0,
}


def take_steps(config: Config, folder: Path, link: Connection) -> None:
    """Sends the number of parameters, then for each step its time, its seconds of audio, and the peak memory."""
    from ctcdro.runs.folder import RunFolder
    from ctcdro.training.loop import train_step
    from ctcdro.training.setup import set_up_run

    run = set_up_run(config, RunFolder(folder))
    link.send(sum(parameter.numel() for parameter in run.recognizer.parameters()))
    for _ in range(NUM_STEPS):
        begin = time.perf_counter()
        record = train_step(run)
        link.send((time.perf_counter() - begin, record["audio_seconds"], peak_memory()))


def measure(config: Config, folder: Path) -> list[str]:
    """Cells of the table: parameters, seconds per step, seconds of audio per second, peak memory."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=take_steps, args=(config, folder, there))
    process.start()
    there.close()
    try:
        num_parameters = here.recv()
        steps = []
        for number in range(1, NUM_STEPS + 1):
            steps.append(here.recv())
            print(f"step {number}: {steps[-1][0]:.1f} s, peak memory {steps[-1][2] / 1e9:.1f} GB", flush=True)
        process.join(60)
    except EOFError:
        process.join()
        return [
            "",
            f"the process died (exit status {process.exitcode}; -9 usually means out of memory)",
            "",
            "",
        ]
    finally:
        process.terminate()
        process.join()
    seconds, audio, memory = np.array(steps).T
    rate = np.median(audio[1:] / seconds[1:])
    taken = f"{np.median(seconds[1:]):.1f}"
    return [f"{num_parameters / 1e6:.0f} million", taken, f"{rate:.2f}", f"{memory[-1] / 1e9:.1f}"]


def main(options: dict[str, int | bool | str | list[int]] | None = None) -> dict[str, ResultTable]:
    table = ResultTable(
        "gradient checkpointing", "parameters", "seconds per step", "audio seconds per second", "peak memory (GB)"
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_wav2vec2(folder / "encoder", **(XLS_R_300M if options is None else options))
        write_dataset(folder / "dataset", scale=1.0)
        plain = make_config(folder / "dataset", str(folder / "encoder"), BATCH_DURATION, optimizer="adam")
        for is_on in (False, True):
            model = plain.model.model_copy(update={"gradient_checkpointing": is_on})
            cells = measure(plain.model_copy(update={"model": model}), folder / f"run-{is_on}")
            table.add("on" if is_on else "off", *cells)
    return {"real-size": table}


if __name__ == "__main__":
    main()
