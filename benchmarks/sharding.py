"""How much memory does a process need if the model is sharded? .venv/bin/python benchmarks/sharding.py

A wav2vec 2.0 encoder with random weights and the paper's head takes three steps of Adam with two CPU processes, which
hold copies of the model (DDP) or parts of it (FSDP). The table has, per process, the bytes of weights, gradients and
Adam's averages after a step, and how much the peak memory during the steps exceeds the memory of a process without a
model. Activations are part of the peak. Each process first builds the whole model, so a node needs that much main
memory at the start. Memory that is freed goes back to the system: otherwise the peak would contain the gaps that
glibc keeps, up to hundreds of MB.
"""

from __future__ import annotations

import multiprocessing
import os
import socket
import tempfile
from collections.abc import Iterable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from measuring import ResultTable, peak_memory
from torch import Tensor

from ctcdro.runs.config import Config, parse_config
from training import make_config, write_dataset, write_wav2vec2

NUM_STEPS = 3
BATCH_DURATION = 5.0
SIZE: dict[str, Any] = {
    **{"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072},
    **{"feat_extract_norm": "layer", "do_stable_layer_norm": True, "conv_bias": True, "attention_dropout": 0.0},
}
MODELS: dict[str, dict[str, Any]] = {
    "fine-tuning": {},
    "LoRA": {"lora": {"rank": 16}},
    "frozen": {"freeze_encoder": True},
}


def take_steps(config: Config, folder: Path, rank: int, num_processes: int, port: int, link: Connection) -> None:
    """Sends bytes of the state after the last step, bytes at the peak, and the loss of each step."""
    ranks = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": num_processes, "MASTER_PORT": port}
    os.environ |= {name: str(value) for name, value in ranks.items()} | {"MASTER_ADDR": "127.0.0.1"}
    import torch

    from ctcdro.runs.folder import RunFolder
    from ctcdro.training.loop import train_step
    from ctcdro.training.setup import set_up_run

    torch.set_num_threads(1)
    empty = peak_memory()
    run = set_up_run(config, RunFolder(folder))
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts again
    losses = [train_step(run)["loss"] for _ in range(NUM_STEPS)]
    trained = [parameter for parameter in run.recognizer.parameters() if parameter.requires_grad]
    num_bytes = [
        size_of(run.recognizer.parameters()),
        size_of(trained),  # gradients have the same size
        size_of(tensor for state in run.optimizer.state.values() for tensor in state.values()),
    ]
    link.send((num_bytes, peak_memory() - empty, losses))


def size_of(tensors: Iterable[Tensor]) -> int:
    """Bytes in this process."""
    from ctcdro.training.sharding import local_part

    parts = [local_part(tensor) for tensor in tensors]
    return sum(part.numel() * part.element_size() for part in parts)


def measure(config: Config, folder: Path, num_processes: int) -> list[Any]:
    """What each process sends."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    context = multiprocessing.get_context("spawn")
    os.environ["MALLOC_MMAP_THRESHOLD_"] = str(2**18)  # read by glibc when a process starts
    links = [context.Pipe() for _ in range(num_processes)]
    processes = [
        context.Process(target=take_steps, args=(config, folder, rank, num_processes, port, there))
        for rank, (_, there) in enumerate(links)
    ]
    for process in processes:
        process.start()
    try:
        return [here.recv() for here, _ in links]
    finally:
        for process in processes:
            process.terminate()
            process.join()


def main(size: dict[str, Any] | None = None) -> dict[str, ResultTable]:
    table = ResultTable(
        *("model", "processes hold", "weights (MB)", "gradients (MB)", "optimizer (MB)", "state (MB)"),
        *("peak in a step (MB)", "loss of the last step"),
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_wav2vec2(folder / "encoder", **(SIZE if size is None else size))
        write_dataset(folder / "dataset", scale=0.3)
        plain = make_config(folder / "dataset", str(folder / "encoder"), BATCH_DURATION, optimizer="adam")
        for model, options in MODELS.items():
            for holding, sharding in (("copies", "none"), ("parts", "full")):
                config = make_variant(plain, options, sharding)
                of_processes = measure(config, folder / f"{model}-{sharding}", 2)
                num_bytes, peak, losses = max(of_processes, key=lambda one: sum(one[0]))
                cells = [*num_bytes, sum(num_bytes), peak]
                table.add(model, holding, *(f"{cell / 1e6:.0f}" for cell in cells), f"{losses[-1]:.4f}")
    return {"sharding-memory": table}


def make_variant(config: Config, model: dict[str, Any], sharding: str) -> Config:
    values = config.model_dump(mode="json")
    values["model"] |= model
    values["optimizer"]["batches_per_step"] = 2
    values["data"]["num_workers"] = 0
    values["training"] |= {"sharding": sharding, "trackers": []}
    return parse_config(values)


if __name__ == "__main__":
    main()
