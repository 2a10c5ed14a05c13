"""Masks and means that ignore padding, so that the utterances of a batch do not affect each other.

B utterances, F frames of the longest, D features. Lengths may stay in host memory; masks are on the device of the
features.
"""

from __future__ import annotations

from typing import TypeVar

import torch
from torch import Tensor

Number = TypeVar("Number", int, Tensor)
"""A number of samples or frames: that of one utterance, or (B,) numbers."""


def real_frames(num_frames: Tensor, size: int, device: torch.device | None = None) -> Tensor:
    """(B, size) mask of the frames that are not padding."""
    return torch.arange(size, device=device) < num_frames.to(device, non_blocking=True)[:, None]


def centered(features: Tensor, num_frames: Tensor) -> Tensor:
    """Subtracts from (B, F, D) features their mean over each utterance; padding becomes zero."""
    real = real_frames(num_frames, features.shape[1], features.device)[:, :, None]
    count = num_frames.to(features, non_blocking=True)[:, None, None]
    mean = features.masked_fill(~real, 0.0).sum(1, keepdim=True) / count
    return (features - mean).masked_fill(~real, 0.0)


def normalized(features: Tensor, num_frames: Tensor, *, correction: int = 0, epsilon: float = 1e-7) -> Tensor:
    """Scales (B, F, D) features to zero mean and unit variance over each utterance; padding becomes zero.

    As in `torch.var`, `correction` is subtracted from the number of frames. The variance is increased by `epsilon`.
    """
    features = centered(features, num_frames)
    count = (num_frames - correction).to(features, non_blocking=True)[:, None, None]
    variance = features.square().sum(1, keepdim=True) / count
    return features * (variance + epsilon).rsqrt()
