"""CTC losses, one per utterance: the input of the objectives."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

import torch
from torch import Tensor

from . import host_memory
from .ctc_checks import check_labels, check_labels_async, check_lengths, check_not_negative

Normalization: TypeAlias = Literal["none", "frame", "label"]


def ctc_losses(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor | list[int],
    target_lengths: Tensor | list[int],
    blank: int = 0,
    normalization: Normalization = "none",
) -> Tensor:
    """Computes the CTC loss of each utterance.

    The loss is infinite if the transcript does not fit into the frames, and NaN if `log_probs` is NaN.

    `torch.nn.functional.ctc_loss` has two ways to treat an infinite loss. It returns infinity with a gradient of NaN,
    or zero with a gradient of zero. A robust objective needs the value infinity with a gradient of zero, which this
    function returns.

    Lengths and labels are checked, because torch reads and writes out of bounds if they are wrong. Labels on a GPU are
    checked there, without synchronizing with the host.

    Args:
        log_probs: (T, N, C) log probabilities, such as the output of `log_softmax`.
        targets: (N, S) padded labels, or all labels in one row. Padding may have any value.
        input_lengths: (N,) frames per utterance. Keep them on the CPU: lengths on a GPU force a synchronization.
        target_lengths: (N,) labels per utterance, on the CPU as well.
        blank: the blank label.
        normalization: "frame" or "label" divides each loss by the number of frames or labels of its utterance; an
            empty transcript counts as one label. The paper's appendix shows that neither replaces length-matched
            batches.

    Returns:
        (N,) losses.

    Raises:
        ValueError: if shapes or lengths do not match, a label is not one of the C labels or is the blank, or a loss is
            negative, which means that `log_probs` holds logits.

    Example:
        >>> log_probs = torch.zeros(2, 2, 3).log_softmax(-1)
        >>> ctc_losses(log_probs, torch.tensor([[1, 2], [1, 1]]), [2, 2], [2, 2])
        tensor([2.1972,    inf])
        >>> ctc_losses(log_probs, torch.tensor([[1, 2], [1, 1]]), [2, 2], [2, 2], normalization="frame")
        tensor([1.0986,    inf])
    """
    if normalization not in get_args(Normalization):
        raise ValueError(f"`normalization` must be one of {', '.join(get_args(Normalization))}; got {normalization!r}.")
    if log_probs.ndim != 3:
        raise ValueError(f"`log_probs` must have shape (frames, utterances, labels); got {tuple(log_probs.shape)}.")
    if not log_probs.shape[1] == len(input_lengths) == len(target_lengths):
        raise ValueError(
            f"`log_probs` must have shape (frames, utterances, labels); {tuple(log_probs.shape)} would be "
            f"{log_probs.shape[1]} utterances, but `input_lengths` has {len(input_lengths)} entries and "
            f"`target_lengths` {len(target_lengths)}. Transpose `log_probs` if utterances come first."
        )
    if log_probs.dtype in (torch.float16, torch.bfloat16):
        log_probs = log_probs.to(torch.float32)  # like autocast
    if log_probs.shape[1] == 0:
        return log_probs.sum((0, 2))
    frames, labels = _as_list(input_lengths), _as_list(target_lengths)
    if isinstance(frames, list) and isinstance(labels, list):
        check_lengths(log_probs, targets, frames, labels)
    if isinstance(labels, list) and host_memory.is_readable(targets):
        check_labels(targets, labels, log_probs.shape[2], blank)
    else:
        check_labels_async(targets, torch.as_tensor(target_lengths), log_probs.shape[2], blank)
    # The operator under `torch.nn.functional.ctc_loss`: its last argument zeroes gradients, and only gradients.
    losses, _ = torch._ctc_loss(log_probs, targets, frames, labels, blank, True)  # type: ignore[arg-type]
    if host_memory.is_readable(losses):
        check_not_negative(losses.tolist(), len(log_probs))
    if normalization == "none":
        return losses
    divisor = input_lengths if normalization == "frame" else target_lengths
    return losses / torch.as_tensor(divisor).to(losses, non_blocking=True).clamp(min=1)


def _as_list(lengths: Tensor | list[int]) -> Tensor | list[int]:
    """Converts lengths to a list; traced and fake tensors stay tensors on the CPU, where torch needs them."""
    if not isinstance(lengths, Tensor):
        return list(lengths)
    lengths = lengths.cpu()
    return lengths.tolist() if host_memory.is_readable(lengths) else lengths
