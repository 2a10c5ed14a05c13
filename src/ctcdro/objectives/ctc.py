"""CTC losses, one per utterance: what the objectives weigh.

Also the two normalizations that the paper's appendix shows to be no substitute for length-matched batches.
"""

from __future__ import annotations

import torch
from torch import Tensor

# `log_softmax` in bfloat16 is off by at most 2 ** -8 of each log probability. A transcript is certain only if at most
# three labels share each frame; after rounding, their probabilities sum to exp(0.0043) at most. So losses of log
# probabilities stay above -0.0043 per frame.
LOWEST_PER_FRAME = -0.01


def ctc_losses(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor | list[int],
    target_lengths: Tensor | list[int],
    blank: int = 0,
) -> Tensor:
    """The CTC loss of each utterance: infinite where the transcript does not fit into the frames, NaN where `log_probs`
    is.

    `torch.nn.functional.ctc_loss` has two ways to treat an infinite loss. It reports infinity, with a gradient of NaN,
    or it reports zero, with a gradient of zero. A robust objective needs infinity as the value and zero as the
    gradient, which is what this function returns.

    Lengths and labels are checked, because torch reads and writes out of bounds where they are wrong. Labels on a GPU
    are checked there, without making the host wait.

    Args:
        log_probs: (T, N, C) log probabilities, as from `log_softmax`.
        targets: (N, S) padded labels, or all labels in one row. Padding may have any value.
        input_lengths: (N,) frames of each utterance; keep them on the CPU, so that the host need not wait for the GPU.
        target_lengths: (N,) labels of each utterance; likewise.
        blank: the label that stands for no output.

    Returns:
        (N,) losses.

    Raises:
        ValueError: if shapes or lengths do not match, a label is not one of the C labels or is the blank, or a loss is
            negative, which means that `log_probs` holds logits.

    Example:
        >>> log_probs = torch.zeros(2, 2, 3).log_softmax(-1)
        >>> ctc_losses(log_probs, torch.tensor([[1, 2], [1, 1]]), [2, 2], [2, 2])
        tensor([2.1972,    inf])
    """
    if log_probs.ndim != 3:
        raise ValueError(f"`log_probs` must have shape (frames, utterances, labels); got {tuple(log_probs.shape)}.")
    if not log_probs.shape[1] == len(input_lengths) == len(target_lengths):
        raise ValueError(
            f"`log_probs` must have shape (frames, utterances, labels); {tuple(log_probs.shape)} would be "
            f"{log_probs.shape[1]} utterances, but `input_lengths` has {len(input_lengths)} entries and "
            f"`target_lengths` {len(target_lengths)}. Transpose `log_probs` if utterances come first."
        )
    if log_probs.dtype in (torch.float16, torch.bfloat16):
        log_probs = log_probs.to(torch.float32)  # as autocast has it
    if log_probs.shape[1] == 0:
        return log_probs.sum((0, 2))
    frames, labels = _as_list(input_lengths), _as_list(target_lengths)
    if isinstance(frames, list) and isinstance(labels, list):
        _check_lengths(log_probs, targets, frames, labels)
    if isinstance(labels, list) and _can_read(targets):
        _check_labels(targets, labels, log_probs.shape[2], blank)
    else:
        check_labels_async(targets, torch.as_tensor(target_lengths), log_probs.shape[2], blank)
    # The operator under `torch.nn.functional.ctc_loss`: its last argument zeroes gradients, and only gradients.
    losses, _ = torch._ctc_loss(log_probs, targets, frames, labels, blank, True)  # type: ignore[arg-type]
    if _can_read(losses):
        _check_not_negative(losses.tolist(), LOWEST_PER_FRAME * len(log_probs))
    return losses


def check_labels_async(targets: Tensor, target_lengths: Tensor, num_labels: int, blank: int) -> None:
    """Rejects wrong labels on their device. The host does not wait; a later operation raises the error.

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
        ~wrong.any(), f"`targets` has the blank ({blank}), or a label that is not from 0 to {num_labels - 1}."
    )


def _check_labels(targets: Tensor, target_lengths: list[int], num_labels: int, blank: int) -> None:
    rows, start = targets.tolist(), 0
    for utterance, length in enumerate(target_lengths):
        labels = rows[utterance][:length] if targets.ndim == 2 else rows[start : start + length]
        start += length
        if labels and (min(labels) < 0 or max(labels) >= num_labels or blank in labels):
            wrong = next(label for label in labels if label == blank or not 0 <= label < num_labels)
            raise ValueError(
                f"`targets`: utterance {utterance} has label {wrong}, {_why_wrong(wrong, num_labels, blank)}"
            )


def _why_wrong(label: int, num_labels: int, blank: int) -> str:
    if label == blank:
        return "which is the blank. Remove it, count only the labels before it in `target_lengths`, or change `blank`."
    if label < 0:
        return "a label below 0. Count only real labels in `target_lengths`, not padding."
    return (
        f"but `log_probs` has {num_labels} labels, from 0 to {num_labels - 1}. Does the tokenizer have a larger "
        "vocabulary than the model?"
    )


def _check_lengths(log_probs: Tensor, targets: Tensor, input_lengths: list[int], target_lengths: list[int]) -> None:
    num_frames = len(log_probs)
    for utterance, length in enumerate(input_lengths):
        if not 0 <= length <= num_frames:
            raise ValueError(
                f"`input_lengths`: utterance {utterance} has {length} frames, but `log_probs` has {num_frames}. Count "
                "frames after the subsampling of the model, not samples or input features."
            )
    if min(target_lengths) < 0:
        raise ValueError(f"`target_lengths` must be zero or more; got {min(target_lengths)}.")
    if targets.ndim == 2 and max(target_lengths) > targets.shape[1]:
        raise ValueError(
            f"`target_lengths`: utterance {target_lengths.index(max(target_lengths))} has {max(target_lengths)} "
            f"labels, but `targets` has room for {targets.shape[1]}."
        )
    if targets.ndim == 1 and sum(target_lengths) != len(targets):
        raise ValueError(
            f"`target_lengths` must sum to the number of labels in `targets` if that is one row; got "
            f"{sum(target_lengths)} and {len(targets)}. Padded labels need shape (utterances, labels)."
        )


def _check_not_negative(losses: list[float], lowest: float) -> None:
    for loss in losses:
        if loss < lowest:
            raise ValueError(
                f"`log_probs` must be log probabilities, whose CTC losses are never negative; got a loss of {loss:g}. "
                "These look like logits: apply `log_softmax(-1)`."
            )


def _as_list(lengths: Tensor | list[int]) -> Tensor | list[int]:
    """Lengths as a list, or unchanged if they have no values yet; torch also needs them on the host."""
    if not isinstance(lengths, Tensor):
        return list(lengths)
    lengths = lengths.cpu()
    return lengths.tolist() if _can_read(lengths) else lengths


def _can_read(tensor: Tensor) -> bool:
    """Whether the host can read the values without waiting: they are in its memory, and neither fake nor traced."""
    return tensor.is_cpu and type(tensor) is Tensor and not torch.compiler.is_compiling()


def per_frame(losses: Tensor, input_lengths: Tensor) -> Tensor:
    """Losses over the number of frames of each utterance ("Frame" in the paper's normalization study).

    Example:
        >>> per_frame(torch.tensor([60.0, 90.0]), torch.tensor([20, 60]))
        tensor([3.0000, 1.5000])
    """
    return losses / input_lengths.to(losses)


def per_label(losses: Tensor, target_lengths: Tensor) -> Tensor:
    """Losses over the number of target labels of each utterance ("Target" in the study); an empty transcript counts as
    one label.

    Example:
        >>> per_label(torch.tensor([60.0, 90.0, 5.0]), torch.tensor([20, 60, 0]))
        tensor([3.0000, 1.5000, 5.0000])
    """
    return losses / target_lengths.to(losses).clamp(min=1)
