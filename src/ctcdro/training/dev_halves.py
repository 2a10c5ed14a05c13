"""Splits the development set into a half that sets the group weights and a half that selects the model.

Otherwise the model would be selected on the data that its weights were fitted to.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..scoring.scores import score
from ..scoring.transcripts import Prediction
from ..speech.manifest import Manifest

logger = logging.getLogger(__name__)

MIN_CHARACTERS = 500
"""Characters per group that each half needs. With fewer, error rates are too rough, and the set is not split."""


@dataclass(frozen=True)
class DevHalves:
    for_weights: list[int]
    """Positions in the development manifest."""
    for_selection: list[int]
    groups: list[str]
    """The group of every utterance of the development set; of several, the one with the largest share."""

    def error_rates(self, predictions: Sequence[Prediction]) -> dict[str, float]:
        """The CER of each group in the half that sets the weights, from predictions for the whole set."""
        scored = score(
            replace(predictions[index], lang=self.groups[index], lang_shares=None) for index in self.for_weights
        )
        return {group: rate for group, rate in scored.rates("cer").items() if rate is not None}


def split_dev(dev: Manifest, group_by: Sequence[str], group_names: Sequence[str]) -> DevHalves:
    """Splits by a hash of the ids, so that the halves do not change when utterances are added.

    Raises:
        ValueError: if the development set lacks a group.
    """
    found = dev.groups(group_by)
    groups = [found.names[number] for number in found.numbers]
    halves = [_half(utterance.id or str(index)) for index, utterance in enumerate(dev)]
    characters = {(name, half): 0 for name in group_names for half in (0, 1)}
    for utterance, group, half in zip(dev, groups, halves, strict=True):
        characters[group, half] = characters.get((group, half), 0) + len(utterance.text)
    missing = [name for name in group_names if characters[name, 0] + characters[name, 1] == 0]
    if missing:
        raise ValueError(
            f"{dev.path}: no transcripts of {', '.join(missing)}, but `objective.signal: error_rate` needs "
            "every group. Add some, or use `objective.signal: loss_per_character`."
        )
    small = sorted({name for (name, _), number in characters.items() if number < MIN_CHARACTERS})
    if small:
        logger.warning(
            f"The development set is too small to be split: each half needs {MIN_CHARACTERS} characters per group, and "
            f"{', '.join(small)} has fewer. All of it sets the group weights and selects the model."
        )
        return DevHalves(list(range(len(dev))), list(range(len(dev))), groups)
    positions = np.array(halves)
    return DevHalves(np.flatnonzero(positions == 0).tolist(), np.flatnonzero(positions == 1).tolist(), groups)


def _half(utterance_id: str) -> int:
    return hashlib.blake2b(utterance_id.encode(), digest_size=1).digest()[0] % 2
