"""`join_pairs` adds pairs of utterances to a dataset: one, often a pause, and then another.

In a long recording, speech continues after an utterance. A model that was trained on single utterances makes errors at
such boundaries, because its training data have none. Pairs have them.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from ..runtime.extras import extra
from ..runtime.progress import Track, untracked
from ..speech.audio import SAMPLE_RATE, AudioError, Samples, read_audio
from ..speech.manifest import Manifest
from ..speech.noise import quiet_noise
from ..speech.shards.layout import refuse_shards
from ..speech.utterance import Utterance
from ..storage.atomic import atomic_write_bytes
from ..storage.locks import lock_folder
from ..storage.paths import PathLike
from ..storage.remote import is_url
from .dataset_folder import refuse_other_dataset, write_dataset
from .entries import SPLITS
from .prepare import PreparedDataset
from .statistics import statistics_by_language

with extra("data", "Joining utterances"):
    import soundfile

PAUSE_PROBABILITY = 0.5
PAUSE_SECONDS = (0.1, 0.8)


def join_pairs(
    dataset: PathLike,
    out: PathLike,
    *,
    max_duration: float = 30.0,
    group_by: str | Sequence[str] = "lang",
    seed: int = 0,
    overwrite: bool = False,
    track: Track = untracked,
) -> PreparedDataset:
    """Writes a copy of a dataset with one pair for each training utterance: it, and another one of its group.

    Half of the pairs have a pause of 0.1 to 0.8 s in between: noise like the quietest part of the first utterance.
    Utterances in several languages, and those too long for a pair, only occur alone. Audio of the dataset is not
    copied, so the dataset must stay where it is. The same arguments give the same bytes. After an interruption, the
    pairs that were already written are kept.

    Args:
        max_duration: seconds; longer pairs are omitted. Whisper encoders accept up to 30 s.
        group_by: the field or fields that both utterances of a pair have in common.
        overwrite: whether to replace a dataset that was built with other options. Its audio is kept.

    Raises:
        ValueError: if no pair can be formed, if `out` is the dataset itself, or if another process is writing to `out`.
        AudioError: if audio cannot be read.
    """
    refuse_shards(dataset, "ctcdro prepare joined")
    paths = {split: Path(dataset, f"{split}.jsonl") for split in SPLITS}
    manifests = {split: Manifest.read(path) for split, path in paths.items() if split == "train" or path.exists()}
    if os.path.exists(out) and os.path.samefile(out, dataset):
        raise ValueError(f"{out} is the dataset itself, whose train.jsonl would be lost. Choose another --out.")
    train = manifests["train"]
    second_of = choose_seconds(train, group_by, max_duration - PAUSE_SECONDS[1], seed)
    if not second_of:
        raise ValueError(f"{paths['train']}: no pair has at most {max_duration:g} s. Choose a higher limit.")
    fields = group_by if isinstance(group_by, str) else ",".join(group_by)
    options = {"max_duration": max_duration, "group_by": fields, "seed": seed}
    about = {"reader": "joined", "dataset": str(Path(dataset).absolute()), **options}
    with lock_folder(out) as folder:
        refuse_other_dataset(folder, about, overwrite)
        audio = Path(folder).absolute() / "audio"
        audio.mkdir(exist_ok=True)
        pairs = [
            join(train[first], train[second_of[first]], audio, seed, first)
            for first in track(second_of, "joining utterances", len(second_of))
        ]
        manifests["train"] = Manifest([*train, *pairs])
        write_dataset(folder, about, manifests)
    statistics = {split: statistics_by_language(manifest) for split, manifest in manifests.items()}
    return PreparedDataset(Path(out), statistics, {}, [])


def choose_seconds(
    utterances: Manifest, group_by: str | Sequence[str], max_duration: float, seed: int
) -> dict[int, int]:
    """For each utterance that can be the first of a pair, a random second one of the same group."""
    numbers, durations = utterances.groups(group_by).numbers, utterances.durations
    in_one_language = np.array([one.lang_shares is None for one in utterances])
    chosen = {}
    for number in np.unique(numbers):
        members = np.flatnonzero(in_one_language & (numbers == number))
        members = members[np.argsort(durations[members], kind="stable")]
        num_short = np.searchsorted(durations[members], max_duration - durations[members], side="right")
        for place, (first, count) in enumerate(zip(members.tolist(), num_short.tolist(), strict=True)):
            others = count - (place < count)  # without itself
            if others > 0:
                second = int(rng_of(seed, first).integers(others))
                chosen[first] = int(members[second + (second >= place)])
    return dict(sorted(chosen.items()))


def rng_of(seed: int, number: int) -> np.random.Generator:
    return np.random.default_rng([seed, number])


def join(first: Utterance, second: Utterance, folder: Path, seed: int, number: int) -> Utterance:
    """Writes the audio of a pair unless it exists, and returns its utterance, with the fields that both agree in."""
    path = folder / file_name(first, second, seed, number)
    try:
        num_samples = len(read_audio(path))
    except AudioError:  # no such file, or truncated by a power failure
        samples = joined_samples(first, second, rng_of(seed, number))
        file = io.BytesIO()
        soundfile.write(file, samples, SAMPLE_RATE, format="FLAC")
        atomic_write_bytes(path, file.getvalue())
        num_samples = len(samples)
    return replace(
        first,
        audio_filepath=str(path),
        offset=0.0,
        duration=num_samples / SAMPLE_RATE,
        text=f"{first.text} {second.text}".strip(),
        id=None if first.id is None else f"{first.id}-{path.stem}",
        corpus=first.corpus if first.corpus == second.corpus else None,
        speaker=first.speaker if first.speaker == second.speaker else None,
        extra=dict(field for field in first.extra.items() if field in second.extra.items()),
    )


def joined_samples(first: Utterance, second: Utterance, rng: np.random.Generator) -> Samples:
    before, after = (read_audio(one.audio_filepath, one.offset, one.duration) for one in (first, second))
    parts = [before, after]
    if rng.random() < PAUSE_PROBABILITY:
        num_samples = round(rng.uniform(*PAUSE_SECONDS) * SAMPLE_RATE)
        parts.insert(1, quiet_noise(before, num_samples, rng).astype(np.float32))
    samples = np.concatenate(parts)
    samples /= max(1.0, np.abs(samples).max())  # FLAC would clip the samples of floating-point files
    return samples


def file_name(first: Utterance, second: Utterance, seed: int, number: int) -> str:
    """A name for the audio that depends on what is joined: files of a dataset that is replaced never change."""
    segments = [(_version(one.audio_filepath), one.offset, one.duration) for one in (first, second)]
    digest = hashlib.sha256(json.dumps([segments, seed, number]).encode()).hexdigest()[:16]
    return f"pair-{digest}.flac"


def _version(path: str) -> list[str | int]:
    """A file and when it was last changed; a URL alone."""
    if is_url(path) or not os.path.exists(path):  # a missing file is reported when it is read
        return [path]
    return [os.path.abspath(path), os.stat(path).st_mtime_ns]
