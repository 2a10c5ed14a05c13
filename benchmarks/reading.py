"""How fast is audio read? .venv/bin/python benchmarks/reading.py

Utterances of 5 to 10 s at 16 kHz. First, `read_audio` is compared with `soundfile.read` on the same files, alternating
file by file. Then, batches of about 50 s from `load_batches` are compared with a plain `DataLoader` that reads with
soundfile and pads, with the same number of workers, alternating epoch by epoch, including the start and end of the
workers. Ratios compare seconds of audio read per second (ours over the other): medians of all rounds, with a 95%
bootstrap interval. Files are in the system's cache.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import soundfile
import torch
from measuring import ResultTable, seconds_in_turns, shown
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

from ctcdro import Manifest, Utterance
from ctcdro.speech.audio import read_audio
from ctcdro.speech.dataset import SpeechDataset
from ctcdro.speech.loader import load_batches
from ctcdro.speech.vocabulary import Vocabulary

RATE = 16_000
NUM_FILES = 14
BATCH_SIZE = 7  # about 50 s

FORMATS = {
    "WAV": ("WAV", "PCM_16"),
    "FLAC": ("FLAC", "PCM_16"),
    "Opus": ("OGG", "OPUS"),
    "MP3": ("MP3", "MPEG_LAYER_III"),
}

# Repetitions of the files in an epoch, so that an epoch takes about a second in every format.
REPEATS = {"WAV": 60, "FLAC": 25, "Opus": 4, "MP3": 25}


def like_speech(seconds: float, rng: np.random.Generator) -> npt.NDArray[np.float64]:
    """Noise in syllables of a quarter of a second, weaker at high frequencies."""
    num_samples = int(seconds * RATE)
    spectrum = np.fft.rfft(rng.standard_normal(num_samples))
    frequencies = np.fft.rfftfreq(num_samples, 1 / RATE)
    noise = np.fft.irfft(spectrum / (1 + frequencies / 500) ** 1.5, num_samples)
    loudness = np.interp(np.arange(num_samples), np.arange(0, num_samples + RATE, RATE // 4), _syllables(seconds, rng))
    return 0.3 * loudness * noise / np.abs(noise).max()


def _syllables(seconds: float, rng: np.random.Generator) -> npt.NDArray[np.float64]:
    num_samples = int(seconds * RATE)
    return rng.choice([0.01, 0.5, 1.0], len(range(0, num_samples + RATE, RATE // 4)))


def make_manifest(folder: Path, name: str) -> Manifest:
    form, subtype = FORMATS[name]
    rng = np.random.default_rng(0)
    utterances = []
    for number in range(NUM_FILES):
        seconds = round(rng.uniform(5, 10), 2)
        path = folder / f"{name}-{number}"
        soundfile.write(path, like_speech(seconds, rng), RATE, format=form, subtype=subtype)
        utterances.append(Utterance(str(path), seconds, "so many words were said in those seconds", "eng"))
    return Manifest(utterances)


def seconds_alone(manifest: Manifest, num_rounds: int) -> npt.NDArray[np.float64]:
    """(rounds, 2) seconds to read all files, with soundfile and with `read_audio`."""
    seconds = np.zeros((num_rounds, 2))
    for number in range(-1, num_rounds):  # the first to warm up
        for place, utterance in enumerate(manifest):
            for which in (0, 1) if (number + place) % 2 else (1, 0):
                start = time.perf_counter()
                if which:
                    read_audio(utterance.audio_filepath, utterance.offset, utterance.duration)
                else:
                    soundfile.read(utterance.audio_filepath, dtype="float32")
                seconds[max(number, 0), which] += (time.perf_counter() - start) * (number >= 0)
    return seconds


class Plain(Dataset[Tensor]):
    """A plain dataset that reads with soundfile and checks nothing."""

    def __init__(self, paths: list[str]) -> None:
        self.paths = paths

    def __getitem__(self, index: int) -> Tensor:
        return torch.from_numpy(soundfile.read(self.paths[index], dtype="float32")[0])


def padded(items: list[Tensor]) -> tuple[Tensor, Tensor]:
    return pad_sequence(items, batch_first=True), torch.tensor([len(item) for item in items])


def seconds_in_batches(manifest: Manifest, repeats: int, num_workers: int, num_rounds: int) -> npt.NDArray[np.float64]:
    """(rounds, 2) seconds for an epoch, with a plain `DataLoader` and with `load_batches`."""
    dataset = SpeechDataset(
        manifest, Vocabulary.of([utterance.text for utterance in manifest], ["eng"] * len(manifest))
    )
    plain = Plain([utterance.audio_filepath for utterance in manifest])
    order = np.random.default_rng(0).permutation(np.tile(np.arange(NUM_FILES), repeats))
    batches = [batch.tolist() for batch in np.split(order, range(BATCH_SIZE, len(order), BATCH_SIZE))]

    def read(with_ours: bool) -> None:
        loader: Iterable[Any] = (
            load_batches(dataset, batches, num_workers)
            if with_ours
            else DataLoader(plain, batch_sampler=batches, collate_fn=padded, num_workers=num_workers)
        )
        for _ in loader:
            pass

    return seconds_in_turns([partial(read, False), partial(read, True)], num_rounds, num_warm_up=0)


def main(num_rounds: int = 60, num_epochs: int = 7, workers: tuple[int, ...] = (0, 1, 2)) -> dict[str, ResultTable]:
    table = ResultTable(
        "format",
        "soundfile (audio seconds per second)",
        "`read_audio` relative to soundfile",
        *(f"batches, {num} worker{'' if num == 1 else 's'}" for num in workers),
    )
    with tempfile.TemporaryDirectory() as folder:
        for name in FORMATS:
            manifest = make_manifest(Path(folder), name)
            alone = seconds_alone(manifest, num_rounds)
            epochs = [seconds_in_batches(manifest, REPEATS[name], num, num_epochs) for num in workers]
            rate = manifest.durations.sum() / np.median(alone[:, 0])
            ratios = [shown(seconds[:, 0] / seconds[:, 1]) for seconds in [alone, *epochs]]
            table.add(name, f"{rate:,.0f}", *ratios)
    return {"reading": table}


if __name__ == "__main__":
    main()
