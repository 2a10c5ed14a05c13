"""Everything that defines a recognizer, except its weights."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args

from .encoders.lora import Lora
from .encoders.mel_small import MEL_SMALL
from .heads import Head


@dataclass(frozen=True)
class RecognizerSettings:
    """Everything that defines a recognizer, except its weights."""

    encoder: str
    """`mel-small`, or the name of the checkpoint."""
    vocabulary_size: int
    head: Head
    freeze_encoder: bool = False
    lora: Lora | None = None
    gradient_checkpointing: bool = False
    spec_augment: bool = False
    longest_seconds: float | None = None
    """Duration of the longest training utterance, if known."""

    def __post_init__(self) -> None:
        if self.longest_seconds is not None and not 0 < self.longest_seconds < math.inf:
            raise ValueError(f"`longest_seconds` must be positive; got {self.longest_seconds!r}.")


def recognizer_settings(
    encoder: str,
    vocabulary_size: int,
    *,
    head: Head | None = None,
    freeze_encoder: bool = False,
    lora: Lora | Mapping[str, Any] | None = None,
    gradient_checkpointing: bool = False,
    spec_augment: bool | None = None,
) -> RecognizerSettings:
    """The settings from the arguments of `build`, with its defaults; rejects incompatible ones."""
    is_mel = encoder == MEL_SMALL
    head = head or ("linear" if is_mel else "transformer")
    if head not in get_args(Head):
        raise ValueError(f"`head` must be one of {', '.join(get_args(Head))}; got {head!r}.")
    if is_mel and (head != "linear" or freeze_encoder or lora is not None or gradient_checkpointing):
        raise ValueError(
            f"`encoder`: {MEL_SMALL} is trained from scratch with a linear head. It does not support another `head`, "
            "`freeze_encoder`, `lora` or `gradient_checkpointing`."
        )
    if freeze_encoder and lora is not None:
        raise ValueError("`freeze_encoder` and `lora` are mutually exclusive: LoRA freezes the encoder itself.")
    if freeze_encoder and gradient_checkpointing:
        raise ValueError("`gradient_checkpointing` has no effect with `freeze_encoder`. Turn it off.")
    if isinstance(lora, Mapping):
        lora = Lora(**lora)
    if spec_augment is None:
        spec_augment = head != "linear"
    if spec_augment and head == "linear" and freeze_encoder:
        raise ValueError("`spec_augment`: with a linear head, it masks the input of the encoder, which is frozen.")
    return RecognizerSettings(
        encoder, vocabulary_size, head, freeze_encoder, lora, gradient_checkpointing, spec_augment
    )
