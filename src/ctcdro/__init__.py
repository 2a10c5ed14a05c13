"""Distributionally robust training of multilingual speech recognisers: CTC-DRO and what it is compared with."""

from .ctc import ctc_losses, per_frame, per_label
from .objectives import CTCDROLoss, ctc_dro, ctc_dro_unsmoothed, erm, group_dro
from .sampling import GroupUniformBatchSampler, LengthMatchedBatchSampler, SimilarLengthBatchSampler
from .utterance import Manifest, Utterance
from .weights import exponential_update, smoothed_update

__version__ = "0.1.0"

__all__ = [
    "CTCDROLoss",
    "GroupUniformBatchSampler",
    "LengthMatchedBatchSampler",
    "Manifest",
    "SimilarLengthBatchSampler",
    "Utterance",
    "ctc_dro",
    "ctc_dro_unsmoothed",
    "ctc_losses",
    "erm",
    "exponential_update",
    "group_dro",
    "per_frame",
    "per_label",
    "smoothed_update",
]
