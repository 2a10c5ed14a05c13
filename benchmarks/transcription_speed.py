"""How fast are recordings transcribed? .venv/bin/python benchmarks/transcription_speed.py

The same model, a small wav2vec 2.0 with a linear head and random weights, in `Transcriber` and, exported, in the
pipeline "automatic-speech-recognition" of transformers, with windows of 30 s, and batches of 1 and of 8. Recordings are
bursts of noise with pauses: short ones of 2 to 8 s, a long one of 2 minutes, both mixed, and one of 10 minutes.
Contenders take turns and read the same WAV files. Ratios compare times (transformers over ours): medians of all rounds,
with a 95% bootstrap interval. The share of identical texts is that of the short recordings.

A second table compares the time of a whole process that transcribes one recording of 2 s.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import torch
from measuring import ResultTable, seconds_in_turns, shown

from ctcdro.decoding.transcribe import Transcriber
from ctcdro.models.exports.export import export
from ctcdro.models.recognizer import build
from ctcdro.speech.audio import SAMPLE_RATE
from ctcdro.speech.vocabulary import REPLACEMENT, UNKNOWN, Vocabulary

SHORT = (2.0, 8.0)
LONG = 120.0
SETS: dict[str, tuple[int, list[float]]] = {
    "20 short (2 to 8 s)": (20, []),
    "1 long (2 min)": (0, [LONG]),
    "20 short and 1 long": (20, [LONG]),
    "1 long (10 min)": (0, [5 * LONG]),
}

BY_PIPELINE = """
import soundfile, sys, transformers
pipeline = transformers.pipeline("automatic-speech-recognition", sys.argv[1])
samples, rate = soundfile.read(sys.argv[2], dtype="float32")
print(pipeline({"raw": samples, "sampling_rate": rate})["text"])
"""


def write_models(folder: Path) -> tuple[Path, Path]:
    """The same weights for ctcdro and for transformers."""
    from transformers import Wav2Vec2Config, Wav2Vec2Model

    torch.manual_seed(0)
    config = Wav2Vec2Config(
        **{"hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 1024},
        **{"conv_dim": [128] * 7},
        **{"feat_extract_norm": "layer", "do_stable_layer_norm": True, "conv_bias": True},
    )
    Wav2Vec2Model(config).save_pretrained(folder / "encoder")
    vocabulary = Vocabulary(["ces", "slk"], "abcdefghijklmnopqrstuvwxyz")
    model = build(str(folder / "encoder"), len(vocabulary), head="linear", seed=0)
    model.save(folder / "model", vocabulary)
    export(model, vocabulary, folder / "exported")
    return folder / "model", folder / "exported"


def write_recording(path: Path, seconds: float, rng: np.random.Generator) -> Path:
    """Bursts of noise, with a pause of 0.6 s every 3 to 8 s."""
    samples = 0.1 * rng.standard_normal(round(seconds * SAMPLE_RATE))
    position = rng.uniform(3, 8)
    while position < seconds:
        samples[round(position * SAMPLE_RATE) : round((position + 0.6) * SAMPLE_RATE)] *= 0.001
        position += 0.6 + rng.uniform(3, 8)
    soundfile.write(path, samples, SAMPLE_RATE)
    return path


def ours(transcriber: Transcriber, paths: Sequence[Path]) -> list[str]:
    return [transcript.text for transcript in transcriber.files(paths)]


def by_pipeline(pipeline: Any, batch_size: int, paths: Sequence[Path]) -> list[str]:
    def inputs() -> Any:
        for path in paths:
            samples, rate = soundfile.read(path, dtype="float32")
            yield {"raw": samples, "sampling_rate": rate}

    return [one["text"] for one in pipeline(inputs(), chunk_length_s=30, batch_size=batch_size)]


def speed_table(folder: Path, model: Path, exported: Path, num_rounds: int) -> ResultTable:
    import transformers

    table = ResultTable(
        *("recordings", "threads", "real-time factor", "speed relative to transformers, batches of 1"),
        *("relative to transformers, batches of 8", "identical texts"),
    )
    rng = np.random.default_rng(0)
    transcriber = Transcriber(model, device="cpu")
    pipeline = transformers.pipeline("automatic-speech-recognition", str(exported), device="cpu")
    for num_threads in (1, 2):
        torch.set_num_threads(num_threads)
        for name, (num_short, long) in SETS.items():
            lengths = rng.permutation([*rng.uniform(*SHORT, num_short), *long])
            paths = [write_recording(folder / f"{n}.wav", length, rng) for n, length in enumerate(lengths)]
            contenders = [
                partial(ours, transcriber, paths),
                partial(by_pipeline, pipeline, 1, paths),
                partial(by_pipeline, pipeline, 8, paths),
            ]
            seconds = seconds_in_turns(contenders, num_rounds)
            texts = zip(contenders[0](), contenders[1](), strict=True) if not long else []
            same = [
                own == " ".join(re.sub(r"\[\w+\]", "", other.replace(UNKNOWN, REPLACEMENT)).split())
                for own, other in texts
            ]
            table.add(
                name,
                str(num_threads),
                f"{np.median(seconds[:, 0]) / lengths.sum():.4f}",
                *(shown(seconds[:, other] / seconds[:, 0]) for other in (1, 2)),
                f"{100 * np.mean(same):.0f}%" if same else "",
            )
    return table


def start_table(folder: Path, model: Path, exported: Path, num_rounds: int) -> ResultTable:
    path = write_recording(folder / "one.wav", 2.0, np.random.default_rng(0))
    commands = {
        "`ctcdro transcribe`": [sys.executable, "-m", "ctcdro", "transcribe", str(model), str(path)],
        "pipeline of transformers": [sys.executable, "-c", BY_PIPELINE, str(exported), str(path)],
    }
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    processes = [
        partial(subprocess.run, command, check=True, capture_output=True, env=environment)
        for command in commands.values()
    ]
    seconds = seconds_in_turns(processes, num_rounds)
    table = ResultTable("one recording of 2 s, one thread", "time (s)", "relative to ours")
    for which, name in enumerate(commands):
        table.add(name, f"{np.median(seconds[:, which]):.2f}", shown(seconds[:, which] / seconds[:, 0]))
    return table


def main(num_rounds: int = 3) -> dict[str, ResultTable]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model, exported = write_models(folder)
        return {
            "transcription-speed": speed_table(folder, model, exported, num_rounds),
            "transcription-start": start_table(folder, model, exported, num_rounds),
        }


if __name__ == "__main__":
    main()
