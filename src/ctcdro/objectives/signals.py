"""Signals: what the group weights compare, from the pending sums of `pending_losses.py`, as pure functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

if TYPE_CHECKING:
    from torch import Tensor

SignalName: TypeAlias = Literal["loss_per_second", "loss_per_character"]


class Signal(Protocol):
    """(3, G) pending sums -> (G,) what the rule compares. Groups without entries get NaN."""

    def __call__(self, pending: Tensor) -> Tensor: ...


def loss_per_second(pending: Tensor) -> Tensor:
    """The mean loss of a batch: the paper's signal. In batches of one total duration, it is a loss per second.

    Example:
        >>> import torch
        >>> loss_per_second(torch.tensor([[400.0, 100.0], [2.0, 1.0], [0.0, 0.0]]))
        tensor([200., 100.])
    """
    losses, entries, _ = pending
    return losses / entries


def loss_per_character(pending: Tensor) -> Tensor:
    """The loss per character, times the mean number of characters in a batch.

    Languages differ in characters per second. One with many has a high loss per second even where few characters are
    wrong; one with few has a low loss per second where most are. The loss per character follows the error rate in both.
    The factor, the same for all groups, keeps the meaning of step sizes: where all groups have the same number of
    characters per batch, this is `loss_per_second`.

    Example:
        >>> import torch
        >>> loss_per_character(torch.tensor([[400.0, 100.0], [2.0, 1.0], [200.0, 50.0]]))
        tensor([150., 150.])
    """
    losses, entries, characters = pending
    # A group whose transcripts are all empty counts as one character.
    return losses / characters.clamp(min=1) * (characters / entries).mean()


SIGNALS: dict[SignalName, Signal] = {"loss_per_second": loss_per_second, "loss_per_character": loss_per_character}
