"""Does training on shards need constant memory? .venv/bin/python benchmarks/shard_training.py

Made-up utterances of 1 to 4 s in six languages: 1,000 different ones in a shard of lhotse Shar, and further shards are
hard links to it. The same utterances in a manifest are the comparison. `mel-small` trains for 200 steps of one batch of
5 s. Each row is a separate process without data-loading workers, forked from one that has imported everything. Memory
is its peak. Times are processor times, because they depend less on other processes. "Resumed" is killed after step 150,
with a checkpoint after step 100, and must end with the same model and group weights.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import multiprocessing
import os
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import torch
from measuring import ResultTable, peak_memory

from ctcdro.runs.config import parse_config
from ctcdro.speech.manifest import Manifest
from ctcdro.speech.shards.build import open_index
from ctcdro.speech.utterance import Utterance
from ctcdro.storage.json_files import json_line
from ctcdro.training.loop import train

LANGUAGES = ("ces", "cmn", "deu", "pol", "ron", "zul")
SHARD_SIZE = 1000
NUM_STEPS, CHECKPOINT, KILLED_AT, FIRST_TIMED = 200, 100, 150, 20
RATE = 16_000

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["accelerate", "ctcdro.training.loop", "transformers"])


def write_utterances(folder: Path) -> list[Utterance]:
    """Writes the audio files of one shard: noise, because its content does not matter."""
    rng = np.random.default_rng(0)
    folder.mkdir()
    utterances = []
    for number in range(SHARD_SIZE):
        duration = round(float(rng.uniform(1.0, 4.0)), 3)
        path = folder / f"utterance-{number:04d}.flac"
        soundfile.write(path, 0.1 * rng.standard_normal(round(duration * RATE)), RATE)
        text = " ".join("".join(rng.choice(list("abcdefghij"), 4)) for _ in range(round(2 * duration)))
        utterances.append(Utterance(str(path), duration, text, LANGUAGES[number % len(LANGUAGES)], id=path.stem))
    return utterances


def write_shards(dataset: Path, utterances: list[Utterance], num_shards: int) -> None:
    folder = dataset / "train"
    folder.mkdir(parents=True)
    with tarfile.open(folder / "recording.000000.tar", "w") as tar:
        for one in utterances:
            tar.add(one.audio_filepath, f"{one.id}.flac")
            metadata = tarfile.TarInfo(f"{one.id}.json")
            tar.addfile(metadata, io.BytesIO())
    cuts = "".join(json_line(cut_of(one)) for one in utterances)
    (folder / "cuts.000000.jsonl.gz").write_bytes(gzip.compress(cuts.encode()))
    for number in range(1, num_shards):
        for name in ("recording.{:06d}.tar", "cuts.{:06d}.jsonl.gz"):
            os.link(folder / name.format(0), folder / name.format(number))


def cut_of(one: Utterance) -> dict[str, Any]:
    """As lhotse writes it."""
    spoken = {"id": one.id, "recording_id": one.id, "start": 0.0, "duration": one.duration, "channel": 0}
    source = {"type": "shar", "channels": [0], "source": ""}
    recording = {"id": one.id, "sources": [source], "sampling_rate": RATE, "num_samples": round(one.duration * RATE)}
    return {
        "id": one.id,
        "start": 0,
        "duration": one.duration,
        "channel": 0,
        "supervisions": [{**spoken, "text": one.text, "language": one.lang}],
        "recording": {**recording, "duration": one.duration},
        "type": "MonoCut",
    }


def write_manifest(dataset: Path, utterances: list[Utterance], num_shards: int) -> None:
    dataset.mkdir()
    lines = [json_line(one.to_record()) for one in utterances]
    with open(dataset / "train.jsonl", "w", encoding="utf-8") as file:
        for _ in range(num_shards):
            file.writelines(lines)


def measure_index(dataset: Path) -> dict[str, Any]:
    start = time.process_time()
    open_index(dataset)
    return {"seconds": time.process_time() - start, "memory": peak_memory() / 1e6}


def measure_training(dataset: Path, out: Path, killed_at: int | None = None) -> dict[str, Any]:
    """Trains until the end or until a step; one that was killed is resumed."""
    torch.set_num_threads(1)
    values: dict[str, Any] = {
        "dataset": str(dataset),
        "model": {"encoder": "mel-small"},
        "objective": {"name": "ctc-dro"},
        "data": {"num_workers": 0},
        "sampling": {"batch_duration": 5.0},
        "optimizer": {"batches_per_step": 1},
        "training": {
            "num_batches": NUM_STEPS,
            "validate_every_batches": NUM_STEPS,
            "checkpoint_every_steps": CHECKPOINT,
            "trackers": [],
        },
    }
    start = time.process_time()
    steps: list[tuple[float, float]] = []  # processor time, and seconds of audio

    def watch(record: dict[str, Any]) -> None:
        if "audio_seconds" in record:
            steps.append((time.process_time() - start, record["audio_seconds"]))
        if record["step"] == killed_at:
            os._exit(0)  # as by SIGKILL

    folder = train(parse_config(values), out, watch)
    files = [*sorted(path for path in folder.model.rglob("*") if path.is_file()), folder.group_weights]
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in files if path.suffix != ".md")).hexdigest()
    audio = sum(seconds for _, seconds in steps[FIRST_TIMED:])
    speed = audio / (steps[-1][0] - steps[FIRST_TIMED - 1][0])
    return {"first_step": steps[0][0], "memory": peak_memory() / 1e6, "speed": speed, "digest": digest}


def in_a_process(function: Callable[..., dict[str, Any]], *arguments: object) -> dict[str, Any]:
    """What a function returns; nothing if it kills its process."""
    here, there = CONTEXT.Pipe(duplex=False)
    process = CONTEXT.Process(target=_call, args=(there, function, *arguments))
    process.start()
    there.close()
    try:
        got: dict[str, Any] = here.recv()
    except EOFError:
        got = {}
    process.join()
    return got


def _call(link: Connection, function: Callable[..., dict[str, Any]], *arguments: object) -> None:
    link.send(function(*arguments))


def rows_of_shards(root: Path, utterances: list[Utterance], num_cuts: int) -> Iterator[tuple[str, ...]]:
    dataset = _create(root / f"shards-{num_cuts}", write_shards, utterances, num_cuts)
    got = in_a_process(measure_index, dataset)
    yield f"{num_cuts:,}", "Shar: building the index, once", f"{got['memory']:.0f}", f"{got['seconds']:.1f}", ""
    whole = in_a_process(measure_training, dataset, root / f"whole-{num_cuts}")
    yield _row(num_cuts, "Shar", whole)
    out = root / f"resumed-{num_cuts}"
    in_a_process(measure_training, dataset, out, KILLED_AT)
    resumed = in_a_process(measure_training, dataset, out)
    if resumed["digest"] != whole["digest"]:
        raise ValueError(f"{out} differs from the run that was not killed.")
    yield _row(num_cuts, "Shar, resumed: the same bytes", resumed)


def row_of_manifest(root: Path, utterances: list[Utterance], num_cuts: int) -> tuple[str, ...]:
    dataset = _create(root / f"manifest-{num_cuts}", write_manifest, utterances, num_cuts)
    return _row(num_cuts, "manifest", in_a_process(measure_training, dataset, root / f"out-{num_cuts}"))


def _create(dataset: Path, write: Callable[..., None], utterances: list[Utterance], num_cuts: int) -> Path:
    write(dataset, utterances, num_cuts // SHARD_SIZE)
    Manifest(utterances[:: SHARD_SIZE // 12]).write(dataset / "dev.jsonl")
    return dataset


def _row(num_cuts: int, name: str, got: dict[str, Any]) -> tuple[str, ...]:
    return f"{num_cuts:,}", name, f"{got['memory']:.0f}", f"{got['first_step']:.1f}", f"{got['speed']:.0f}"


def main(sizes: tuple[int, ...] = (10_000, 100_000, 1_000_000)) -> dict[str, ResultTable]:
    table = ResultTable(
        "cuts", "training data", "peak memory (MB)", "seconds until ready", "seconds of audio per second"
    )
    with tempfile.TemporaryDirectory() as folder:
        utterances = write_utterances(Path(folder) / "audio")
        for num_cuts in sizes:
            for row in rows_of_shards(Path(folder), utterances, num_cuts):
                table.add(*row)
            table.add(*row_of_manifest(Path(folder), utterances, num_cuts))
    return {"shards": table}


if __name__ == "__main__":
    main()
