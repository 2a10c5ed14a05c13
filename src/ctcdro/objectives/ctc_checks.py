"""Checks of the arguments of a CTC loss: torch reads and writes out of bounds if lengths or labels are wrong."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor

# In bfloat16, `log_softmax` has a relative error of at most 2 ** -8. A transcript has probability 1 only if at most
# three labels share each frame; after rounding, their probabilities sum to at most exp(0.0043). So valid losses stay
# above -0.0043 per frame.
LOWEST_PER_FRAME = -0.01


def check_labels_async(targets: Tensor, target_lengths: Tensor, num_labels: int, blank: int) -> None:
    """Rejects invalid labels on their device. The host does not wait; a later operation raises the error.

    Args:
        targets: (N, S) or (sum of `target_lengths`,)
        target_lengths: (N,)
    """
    if not (targets.is_cuda or targets.is_cpu):
        return  # other devices lack the operation
    wrong = (targets < 0) | (targets >= num_labels) | (targets == blank)
    if targets.ndim == 2:
        lengths = target_lengths.to(targets.device, non_blocking=True)
        wrong &= torch.arange(targets.shape[1], device=targets.device) < lengths[:, None]
    torch._assert_async(
        ~wrong.any(), f"`targets` contains the blank ({blank}) or a label outside 0 to {num_labels - 1}."
    )


def check_labels(targets: Tensor, target_lengths: list[int], num_labels: int, blank: int) -> None:
    rows = targets.tolist()
    if targets.ndim == 1:
        ends = list(itertools.accumulate(target_lengths))
        transcripts = [rows[end - length : end] for end, length in zip(ends, target_lengths, strict=True)]
    else:
        transcripts = [row[:length] for row, length in zip(rows, target_lengths, strict=True)]
    labels = set().union(*transcripts)
    if labels and (blank in labels or min(labels) < 0 or max(labels) >= num_labels):
        wrong = {label for label in labels if label == blank or not 0 <= label < num_labels}
        utterance, label = next(
            (utterance, label)
            for utterance, transcript in enumerate(transcripts)
            for label in transcript
            if label in wrong
        )
        raise ValueError(f"`targets`: utterance {utterance} has label {label}, {_why_wrong(label, num_labels, blank)}")


def _why_wrong(label: int, num_labels: int, blank: int) -> str:
    if label == blank:
        return "which is the blank. Remove it, count only the labels before it in `target_lengths`, or change `blank`."
    if label < 0:
        return "which is negative. Count only real labels in `target_lengths`, not padding."
    return (
        f"but `log_probs` has {num_labels} labels, from 0 to {num_labels - 1}. Does the tokenizer have a larger "
        "vocabulary than the model?"
    )


def check_lengths(log_probs: Tensor, targets: Tensor, input_lengths: list[int], target_lengths: list[int]) -> None:
    num_frames = len(log_probs)
    for utterance, length in enumerate(input_lengths):
        if not 0 <= length <= num_frames:
            raise ValueError(
                f"`input_lengths`: utterance {utterance} has {length} frames, but `log_probs` has {num_frames}. Count "
                "frames after the model's subsampling, not samples or input features."
            )
    if min(target_lengths) < 0:
        raise ValueError(f"`target_lengths` must not be negative; got {min(target_lengths)}.")
    if targets.ndim == 2 and len(targets) != len(target_lengths):
        raise ValueError(
            f"`targets` must have one row per utterance; got {len(targets)} rows for {len(target_lengths)} utterances."
        )
    if targets.ndim == 2 and max(target_lengths) > targets.shape[1]:
        raise ValueError(
            f"`target_lengths`: utterance {target_lengths.index(max(target_lengths))} has {max(target_lengths)} "
            f"labels, but `targets` has only {targets.shape[1]} columns."
        )
    if targets.ndim == 1 and sum(target_lengths) != len(targets):
        raise ValueError(
            f"`target_lengths` must sum to the length of `targets`, which has one dimension; got "
            f"{sum(target_lengths)} and {len(targets)}. Padded labels need shape (utterances, labels)."
        )


def check_not_negative(losses: list[float], num_frames: int) -> None:
    for loss in losses:
        if loss < LOWEST_PER_FRAME * num_frames:
            raise ValueError(
                f"`log_probs` must be log probabilities, whose CTC losses are never negative; got a loss of {loss:g}. "
                "These values look like logits: apply `log_softmax(-1)`."
            )
