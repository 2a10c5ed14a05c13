"""A recognizer for inference: audio -> log probabilities, without the parts that only training needs.

All decisions depend on shapes, not on values, so `torch.export` can trace it. Every export contains this module.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ..encoders.base import PretrainedEncoder
from ..encoders.mel_small import MelSmall
from ..encoders.pretrained import from_options
from ..heads import Head, LinearHead, make_head
from ..masks import real_frames

# Log probability of all labels but the blank in frames after the end of an utterance. Infinity would turn into NaN in
# some decoders.
IMPOSSIBLE = -1e4


class InferenceModel(nn.Module):
    """An encoder and a head.

    Args:
        encoder: family and settings of the encoder, from `encoder_options`.
        head: name of the head, "linear", "transformer" or "convolution".
        num_labels: size of the vocabulary. Label 0 is the blank.
    """

    def __init__(self, encoder: Mapping[str, Any], head: Head, num_labels: int) -> None:
        super().__init__()
        is_mel = encoder["family"] == "mel-small"
        self.encoder = MelSmall(**encoder["config"]) if is_mel else from_options(encoder)
        self.head = make_head(head, self.encoder.width, self.encoder.num_layers, num_labels)

    def forward(self, audio: Tensor, num_samples: Tensor) -> tuple[Tensor, Tensor]:
        """Returns log probabilities and numbers of frames.

        The output for an utterance depends neither on the rest of its batch nor on the content of its padding. Frames
        after its end are blank, so that decoders may ignore the number of frames.

        Args:
            audio: (B, T) float32 at 16 kHz.
            num_samples: (B,) samples per utterance.

        Returns:
            (B, F, V) log probabilities of labels, (B,) frames per utterance.
        """
        audio = audio.masked_fill(~real_frames(num_samples, audio.shape[1], audio.device), 0.0)
        hidden = self.encoder(audio, num_samples, all_layers=not isinstance(self.head, LinearHead))
        num_frames = self.encoder.num_frames(num_samples)
        log_probs = self.head(hidden, num_frames).log_softmax(-1)
        num_frames = self.head.num_frames(num_frames)
        real = real_frames(num_frames, log_probs.shape[1], audio.device)
        is_blank = torch.arange(log_probs.shape[2], device=audio.device) == 0
        after_end = torch.where(is_blank, 0.0, IMPOSSIBLE)
        return torch.where(real[:, :, None], log_probs, after_end), num_frames

    @property
    def samples_per_frame(self) -> int:
        """The distance of output frames."""
        first, distance = self.encoder.min_samples, 9_600_000  # a multiple of every distance in use
        samples = torch.tensor([first, first + distance])
        frames = self.head.num_frames(self.encoder.num_frames(samples))
        return round(distance / int(frames[1] - frames[0]))


def encoder_options(encoder: PretrainedEncoder | MelSmall) -> dict[str, Any]:
    """The first argument of `InferenceModel` for an encoder like this one."""
    return {"family": "mel-small", "config": encoder.options} if isinstance(encoder, MelSmall) else encoder.options
