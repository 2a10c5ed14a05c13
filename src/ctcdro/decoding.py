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

from .data.loading import SpeechDataset, load_batches
from .model import Recogniser
from .progress import Track, untracked
from .transcripts import Prediction
from .utterance import Manifest
from .vocab import Vocabulary


class Decoded(NamedTuple):
    """Of each utterance of a manifest."""

    losses: npt.NDArray[np.float64]
    """(n,) CTC losses: infinite where the transcript does not fit, nan where the audio could not be read."""
    predictions: list[Prediction]
    """What was said and what was recognised: nothing where the audio could not be read."""
    skipped: list[str]
    """What was wrong with audio that could not be read."""


def decode(
    model: Recogniser,
    vocabulary: Vocabulary,
    manifest: Manifest,
    *,
    forward: Callable[..., Any] | None = None,
    batch_duration: float = 50.0,
    num_workers: int = 0,
    skip_faults: bool = False,
    track: Track = untracked,
) -> Decoded:
    """Runs the model over all utterances, in evaluation mode, greedily: the best label of each frame.

    Args:
        forward: the model as wrapped for devices and precision; by default itself.
        batch_duration: seconds of padded audio at a time.
        skip_faults: leave out what cannot be read, instead of stopping.
    """
    was_training = model.training
    model.eval()
    dataset = SpeechDataset(manifest, vocabulary, on_fault="skip" if skip_faults else "stop")
    rank, num_ranks = _rank_and_number()
    batches = by_length(manifest.durations, batch_duration)[rank::num_ranks]
    device = next(model.parameters()).device
    mine: list[tuple[int, float, str | None, str]] = []
    skipped: list[str] = []
    with torch.inference_mode():
        for batch in track(load_batches(dataset, batches, num_workers), "decoding", len(batches)):
            skipped += batch.skipped
            if batch.num_utterances:
                output = (forward or model)(batch.audio.to(device), batch.num_samples.to(device))
                losses = model.losses(output, batch.targets.to(device), batch.num_labels.to(device)).tolist()
                labels, num_frames = output.logits.argmax(-1).tolist(), output.num_frames.tolist()
                for index, loss, one, number in zip(batch.indices.tolist(), losses, labels, num_frames, strict=True):
                    mine.append((index, loss, *vocabulary.decode_frames(one[:number])))
    model.train(was_training)
    all_losses = np.full(len(manifest), np.nan)
    texts: dict[int, tuple[str | None, str]] = {}
    for index, loss, *said in _pooled(mine, num_ranks):
        all_losses[index], texts[index] = loss, said
    predictions = [
        Prediction(one.id or str(index), one.lang, one.text, *texts.get(index, (None, "")))
        for index, one in enumerate(manifest)
    ]
    return Decoded(all_losses, predictions, _pooled(skipped, num_ranks))


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
