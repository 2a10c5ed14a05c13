"""SpecAugment: warps time, and blanks out stretches of time and bands of features, in training only.

The recipe is that of the paper's experiments: a warp of up to 5 frames, 2 bands of up to 27 features, 10 stretches of
up to 0.05 of the utterance each. Two details differ from the code behind the paper: a stretch is measured by its own
utterance, not by the longest in the batch, so that padding changes nothing; and the warp interpolates linearly.

All chance comes from torch's generator of the host, whatever the device: masks are the same everywhere, and who keeps
`torch.get_rng_state()` can go on exactly.

Reference:
    Park et al., SpecAugment, 2019, https://arxiv.org/abs/1904.08779
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class SpecAugment(nn.Module):
    """Augments (B, F, D) features in training mode, and leaves them alone in evaluation mode.

    Args:
        time_warp: by how many frames at most a point of the utterance is moved; 0 for no warp.
        num_frequency_masks: bands in each utterance.
        frequency_mask_width: of a band, at most, in features.
        num_time_masks: stretches in each utterance.
        time_mask_ratio: of a stretch, at most, as a part of the utterance.

    Example:
        >>> _ = torch.manual_seed(0)
        >>> features = torch.ones(2, 100, 80)
        >>> augmented = SpecAugment()(features, torch.tensor([100, 60]))
        >>> augmented.shape, bool((augmented == 0).any())
        (torch.Size([2, 100, 80]), True)
    """

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
        """(B, F, D) features and (B,) frames of each -> features of the same shape."""
        if not self.training:
            return features
        num_utterances, size, width = features.shape
        length = num_frames.cpu()[:, None]
        if self.time_warp:
            features = _warped(features, _warp(length, size, self.time_warp).to(features.device, non_blocking=True))
        widest = min(self.frequency_mask_width, width)
        bands = _spans(torch.full((num_utterances, 1), width), widest, self.num_frequency_masks, width)
        stretches = _spans(length, (length * self.time_mask_ratio).long(), self.num_time_masks, size)
        hidden = stretches[:, :, None] | bands[:, None, :]
        return features.masked_fill(hidden.to(features.device, non_blocking=True), 0.0)


def _spans(length: Tensor, most: Tensor | int, num_spans: int, size: int) -> Tensor:
    """(B, size) True within spans of 0 to `most` places, anywhere in the first `length` (B, 1) of them."""
    width_drawn, start_drawn = torch.rand(2, len(length), num_spans)
    width = (width_drawn * (most + 1)).long()
    start = (start_drawn * (length - width + 1)).long()
    places = torch.arange(size)[:, None]
    return ((start[:, None] <= places) & (places < (start + width)[:, None])).any(-1)


def _warp(length: Tensor, size: int, most: int) -> Tensor:
    """(B, size) the place that each frame is taken from: one frame moves by up to `most`, the ends stay, and what is
    between is stretched. Utterances too short to be moved stay as they are."""
    center_drawn, move_drawn = torch.rand(2, len(length), 1)
    last = (length - 1).float()
    room = last - 2 * most
    center = most + center_drawn * room
    target = center + (2 * move_drawn - 1) * (most - 0.5)
    place = torch.arange(size, dtype=torch.float32).expand(len(length), size)
    warped = torch.where(
        place < target, place * center / target, last - (last - place) * (last - center) / (last - target)
    )
    return torch.where((room > 0) & (place <= last), warped, place)


def _warped(features: Tensor, place: Tensor) -> Tensor:
    before = place.long()
    after = (before + 1).clamp(max=features.shape[1] - 1)
    share = (place - before).to(features)[:, :, None]
    at = torch.arange(len(features), device=features.device)[:, None]
    return torch.lerp(features[at, before], features[at, after], share)
