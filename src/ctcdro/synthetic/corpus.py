"""`make_corpus` generates audio files and manifests from specifications, without a download.

    make_corpus("corpus", DEMO_SPECS)

Guarantees:

* the same specs and seed give the same bytes, with any number of workers; test sentences do not depend on the amount of
  training audio;
* no text occurs twice in a corpus, so no test sentence is in the training data; speakers are the same in all splits;
* names of audio files contain a digest of everything that determines them. Existing files are kept, so a second call
  resumes an interrupted one.

eSpeak NG is a formant synthesizer: useful for experiments, but no substitute for human speech.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from ..prepare.dataset_folder import refuse_other_dataset, write_dataset
from ..runtime.progress import Track, untracked
from ..speech.audio import SAMPLE_RATE
from ..speech.language_shares import shares_from_segments
from ..speech.manifest import Manifest
from ..speech.utterance import Utterance
from ..storage.atomic import remove_leftovers
from ..storage.locks import lock_folder
from ..storage.paths import PathLike
from .code_switching import check_mixtures, is_mixture
from .rendering import AudioJob, JoinJob, Pool, num_samples
from .script import SPLITS, Key, Sentence, plan, rng_of
from .spec import DEMO_SPECS, SpeechSpec
from .voices import check_languages

__all__ = ["DEMO_SPECS", "SpeechSpec", "make_corpus"]

FORMAT = 1  # raise it when the same spec gives different audio
PACKAGES = ("babel", "espeakng_loader", "gflanguages", "soxr", "wordfreq")


def make_corpus(
    out: PathLike,
    specs: Mapping[str, SpeechSpec],
    seed: int = 0,
    num_workers: int | None = None,
    overwrite: bool = False,
    track: Track = untracked,
) -> dict[str, Manifest]:
    """Writes audio and the manifests `train.jsonl`, `dev.jsonl` and `test.jsonl` to a folder.

    Args:
        out: the dataset folder. It may contain audio of other specs, which is kept.
        specs: specifications by ISO 639-3 language code. The name of a mixture, such as "cmn+eng", specifies utterances
            that switch between languages of the corpus; see `code_switching.mixture_spec`.
        seed: seed for words, speakers, reverberation and noise.
        num_workers: number of processes; by default one per core.
        overwrite: whether to replace the manifests of a dataset that was built with other options.

    Returns:
        The manifests, by split.

    Raises:
        ValueError: if a language is not supported or has too few words for so many different sentences, or if another
            process is writing to the folder.
    """
    languages = sorted(name for name in specs if not is_mixture(name))
    check_languages(languages)
    check_mixtures(filter(is_mixture, specs), specs)
    if not languages:
        raise ValueError("`specs` must have at least one language; got none.")
    if num_workers is not None and num_workers < 1:
        raise ValueError(f"`num_workers` must be a positive integer; got {num_workers!r}.")
    _check_packages()
    folder = Path(os.path.abspath(out))
    about = {"reader": "synthetic", "seed": seed, "recipes": {name: asdict(specs[name]) for name in sorted(specs)}}
    with lock_folder(folder), Pool(num_workers or _num_cores()) as pool:
        refuse_other_dataset(folder, about, overwrite)
        sentences = plan(specs, seed, pool)
        jobs = {key: _job(key, sentence, specs[key[0]], seed, folder) for key, sentence in sentences.items()}
        lengths = _render(jobs, pool, track)
        segments = _segment_lengths(sentences, lengths, pool)
        manifests = {}
        for split in reversed(SPLITS):
            if keys := [key for key in sentences if key[1] == split]:
                manifests[split] = Manifest(_utterance(sentences[key], jobs[key], segments[key], out) for key in keys)
        write_dataset(folder, about, manifests)
    return manifests


def _check_packages() -> None:
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:
        raise ImportError(
            f"The synthetic corpus needs the extra `demo` (missing: {', '.join(missing)}): pip install 'ctcdro[demo]'"
        )


def _job(key: Key, sentence: Sentence, spec: SpeechSpec, seed: int, folder: Path) -> AudioJob:
    rng = rng_of(seed, key[0], "acoustics", sentence.text)
    spoken = [segment.job() for segment in sentence.segments]
    job = replace(
        JoinJob(spoken) if len(spoken) > 1 else spoken[0],
        snr=None if spec.snr is None else round(rng.uniform(*spec.snr), 2),
        reverberation=spec.reverberation,
        seed=int(rng.integers(2**62)),
    )
    # Everything that determines the audio, including the version of numpy, which generates the noise.
    made_by = [FORMAT, *(version(package) for package in ("espeakng-loader", "soxr", "numpy"))]
    digest = hashlib.sha256(json.dumps([asdict(job), made_by]).encode()).hexdigest()[:16]
    return replace(job, path=str(folder / "audio" / key[0] / f"{key[0]}-{digest}.wav"))


def _render(jobs: Mapping[Key, AudioJob], pool: Pool, track: Track) -> dict[Key, int]:
    """Renders missing files, and returns the number of samples per file."""
    for folder in {Path(str(job.path)).parent for job in jobs.values()}:
        folder.mkdir(parents=True, exist_ok=True)
        remove_leftovers(folder)
    existing = {key: num_samples(Path(str(job.path))) for key, job in jobs.items()}
    lengths = {key: length for key, length in existing.items() if length}
    missing = [key for key in jobs if key not in lengths]
    answers = track(pool.run([jobs[key] for key in missing]), "synthesizing speech", len(missing))
    return lengths | dict(zip(missing, answers, strict=True))


def _segment_lengths(sentences: Mapping[Key, Sentence], lengths: Mapping[Key, int], pool: Pool) -> dict[Key, list[int]]:
    """The number of samples of each segment. Those of mixtures are rendered once more, because files may be old."""
    mixed = {key: sentence.segments for key, sentence in sentences.items() if len(sentence.segments) > 1}
    answers = pool.run([segment.job() for segments in mixed.values() for segment in segments])
    return {key: [length] for key, length in lengths.items()} | {
        key: [next(answers) for _ in segments] for key, segments in mixed.items()
    }


def _utterance(sentence: Sentence, job: AudioJob, lengths: Sequence[int], out: PathLike) -> Utterance:
    path = Path(str(job.path))
    parts = list(zip(sentence.segments, (length / SAMPLE_RATE for length in lengths), strict=True))
    shares = shares_from_segments((segment.language, seconds) for segment, seconds in parts)
    segments = [
        {"lang": segment.language, "speaker": segment.speaker.name, "duration": seconds, "text": segment.text}
        for segment, seconds in parts
    ]
    utterance = Utterance(
        audio_filepath=os.path.join(out, "audio", path.parent.name, path.name),
        duration=sum(lengths) / SAMPLE_RATE,
        text=sentence.text,
        lang=sentence.segments[0].language,
        id=path.stem,
        corpus="synthetic",
        speaker=sentence.speaker,
        extra={"segments": segments} if len(shares) > 1 else {},
    )
    return utterance.with_languages(shares)


def _num_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
