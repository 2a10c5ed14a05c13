"""SpecAugment: time warping, time masks and frequency masks, in training only.

The settings are those of the paper's experiments: a warp of up to 5 frames, 2 frequency masks of up to 27 features, 10
time masks of up to 5% of the utterance each. Two details differ from the authors' code. The width of a time mask
depends on its utterance, not on the longest in the batch, so padding has no effect. The warp interpolates linearly.

Random numbers come from torch's CPU generator, so masks are the same on every device, and `torch.get_rng_state()` is
enough to resume exactly.

Reference:
    Park et al., SpecAugment, 2019, https://arxiv.org/abs/1904.08779
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class SpecAugment(nn.Module):
    """Augments (B, F, D) features in training mode, and returns them unchanged in evaluation mode."""

    def __init__(
        self,
        time_warp: int = 5,
        num_frequency_masks: int = 2,
        frequency_mask_width: int = 27,
        num_time_masks: int = 10,
        time_mask_ratio: float = 0.05,
    ) -> None:
        super().__init__()
        self.time_warp = time_warp
        self.num_frequency_masks = num_frequency_masks
        self.frequency_mask_width = frequency_mask_width
        self.num_time_masks = num_time_masks
        self.time_mask_ratio = time_mask_ratio

    def forward(self, features: Tensor, num_frames: Tensor) -> Tensor:
        """(B, F, D) features, (B,) frames per utterance -> features of the same shape."""
        if not self.training:
            return features
        num_utterances, size, width = features.shape
        length = num_frames.cpu()[:, None]
        if self.time_warp:
            features = _warped(features, _warp(length, size, self.time_warp).to(features.device, non_blocking=True))
        widest = min(self.frequency_mask_width, width)
        frequency_masks = _spans(torch.full((num_utterances, 1), width), widest, self.num_frequency_masks, width)
        time_masks = _spans(length, (length * self.time_mask_ratio).long(), self.num_time_masks, size)
        # The two are combined on the device: a large copy from memory that is not pinned makes the host wait.
        time_masks, frequency_masks = (
            masks.to(features.device, non_blocking=True) for masks in (time_masks, frequency_masks)
        )
        return features.masked_fill(time_masks[:, :, None] | frequency_masks[:, None, :], 0.0)


def _spans(length: Tensor, most: Tensor | int, num_spans: int, size: int) -> Tensor:
    """(B, size) mask of random spans of 0 to `most` positions among the first `length` (B, 1)."""
    width_drawn, start_drawn = torch.rand(2, len(length), num_spans)
    width = (width_drawn * (most + 1)).long()
    start = (start_drawn * (length - width + 1)).long()
    positions = torch.arange(size)[:, None]
    return ((start[:, None] <= positions) & (positions < (start + width)[:, None])).any(-1)


def _warp(length: Tensor, size: int, most: int) -> Tensor:
    """(B, size) source position of each frame.

    A random frame moves by up to `most` positions; the frames on either side are stretched. Utterances that are too
    short are not warped.
    """
    center_drawn, move_drawn = torch.rand(2, len(length), 1)
    last = (length - 1).float()
    room = last - 2 * most
    center = most + center_drawn * room
    target = center + (2 * move_drawn - 1) * (most - 0.5)
    position = torch.arange(size, dtype=torch.float32).expand(len(length), size)
    warped = torch.where(
        position < target, position * center / target, last - (last - position) * (last - center) / (last - target)
    )
    return torch.where((room > 0) & (position <= last), warped, position)


def _warped(features: Tensor, position: Tensor) -> Tensor:
    before = position.long()
    after = (before + 1).clamp(max=features.shape[1] - 1)
    share = (position - before).to(features)[:, :, None]
    at = torch.arange(len(features), device=features.device)[:, None]
    return torch.lerp(features[at, before], features[at, after], share)
