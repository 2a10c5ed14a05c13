"""Plants a subgroup that is hard to recognize: a copy of a dataset in which all speech of one speaker is noisy.

    .venv/bin/python benchmarks/planted_subgroup.py DATASET --speaker rus-1 --snr 5 --out DIR

Only the audio of this speaker is copied. Train on the result, and look at "Who is served worst?" in the report.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
import soundfile

from ctcdro import Manifest, Utterance
from ctcdro.speech.audio import SAMPLE_RATE, read_audio
from ctcdro.speech.noise import add_noise


def plant(dataset: Path, out: Path, speaker: str, snr: float, seed: int = 0) -> dict[str, int]:
    """Returns the number of noisy utterances per split."""
    (out / "audio").mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    numbers = {}
    for split in ("train", "dev", "test"):
        utterances = [
            add_noise_to(one, out / "audio", snr, rng) if one.speaker == speaker else one
            for one in Manifest.read(dataset / f"{split}.jsonl")
        ]
        Manifest(utterances).write(out / f"{split}.jsonl")
        numbers[split] = sum(one.speaker == speaker for one in utterances)
    return numbers


def add_noise_to(utterance: Utterance, folder: Path, snr: float, rng: np.random.Generator) -> Utterance:
    samples = add_noise(read_audio(utterance.audio_filepath, utterance.offset, utterance.duration), snr, rng)
    path = folder / f"{utterance.id}.wav"
    soundfile.write(path, samples * min(1.0, 0.99 / np.abs(samples).max()), SAMPLE_RATE)
    return replace(utterance, audio_filepath=str(path), offset=0.0, duration=len(samples) / SAMPLE_RATE)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", type=Path)
    parser.add_argument("--speaker", required=True)
    parser.add_argument("--snr", type=float, default=5.0, help="signal-to-noise ratio in decibels")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    print(plant(options.dataset, options.out, options.speaker, options.snr))


if __name__ == "__main__":
    main()
