"""CTC losses, one per utterance: what the objectives weigh.

Also the two normalisations that the paper's appendix shows to be no substitute for length-matched batches.
"""

from __future__ import annotations

import torch
from torch import Tensor


def ctc_losses(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor | list[int],
    target_lengths: Tensor | list[int],
    blank: int = 0,
) -> Tensor:
    """The CTC loss of each utterance, infinite where the transcript does not fit into the frames.

    `torch.nn.functional.ctc_loss` has two ways with an infinite loss: to report it, with a gradient that is not a
    number, or to report zero, with a zero gradient. A robust objective needs the truth for its value and zero for its
    gradient, which is what this gives.

    Args:
        log_probs: (T, N, C) log probabilities, as from `log_softmax`.
        targets: (N, S) padded labels, or all labels in one row.
        input_lengths: (N,) frames of each utterance; on the CPU, lest the host wait for the device.
        target_lengths: (N,) labels of each utterance; likewise.
        blank: the label that stands for no output.

    Returns:
        (N,) losses.

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
    # The operator under `torch.nn.functional.ctc_loss`: its last argument zeroes gradients, and only gradients.
    losses, _ = torch._ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, True)  # type: ignore[arg-type]
    return losses


def per_frame(losses: Tensor, input_lengths: Tensor) -> Tensor:
    """Losses over the number of frames of each utterance ("Frame" in the paper's normalisation study).

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
