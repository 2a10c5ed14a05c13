"""A model and a manifest -> what is said in each utterance, and its loss.

Utterances are decoded in batches of similar length, the longest first; results come in the order of the manifest. With
several processes each takes its share, and all have all results.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
import torch.distributed

from ..models.recognizer import Recognizer, RecognizerOutput, greedy
from ..runtime.progress import Track, untracked
from ..scoring.transcripts import Prediction
from ..speech.dataset import SpeechDataset
from ..speech.loader import load_batches
from ..speech.manifest import Manifest
from ..speech.vocabulary import Vocabulary
from .beam_search import BeamSearch


class Decoded(NamedTuple):
    """Of each utterance of a manifest."""

    losses: npt.NDArray[np.float64]
    """(n,) CTC losses: infinite where the transcript does not fit or the audio cannot be read, NaN where the model has
    diverged."""
    predictions: list[Prediction]
    """What was said and what was recognized: nothing where the audio could not be read."""
    skipped: list[str]
    """What was wrong with audio that could not be read."""


def decode(
    model: Recognizer,
    vocabulary: Vocabulary,
    manifest: Manifest,
    *,
    forward: Callable[..., Any] | None = None,
    dataset: SpeechDataset | None = None,
    beam: BeamSearch | None = None,
    batch_duration: float = 50.0,
    num_workers: int = 0,
    track: Track = untracked,
) -> Decoded:
    """Runs the model over all utterances, in evaluation mode.

    Args:
        forward: the model as wrapped for devices and precision; by default itself.
        dataset: what to read, in the order of the manifest; by default the audio of the manifest.
        beam: how to search for what is said; by default greedily, by the best label of each frame.
        batch_duration: seconds of padded audio at a time.
    """
    was_training = model.training
    model.eval()
    if dataset is None:
        dataset = SpeechDataset(manifest, vocabulary)
    rank, num_ranks = _rank_and_number()
    batches = by_length(manifest.durations, batch_duration)[rank::num_ranks]
    device = next(model.parameters()).device
    run = model if forward is None else forward  # a compiled model cannot be asked whether it is true
    mine: list[tuple[int, float, str | None, str]] = []
    skipped: list[str] = []
    with torch.inference_mode():
        for batch in track(load_batches(dataset, batches, num_workers), "decoding", len(batches)):
            skipped += batch.skipped
            if batch.num_utterances:
                on_device = batch.to(device)
                output = run(on_device.inputs, batch.lengths)
                losses = model.losses(output, on_device.targets, batch.num_labels).tolist()
                said = recognized(output, vocabulary, beam)
                for index, loss, (language, text) in zip(batch.indices.tolist(), losses, said, strict=True):
                    mine.append((index, loss, language, text))
    model.train(was_training)
    all_losses = np.full(len(manifest), np.inf)
    texts: dict[int, tuple[str | None, str]] = {}
    for index, loss, *said in _pooled(mine, num_ranks):
        all_losses[index], texts[index] = loss, said
    predictions = [
        Prediction(one.id or str(index), one.lang, one.text, *texts.get(index, (None, "")))
        for index, one in enumerate(manifest)
    ]
    return Decoded(all_losses, predictions, _pooled(skipped, num_ranks))


def recognized(
    output: RecognizerOutput, vocabulary: Vocabulary, beam: BeamSearch | None = None
) -> list[tuple[str | None, str]]:
    """Language and text of each utterance of a batch; by the best label of each frame, unless a beam search is given.

    Example:
        >>> logits = torch.tensor([[[0.0, 0, 0, 9, 0], [0, 0, 0, 0, 9], [0, 0, 9, 0, 0]]])
        >>> recognized(RecognizerOutput(logits, num_frames=torch.tensor([2])), Vocabulary(["ces"], "a"))
        [('ces', 'a')]
    """
    if beam is None:
        return greedy(output, vocabulary)
    log_probs = output.logits.float().log_softmax(-1).cpu().numpy()
    return [beam(one[:number]) for one, number in zip(log_probs, output.num_frames.tolist(), strict=True)]


def by_length(durations: npt.NDArray[np.float64], batch_duration: float) -> list[list[int]]:
    """Batches of utterances of similar length, the longest first, of at most so many seconds with padding.

    Example:
        >>> by_length(np.array([1.0, 9.0, 2.0, 2.0]), batch_duration=6.0)
        [[1], [2, 3, 0]]
    """
    batches: list[list[int]] = []
    longest = 0.0
    for index in np.argsort(-durations, kind="stable").tolist():
        if batches and longest * (len(batches[-1]) + 1) <= batch_duration:
            batches[-1].append(index)
        else:
            batches.append([index])
            longest = durations[index]
    return batches


def _rank_and_number() -> tuple[int, int]:
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    return 0, 1


def _pooled(mine: list[Any], num_ranks: int) -> list[Any]:
    if num_ranks == 1:
        return mine
    everyone: list[list[Any]] = [[] for _ in range(num_ranks)]
    torch.distributed.all_gather_object(everyone, mine)
    return [one for several in everyone for one in several]
