"""A trained model and audio -> predictions -> scores.

evaluate("run", "test")                       writes predictions/test.jsonl and scores/test.json
evaluate("run", "test", beam=search)          writes predictions/test-beam.jsonl and scores/test-beam.json
transcribe("run/model", ["a.wav", "b.mp3"])   language and text of each file
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import torch

from ..runs.folder import RunFolder
from ..runtime.extras import extra
from ..runtime.progress import Track, untracked
from ..scoring.transcripts import write_predictions
from ..speech.manifest import Manifest
from ..speech.vocabulary import Vocabulary
from ..storage.atomic import remove_leftovers
from ..storage.json_files import write_json
from ..storage.locks import lock_folder
from ..storage.paths import PathLike, refuse_link

with extra("train", "Evaluation"):
    from ..models.feature_cache import FeatureCache, speech_dataset
    from ..models.recognizer import Recognizer, RecognizerOutput, load
    from ..runs.config import read_config
    from ..scoring.profiles import PROFILES
    from ..scoring.scores import Scores, score
    from ..speech.audio import AudioError, read_audio
    from .beam_search import BeamSearch
    from .decode import decode, recognized

logger = logging.getLogger(__name__)


class Evaluated(NamedTuple):
    """The scores of a split, and the files that were written."""

    scores: Scores
    predictions_path: Path
    scores_path: Path


def evaluate(
    run: PathLike,
    split: str = "test",
    *,
    profile: str = "plain",
    dataset: PathLike | None = None,
    beam: BeamSearch | None = None,
    batch_duration: float = 50.0,
    num_workers: int = 0,
    skip_faults: bool = False,
    track: Track = untracked,
) -> Evaluated:
    """Decodes a split with the model of a run, scores it, and writes both to the run folder.

    Args:
        run: the folder of a finished run.
        split: the name of a manifest of the dataset.
        profile: of scoring.
        dataset: its folder; by default that of the run's configuration.
        beam: how to search, with the vocabulary of the run; by default greedily. What it finds is written beside what
            greedy decoding found, under the names of `written_as`; another beam search replaces it.
        skip_faults: leave out audio that cannot be read; it counts as nothing recognized.

    Raises:
        ValueError: if the run is not finished, the dataset has no such split, or `beam` is of another vocabulary.
    """
    folder = RunFolder(run)
    if profile not in PROFILES:
        raise ValueError(f"`profile` must be one of {', '.join(PROFILES)}; got {profile!r}.")
    if not folder.is_finished:
        raise ValueError(f"{folder.path}: no model in it; finish the run first, with the command that started it.")
    for path in (folder.predictions(split), folder.scores(split)):
        refuse_link(path.parent)
    config = None if dataset is not None and not folder.config.exists() else read_config(folder.config)
    own = config.dataset if config else None
    path = Path(dataset or own or ".") / f"{split}.jsonl"
    if not path.is_file():
        raise ValueError(
            f"{path}: no such file (current folder: {Path.cwd()}); expected the manifest of split {split!r}. "
            + _other_splits(path.parent)
        )
    model, vocabulary = load(folder.model)
    _check_beam(beam, vocabulary)
    model.to(_device())
    manifest = Manifest.read(path)
    kept = config.model.feature_cache if config else None
    cache = FeatureCache(kept, model) if kept else None
    if cache is not None:
        cache.fill(manifest, skip_faults=skip_faults, num_workers=num_workers, track=track)
    decoded = decode(
        model,
        vocabulary,
        manifest,
        dataset=speech_dataset(model, cache, manifest, vocabulary, on_fault="skip" if skip_faults else "stop"),
        beam=beam,
        batch_duration=batch_duration,
        num_workers=num_workers,
        track=track,
    )
    scores = score(decoded.predictions, profile)
    if decoded.skipped:
        logger.warning(
            "%d of %d utterances could not be read, and count as nothing recognized. The first: %s",
            *(len(decoded.skipped), len(manifest), decoded.skipped[0]),
        )
    is_own = own is None or own.resolve() == path.parent.resolve()
    name = written_as(split, beam, None if is_own else path.parent)
    done = Evaluated(scores, folder.predictions(name), folder.scores(name))
    about = {"skipped": len(decoded.skipped)} | ({} if beam is None else {"beam_search": beam.settings})
    with lock_folder(folder.path, wait=True):  # so that scores and predictions match if several processes evaluate
        for path in (done.predictions_path, done.scores_path):
            path.parent.mkdir(exist_ok=True)
            remove_leftovers(path.parent)
        write_predictions(done.predictions_path, decoded.predictions)
        write_json(done.scores_path, scores.to_record() | about)
    return done


def _other_splits(folder: Path) -> str:
    if splits := sorted(path.stem for path in folder.glob("*.jsonl") if path.stem != "dropped"):
        return f"Splits of this dataset: {', '.join(splits)}."
    return "If the dataset is elsewhere, specify its folder with --dataset (`dataset` in Python)."


def written_as(split: str, beam: BeamSearch | None = None, other_dataset: Path | None = None) -> str:
    """The name under which `RunFolder` has predictions and scores of a split.

    Results on another dataset carry its name, to distinguish them from those on the run's own dataset.

    Example:
        >>> written_as("test"), written_as("test", other_dataset=Path("data/fleurs"))
        ('test', 'test-of-fleurs')
    """
    of = f"-of-{other_dataset.resolve().name}" if other_dataset else ""
    return f"{split}{of}{'' if beam is None else '-beam'}"


class Transcript(NamedTuple):
    """What is said in a file."""

    path: str
    language: str | None
    text: str


def transcribe(
    model_folder: PathLike,
    paths: Sequence[PathLike],
    beam: BeamSearch | None = None,
    *,
    on_fault: Callable[[AudioError], None] | None = None,
) -> Iterator[Transcript]:
    """Language and text of each file, one at a time; greedily, unless a beam search is given.

    Args:
        on_fault: called with the error of a file that cannot be transcribed, which is then skipped. By default the
            error is raised.

    Raises:
        AudioError: naming a file that cannot be transcribed, unless `on_fault` is given.
        ValueError: if `beam` is of another vocabulary.
    """
    model, vocabulary = load(model_folder)
    _check_beam(beam, vocabulary)
    device = _device()
    model.to(device)
    for path in paths:
        try:
            output = _output(model, path, device)
        except AudioError as error:
            if on_fault is None:
                raise
            on_fault(error)
            continue
        [said] = recognized(output, vocabulary, beam)
        yield Transcript(str(path), *said)


def _output(model: Recognizer, path: PathLike, device: torch.device) -> RecognizerOutput:
    audio = torch.from_numpy(read_audio(path)).to(device)
    try:
        with torch.inference_mode():
            return model(audio[None], torch.tensor([len(audio)]))
    except ValueError as error:  # too short or too long
        raise AudioError(f"{path}: {error}") from error


def _check_beam(beam: BeamSearch | None, vocabulary: Vocabulary) -> None:
    if beam is not None and beam.vocabulary != vocabulary:
        raise ValueError(
            f"`beam` is for other labels, {beam.vocabulary!r}, than the model has, {vocabulary!r}; make it with "
            "`Vocabulary.load` of the vocab.json beside the model."
        )


def _device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")
