"""Signals, the quantities that the group weights compare: pure functions of the sums in `pending_losses.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

if TYPE_CHECKING:
    from torch import Tensor

LossSignal: TypeAlias = Literal["loss_per_second", "loss_per_character"]
ErrorSignal: TypeAlias = Literal["loss_per_character", "error_rate"]
SignalName: TypeAlias = Literal["loss_per_second", "loss_per_character", "error_rate"]

# Loss per wrong character, in nats: 2.4 to 3.75 in the twelve languages of docs/results.
NATS_PER_ERROR = 3.0


class Signal(Protocol):
    """(3, G) pending sums -> (G,) signal. Groups without entries get NaN."""

    def __call__(self, pending: Tensor) -> Tensor: ...


def loss_per_second(pending: Tensor) -> Tensor:
    """The mean loss of a batch: the paper's signal. With batches of equal duration, it is proportional to the loss per
    second.

    Example:
        >>> import torch
        >>> loss_per_second(torch.tensor([[400.0, 100.0], [2.0, 1.0], [0.0, 0.0]]))
        tensor([200., 100.])
    """
    losses, entries, _ = pending
    return losses / entries


def loss_per_character(pending: Tensor) -> Tensor:
    """The loss per character, times the mean number of characters in a batch.

    Languages differ in characters per second. A language with many has a high loss per second even if its error rate
    is low; a language with few has a low loss per second even if its error rate is high. The loss per character
    follows the error rate in both cases. The factor is the same for all groups, so step sizes keep their meaning: if
    all groups have the same number of characters per batch, this is `loss_per_second`.

    Example:
        >>> import torch
        >>> loss_per_character(torch.tensor([[400.0, 100.0], [2.0, 1.0], [200.0, 50.0]]))
        tensor([150., 150.])
    """
    losses, entries, characters = pending
    # A group whose transcripts are all empty counts as one character.
    return losses / characters.clamp(min=1) * (characters / entries).mean()


def estimated_error_rate(pending: Tensor) -> Tensor:
    """The character error rate that the loss per character suggests, at most 1.

    Across languages and scripts, one wrong character adds about three nats to the loss of an utterance. While a model
    predicts only blanks, the loss per character exceeds three nats in every language, so all groups have the rate 1.

    Example:
        >>> import torch
        >>> estimated_error_rate(torch.tensor([[400.0, 90.0], [2.0, 1.0], [50.0, 60.0]]))
        tensor([1.0000, 0.5000])
    """
    losses, _, characters = pending
    return (losses / characters.clamp(min=1) / NATS_PER_ERROR).clamp(max=1.0)


SIGNALS: dict[LossSignal, Signal] = {"loss_per_second": loss_per_second, "loss_per_character": loss_per_character}
