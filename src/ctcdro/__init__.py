"""Distributionally robust training of multilingual speech recognizers: CTC-DRO and its baselines."""

from typing import TYPE_CHECKING

from .runtime.lazy import lazy_names

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
    "smoothed_update",
]

if TYPE_CHECKING:
    from .objectives.ctc import ctc_losses
    from .objectives.ctc_dro import ctc_dro, ctc_dro_unsmoothed
    from .objectives.erm import erm
    from .objectives.group_dro import group_dro
    from .objectives.loss import CTCDROLoss
    from .objectives.weights import exponential_update, smoothed_update
    from .sampling.samplers import GroupUniformBatchSampler, LengthMatchedBatchSampler, SimilarLengthBatchSampler
    from .speech.manifest import Manifest
    from .speech.utterance import Utterance

# torch takes seconds to import: commands that do not train, and processes that synthesize audio, do not need it.
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "objectives.ctc": ["ctc_losses"],
        "objectives.ctc_dro": ["ctc_dro", "ctc_dro_unsmoothed"],
        "objectives.erm": ["erm"],
        "objectives.group_dro": ["group_dro"],
        "objectives.loss": ["CTCDROLoss"],
        "objectives.weights": ["exponential_update", "smoothed_update"],
        "sampling.samplers": ["GroupUniformBatchSampler", "LengthMatchedBatchSampler", "SimilarLengthBatchSampler"],
        "speech.manifest": ["Manifest"],
        "speech.utterance": ["Utterance"],
    },
)
