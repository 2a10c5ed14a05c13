"""Adds joined utterances to training data. .venv/bin/python benchmarks/joined_utterances.py DATASET --out DIR

A copy of the dataset. For each training utterance there is one more: it and another one in a row, of the same language
or, for a share of the pairs (`--any-language`), of any language. A pair has the language of its first utterance.
Half of the pairs have a pause of 0.1 to 0.8 s, noise like the quietest part of the first. Pairs of more than 30 s are
omitted. From pairs, models for long recordings learn that speech may continue after an utterance.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
import soundfile

from ctcdro import Manifest, Utterance
from ctcdro.speech.audio import SAMPLE_RATE, read_audio
from ctcdro.speech.noise import quiet_noise

PAUSE_SECONDS = (0.1, 0.8)
MAX_SECONDS = 30.0  # Whisper accepts no more


def write_joined(dataset: Path, out: Path, any_language: float, seed: int = 0) -> None:
    (out / "audio").mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    utterances = list(Manifest.read(dataset / "train.jsonl"))
    pairs = []
    for number, first in enumerate(utterances):
        is_any = any_language > 0 and rng.random() < any_language
        candidates = utterances if is_any else [one for one in utterances if one.lang == first.lang]
        pairs.append(join(first, candidates[rng.integers(len(candidates))], out / "audio" / f"{number}.flac", rng))
    short = [one for one in pairs if one.duration <= MAX_SECONDS]
    Manifest(utterances + short).write(out / "train.jsonl")
    for split in ("dev", "test"):
        Manifest(list(Manifest.read(dataset / f"{split}.jsonl"))).write(out / f"{split}.jsonl")


def join(first: Utterance, second: Utterance, path: Path, rng: np.random.Generator) -> Utterance:
    before, after = (read_audio(one.audio_filepath, one.offset, one.duration) for one in (first, second))
    seconds = rng.uniform(*PAUSE_SECONDS) if rng.random() < 0.5 else 0.0
    pause = quiet_noise(before, round(seconds * SAMPLE_RATE), rng) if seconds else before[:0]
    samples = np.concatenate([before, pause, after])
    soundfile.write(path, samples, SAMPLE_RATE)
    text, duration = f"{first.text} {second.text}", len(samples) / SAMPLE_RATE
    return replace(first, audio_filepath=str(path), offset=0.0, duration=duration, text=text, id=path.stem)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--any-language", type=float, default=0.0, metavar="SHARE", help="pairs of any two languages")
    options = parser.parse_args()
    write_joined(options.dataset, options.out, options.any_language)
