"""Decodes a split with the model of a run, and writes predictions and scores to the run folder.

evaluate("run", "test")                  writes predictions/test.jsonl and scores/test.json
evaluate("run", "test", beam=search)     writes predictions/test-beam.jsonl and scores/test-beam.json
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, NamedTuple

from ..runs.folder import ResultName, RunFolder
from ..runtime.extras import extra
from ..runtime.progress import Track, untracked
from ..scoring.transcripts import Prediction, write_predictions
from ..speech.manifest import Manifest
from ..storage.atomic import remove_leftovers
from ..storage.json_files import write_json
from ..storage.locks import lock_folder
from ..storage.paths import PathLike, refuse_link

with extra("train", "Evaluation"):
    from ..models.feature_cache import FeatureCache, FeatureRecognizer, speech_dataset
    from ..models.recognizer import Recognizer
    from ..runs.config import read_config
    from ..scoring.profiles import PROFILES
    from ..scoring.scores import Scores, score
    from ..speech.dataset import OnBadAudio, SpeechDataset
    from ..speech.shards.layout import refuse_shards
    from ..speech.vocabulary import Vocabulary
    from .beam_search import Search
    from .decode import decode
    from .transcribe import load_for_decoding

logger = logging.getLogger(__name__)


class EvaluationResult(NamedTuple):
    scores: Scores
    predictions_path: Path
    scores_path: Path


def evaluate(
    run: PathLike,
    split: str = "test",
    *,
    profile: str = "plain",
    dataset: PathLike | None = None,
    beam: Search | None = None,
    batch_duration: float = 50.0,
    num_workers: int = 0,
    on_bad_audio: OnBadAudio = "fail",
    device: str = "auto",
    track: Track = untracked,
) -> EvaluationResult:
    """Decodes a split with the model of a run, scores it, and writes both to the run folder.

    Args:
        split: name of a manifest in the dataset.
        dataset: folder of the dataset; by default that of the run's configuration. Results on another dataset have its
            name in their file names.
        beam: beam search with the vocabulary of the run; by default greedy decoding. Results of beam search have their
            own files, which replace those of an earlier beam search.
        batch_duration: seconds of padded audio per batch.
        on_bad_audio: "skip" skips audio that cannot be read, which then counts as an empty transcript.
        device: "cpu", "cuda", "cuda:1", or "auto" for a GPU if there is one.

    Raises:
        ValueError: if the run is not finished, the dataset has no such split, `beam` has another vocabulary, or there
            is no such device.
    """
    folder = RunFolder(run)
    if profile not in PROFILES:
        raise ValueError(f"`profile` must be one of {', '.join(PROFILES)}; got {profile!r}.")
    folder.require_model()
    for path in (folder.predictions(split), folder.scores(split)):
        refuse_link(path.parent)
    inputs = load_split(
        run, split, dataset, beam, on_bad_audio=on_bad_audio, num_workers=num_workers, device=device, track=track
    )
    decoded = decode(
        inputs.model,
        inputs.vocabulary,
        inputs.manifest,
        forward=inputs.forward,
        dataset=inputs.dataset,
        beam=beam,
        batch_duration=batch_duration,
        num_workers=num_workers,
        track=track,
    )
    if decoded.skipped:
        logger.warning(
            "%d of %d utterances could not be read and are scored as empty transcripts. The first: %s",
            *(len(decoded.skipped), len(inputs.manifest), decoded.skipped[0]),
        )
    about = {"skipped": len(decoded.skipped)} | ({} if beam is None else {"beam_search": beam.settings})
    name = ResultName(split, inputs.other_dataset, is_beam=beam is not None)
    return _write(folder, name, decoded.predictions, score(decoded.predictions, profile), about)


class SplitInputs(NamedTuple):
    """The model of a run, and a split for it to decode."""

    model: Recognizer
    vocabulary: Vocabulary
    manifest: Manifest
    dataset: SpeechDataset
    forward: FeatureRecognizer | None
    """Applies the model to cached features, if the run caches them."""
    other_dataset: str | None
    """Name of the dataset, if it is not that of the run."""


def load_split(
    run: PathLike,
    split: str,
    dataset: PathLike | None = None,
    beam: Search | None = None,
    *,
    on_bad_audio: OnBadAudio = "fail",
    num_workers: int = 0,
    device: str = "auto",
    track: Track = untracked,
) -> SplitInputs:
    """Loads the model of a run and a split, and fills the feature cache of the run. Arguments as for `evaluate`."""
    folder = RunFolder(run)
    model_folder = folder.require_model()
    config = read_config(folder.config) if dataset is None or folder.config.exists() else None
    trained_on = config.dataset if config else Path(dataset or "")
    path = _find_manifest(Path(dataset or trained_on), split)
    model, vocabulary = load_for_decoding(model_folder, beam, device)
    manifest = Manifest.read(path)
    cache = FeatureCache(config.model.feature_cache_dir, model) if config and config.model.feature_cache_dir else None
    if cache is not None:
        cache.fill(manifest, on_bad_audio=on_bad_audio, num_workers=num_workers, track=track)
    used = path.parent.resolve()
    return SplitInputs(
        model,
        vocabulary,
        manifest,
        speech_dataset(model, cache, manifest, vocabulary, on_bad_audio=on_bad_audio),
        None if cache is None else FeatureRecognizer(model),
        None if used == trained_on.resolve() else used.name,
    )


def _find_manifest(dataset: Path, split: str) -> Path:
    path = dataset / f"{split}.jsonl"
    if split == "train":
        refuse_shards(dataset, "ctcdro evaluate --split train")
    if not path.is_file():
        splits = sorted(path.stem for path in dataset.glob("*.jsonl") if path.stem != "dropped")
        raise ValueError(
            f"{path} not found. "
            + (
                f"Splits of this dataset: {', '.join(splits)}."
                if splits
                else "If the dataset has moved, specify its folder with --dataset (`dataset` in Python)."
            )
        )
    return path


def _write(
    folder: RunFolder, name: ResultName, predictions: list[Prediction], scores: Scores, about: dict[str, Any]
) -> EvaluationResult:
    result = EvaluationResult(scores, folder.predictions(str(name)), folder.scores(str(name)))
    with lock_folder(folder.path, wait=True):  # keeps scores and predictions consistent if several processes evaluate
        for path in (result.predictions_path, result.scores_path):
            path.parent.mkdir(exist_ok=True)
            remove_leftovers(path.parent)
        write_predictions(result.predictions_path, predictions)
        write_json(result.scores_path, scores.to_record() | about)
    return result
