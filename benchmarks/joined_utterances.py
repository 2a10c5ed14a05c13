"""Adds joined utterances to training data. .venv/bin/python benchmarks/joined_utterances.py DATASET --out DIR

A copy of the dataset in which each training utterance occurs twice: alone, and in a row with others of its language or,
in a share of the rows (`--any-language`), of any language. A row has two utterances, or up to `--utterances` of them,
and the language of the first. Half of the joints have a pause of 0.1 to 0.8 s, noise like the quietest part of what is
before. Rows of more than 30 s are omitted. From rows, models for long recordings learn that speech may continue after
an utterance.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import soundfile

from ctcdro import Manifest, Utterance
from ctcdro.speech.audio import SAMPLE_RATE, Samples, read_audio
from ctcdro.speech.noise import quiet_noise

PAUSE_SECONDS = (0.1, 0.8)
MAX_SECONDS = 30.0  # Whisper accepts no more


def write_joined(dataset: Path, out: Path, max_number: int, any_language: float, seed: int = 0) -> None:
    (out / "audio").mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    utterances = list(Manifest.read(dataset / "train.jsonl"))
    joined = []
    for number, row in enumerate(rows(utterances, max_number, any_language, rng)):
        if sum(one.duration for one in row) <= MAX_SECONDS - len(row) * PAUSE_SECONDS[1]:
            joined.append(join(row, out / "audio" / f"{number}.flac", rng))
    Manifest(utterances + joined).write(out / "train.jsonl")
    for split in ("dev", "test"):
        Manifest(list(Manifest.read(dataset / f"{split}.jsonl"))).write(out / f"{split}.jsonl")


def rows(
    utterances: list[Utterance], max_number: int, any_language: float, rng: np.random.Generator
) -> Iterator[list[Utterance]]:
    """Divides utterances at random into rows, of one language or, with that probability, of any."""
    is_any = rng.random(len(utterances)) < any_language
    pools: dict[object, list[Utterance]] = {}
    for index in rng.permutation(len(utterances)):
        pools.setdefault("any" if is_any[index] else utterances[index].lang, []).append(utterances[index])
    for pool in pools.values():
        while len(pool) > 1:
            number = int(rng.integers(2, max_number + 1))
            yield pool[:number]
            del pool[:number]


def join(row: list[Utterance], path: Path, rng: np.random.Generator) -> Utterance:
    pieces: list[Samples] = []
    for one in row:
        if pieces and rng.random() < 0.5:
            num_pause = round(rng.uniform(*PAUSE_SECONDS) * SAMPLE_RATE)
            pieces.append(quiet_noise(pieces[-1], num_pause, rng).astype(np.float32))
        pieces.append(read_audio(one.audio_filepath, one.offset, one.duration))
    samples = np.concatenate(pieces)
    soundfile.write(path, samples, SAMPLE_RATE)
    text, duration = " ".join(one.text for one in row), len(samples) / SAMPLE_RATE
    return replace(row[0], audio_filepath=str(path), offset=0.0, duration=duration, text=text, id=path.stem)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--utterances", type=int, default=2, metavar="N", help="most utterances in a row (default 2)")
    parser.add_argument("--any-language", type=float, default=0.0, metavar="SHARE", help="rows of any languages")
    options = parser.parse_args()
    write_joined(options.dataset, options.out, options.utterances, options.any_language)
