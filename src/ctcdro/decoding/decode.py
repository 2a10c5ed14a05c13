"""Runs a model over a manifest: returns the recognized text and the loss of each utterance.

Batches hold utterances of similar length, longest first; results have the order of the manifest. With several ranks,
each decodes a part, and all receive all results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import torch

from ..models.recognizer import Recognizer, RecognizerOutput
from ..runtime.progress import Track, untracked
from ..runtime.ranks import gather, rank_and_world_size
from ..scoring.transcripts import Prediction
from ..speech.batch import Batch
from ..speech.dataset import SpeechDataset, UtteranceDataset
from ..speech.loader import load_batches
from ..speech.manifest import Manifest
from ..speech.vocabulary import Vocabulary
from .beam_search import Search

LanguageAndText: TypeAlias = tuple[str | None, str]


class DecodingResult(NamedTuple):
    losses: npt.NDArray[np.float64]
    """(n,) CTC losses: infinite if the transcript does not fit or the audio cannot be read, NaN if the model has
    diverged."""
    predictions: list[Prediction]
    """Reference and recognized text, which is empty if the audio cannot be read."""
    skipped: list[str]
    """The error of each audio file that could not be read."""


def decode(
    model: Recognizer,
    vocabulary: Vocabulary,
    manifest: Manifest,
    *,
    forward: Callable[..., Any] | None = None,
    idle: Callable[[], None] | None = None,
    dataset: UtteranceDataset | None = None,
    beam: Search | None = None,
    batch_duration: float = 50.0,
    num_workers: int = 0,
    track: Track = untracked,
) -> DecodingResult:
    """Runs the model over all utterances, in evaluation mode.

    Args:
        forward: the model, wrapped for devices, precision or cached features; by default the model itself.
        idle: called in place of `forward` when this rank has no utterances but others may. A sharded model needs it,
            because all ranks must call it equally often.
        dataset: the inputs, in the order of the manifest; by default the audio of the manifest.
        beam: beam search; by default greedy decoding.
        batch_duration: seconds of padded audio per batch.
    """
    if dataset is None:
        dataset = SpeechDataset(manifest, vocabulary)
    results: list[tuple[int, float, LanguageAndText]] = []
    skipped: list[str] = []
    for batch, output in recognize(model, manifest, dataset, forward, batch_duration, num_workers, track, idle):
        skipped += batch.skipped
        if output is not None:
            losses = model.losses(output, batch.targets, batch.num_labels).tolist()
            results += zip(batch.indices.tolist(), losses, best_texts(output, vocabulary, beam), strict=True)
    all_losses = np.full(len(manifest), np.inf)
    texts: dict[int, LanguageAndText] = {}
    for index, loss, text in gather(results):
        all_losses[index], texts[index] = loss, text
    predictions = [
        Prediction(
            utterance.id or str(index),
            utterance.lang,
            utterance.text,
            *texts.get(index, (None, "")),
            utterance.lang_shares,
        )
        for index, utterance in enumerate(manifest)
    ]
    return DecodingResult(all_losses, predictions, gather(skipped))


def recognize(
    model: Recognizer,
    manifest: Manifest,
    dataset: UtteranceDataset,
    forward: Callable[..., Any] | None = None,
    batch_duration: float = 50.0,
    num_workers: int = 0,
    track: Track = untracked,
    idle: Callable[[], None] | None = None,
) -> Iterator[tuple[Batch, RecognizerOutput | None]]:
    """Batches of the utterances of this rank, longest first, on the device of the model, and the model's output.

    The output is None if no utterance of the batch could be read. The model is in evaluation mode until the last batch.
    """
    rank, world_size = rank_and_world_size()
    all_batches = group_by_length(manifest.durations, batch_duration)
    batches = all_batches[rank::world_size]
    device = next(model.parameters()).device
    run = model if forward is None else forward  # a compiled model has no truth value
    was_training = model.training
    model.eval()
    for batch in track(load_batches(dataset, batches, num_workers), "decoding", len(batches)):
        on_device = batch.to(device)
        with torch.inference_mode():
            output = run(on_device.inputs, batch.lengths) if batch.num_utterances else None
        if output is None and idle is not None:
            idle()
        yield on_device, output
    if idle is not None and len(batches) < len(all_batches[::world_size]):
        idle()
    model.train(was_training)


def best_texts(output: RecognizerOutput, vocabulary: Vocabulary, beam: Search | None = None) -> list[LanguageAndText]:
    """Language and text of each utterance, by beam search or greedy decoding."""
    num_frames = output.num_frames.tolist()
    if beam is None:
        best_labels = output.logits.argmax(-1).tolist()
        return [vocabulary.decode_frames(labels[:num]) for labels, num in zip(best_labels, num_frames, strict=True)]
    all_log_probs = output.logits.float().log_softmax(-1).cpu().numpy()
    return [beam(log_probs[:num]) for log_probs, num in zip(all_log_probs, num_frames, strict=True)]


def group_by_length(
    durations: npt.NDArray[np.float64], batch_duration: float, most_padding: float = 1.0
) -> list[list[int]]:
    """Batches of utterances of similar length, longest first, with at most `batch_duration` seconds of padded audio.

    Args:
        most_padding: of an utterance, as a fraction of the longest one in its batch.
    """
    batches: list[list[int]] = []
    longest = 0.0
    for index in np.argsort(-durations, kind="stable").tolist():
        fits = longest * (len(batches[-1]) + 1) <= batch_duration if batches else False
        if fits and durations[index] >= (1 - most_padding) * longest:
            batches[-1].append(index)
        else:
            batches.append([index])
            longest = durations[index]
    return batches
