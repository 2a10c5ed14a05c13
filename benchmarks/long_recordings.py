"""How good are transcripts of an hour of speech? .venv/bin/python benchmarks/long_recordings.py DATASET RUN

Joins utterances of a test split to one long recording, transcribes it in a separate process, and compares the result
with the transcripts of the utterances alone. The utterances of each language follow each other, with pauses of noise as
quiet as the quietest of the utterance before; without pauses; and, hardest, in random order without pauses, so that
the language changes every few seconds.

- CER: of all texts in a row, of the long recording and of the utterances alone. Without a pause, nobody hears where an
  utterance ends, so the change is also shown without spaces.
- Cut error: from each boundary of utterances to the nearest boundary of a segment; medians.
- Word error: from the start of each word of an utterance alone to the nearest start of the same word, if it is within
  1 s; medians. The share of words with such a neighbor is the next column.
- Peak memory, and seconds of computation per second of audio, of the whole command.

A second table forces the language (`--language`). Characters per language come from the training split, if the model
does not have them.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import soundfile
from measuring import ResultTable
from rapidfuzz.distance import Levenshtein

from ctcdro import Manifest
from ctcdro.decoding.pauses import loudness
from ctcdro.decoding.recordings import AudioInput
from ctcdro.decoding.transcribe import Transcriber
from ctcdro.decoding.transcript import RecordingTranscript
from ctcdro.runs.folder import find_model
from ctcdro.speech.audio import SAMPLE_RATE, Samples, read_audio
from ctcdro.speech.utterance import Utterance
from ctcdro.speech.vocabulary import Vocabulary


class Arrangement(NamedTuple):
    name: str
    is_shuffled: bool
    pause_seconds: float


ARRANGEMENTS = (
    Arrangement("by language, pauses of 0.6 s", False, 0.6),
    Arrangement("by language, no pauses", False, 0.0),
    Arrangement("random order, no pauses", True, 0.0),
)


class Joined(NamedTuple):
    order: list[int]
    """Number of each utterance in the manifest."""
    starts: list[float]
    """Seconds at which each utterance begins."""
    cuts: list[float]
    """Seconds of the boundaries between utterances: the middle of the pause."""
    seconds: float


def join(manifest: Manifest, path: Path, arrangement: Arrangement, seconds: float) -> Joined:
    """Writes utterances in a row until there are enough."""
    rng = np.random.default_rng(0)
    shortest = float(manifest.durations.min()) + arrangement.pause_seconds
    passes = [rng.permutation(len(manifest)) for _ in range(math.ceil(seconds / shortest / len(manifest)))]
    order = np.concatenate(passes).tolist()
    ends = np.cumsum(manifest.durations[order] + arrangement.pause_seconds)
    order = order[: int(np.searchsorted(ends, seconds)) + 1]
    if not arrangement.is_shuffled:
        order.sort(key=lambda index: manifest[index].lang)
    starts, cuts, position = [], [], 0
    num_pause = round(arrangement.pause_seconds * SAMPLE_RATE)
    with soundfile.SoundFile(path, "w", SAMPLE_RATE, 1) as file:
        for index in order:
            samples = read(manifest[index])
            starts.append(position / SAMPLE_RATE)
            quiet = 10 ** (np.percentile(loudness(samples), 5) / 20)
            file.write(samples)
            file.write(quiet * rng.standard_normal(num_pause))
            position += len(samples) + num_pause
            cuts.append((position - num_pause / 2) / SAMPLE_RATE)
    return Joined(order, starts, cuts[:-1], position / SAMPLE_RATE)


def read(utterance: Utterance) -> Samples:
    return read_audio(utterance.audio_filepath, utterance.offset, utterance.duration)


class Measured(NamedTuple):
    record: dict[str, Any]
    seconds: float
    memory: int


def transcribe_in_process(run: Path, path: Path) -> Measured:
    """The output of `ctcdro transcribe`, with its time and peak memory."""
    command = [sys.executable, "-m", "ctcdro", "transcribe", str(run), str(path), "--format", "json"]
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, command
    return Measured(json.loads(output), time.perf_counter() - start, 1024 * usage.ru_maxrss)


def error_rate(references: list[str], hypotheses: list[str], has_spaces: bool = True) -> float:
    reference, hypothesis = " ".join(references), " ".join(hypotheses)
    if not has_spaces:
        reference, hypothesis = reference.replace(" ", ""), hypothesis.replace(" ", "")
    return Levenshtein.distance(reference, hypothesis) / len(reference)


def word_errors(joined: Joined, alone: list[RecordingTranscript], record: dict[str, Any]) -> tuple[float, float]:
    """The median distance of words that are found again, in milliseconds, and their share."""
    starts: dict[str, list[float]] = {}
    for segment in record["segments"]:
        for word in segment["words"]:
            starts.setdefault(word["text"], []).append(word["start"])
    distances = [
        float(np.abs(np.array(starts.get(word.text, [np.inf])) - (start + word.start)).min())
        for index, start in zip(joined.order, joined.starts, strict=True)
        for word in alone[index].words
    ]
    near = [distance for distance in distances if distance < 1.0]
    return 1000 * float(np.median(near)), len(near) / len(distances)


def long_table(manifest: Manifest, run: Path, alone: list[RecordingTranscript], minutes: float) -> ResultTable:
    table = ResultTable(
        *("order", "minutes", "segments", "CER alone", "CER long", "change", "change without spaces"),
        *("cut error (ms)", "word error (ms)", "words found", "real-time factor", "peak memory (MB)"),
    )
    for arrangement in ARRANGEMENTS:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "long.wav"
            joined = join(manifest, path, arrangement, 60 * minutes)
            record, seconds, memory = transcribe_in_process(run, path)
        references = [manifest[index].text for index in joined.order]
        texts_alone = [alone[index].text for index in joined.order]
        before, after = (error_rate(references, texts) for texts in (texts_alone, [record["text"]]))
        bare_before, bare_after = (error_rate(references, texts, False) for texts in (texts_alone, [record["text"]]))
        ends = np.array([segment["end"] for segment in record["segments"]])
        cut_errors = [np.abs(ends - cut).min() for cut in joined.cuts]
        word_error, share_found = word_errors(joined, alone, record)
        table.add(
            arrangement.name,
            f"{joined.seconds / 60:.0f}",
            f"{len(ends):,}",
            f"{100 * before:.2f}%",
            f"{100 * after:.2f}%",
            f"{100 * (after / before - 1):+.1f}%",
            f"{100 * (bare_after / bare_before - 1):+.1f}%",
            f"{1000 * np.median(cut_errors):.0f}",
            f"{word_error:.0f}",
            f"{100 * share_found:.0f}%",
            f"{seconds / joined.seconds:.3f}",
            f"{memory / 1e6:,.0f}",
        )
    return table


def with_characters(model: Path, dataset: Path, folder: Path) -> Path:
    """A copy of a model that stores the characters of each language, those of the training split if it has none."""
    copied = shutil.copytree(model, folder / "model")
    config = json.loads((copied / "config.json").read_text())
    if "characters_by_language" not in config:
        train = Manifest.read(dataset / "train.jsonl")
        vocabulary = Vocabulary.of([one.text for one in train], [one.lang for one in train])
        config["characters_by_language"] = vocabulary.characters_by_language
        (copied / "config.json").write_text(json.dumps(config))
    return copied


def language_table(manifest: Manifest, model: Path, alone: list[RecordingTranscript]) -> ResultTable:
    table = ResultTable("language", "utterances", "LID errors", "CER", "LID errors, forced", "CER, forced")
    for language in sorted({utterance.lang for utterance in manifest}):
        chosen = [index for index, utterance in enumerate(manifest) if utterance.lang == language]
        forced = list(Transcriber(model, language=language).files(recordings(manifest, chosen)))
        cells = []
        for transcripts in ([alone[index] for index in chosen], forced):
            wrong = sum(transcript.language != language for transcript in transcripts)
            edits = sum(
                Levenshtein.distance(manifest[index].text, transcript.text)
                for index, transcript in zip(chosen, transcripts, strict=True)
            )
            cells += [str(wrong), f"{100 * edits / sum(len(manifest[index].text) for index in chosen):.2f}%"]
        table.add(language, str(len(chosen)), *cells)
    return table


def recordings(manifest: Manifest, indices: list[int]) -> list[AudioInput]:
    chosen = [manifest[index] for index in indices]
    return [AudioInput(one.audio_filepath, one.offset, one.duration, one.id) for one in chosen]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", type=Path, metavar="DATASET")
    parser.add_argument("run", type=Path, metavar="RUN")
    parser.add_argument("--minutes", type=float, default=60.0)
    options = parser.parse_args()
    manifest = Manifest.read(options.dataset / "test.jsonl")
    model = find_model(options.run)
    alone = list(Transcriber(model).files(recordings(manifest, list(range(len(manifest))))))
    long_table(manifest, options.run, alone, options.minutes)
    with tempfile.TemporaryDirectory() as folder:
        language_table(manifest, with_characters(model, options.dataset, Path(folder)), alone)


if __name__ == "__main__":
    main()
