"""Distributionally robust training of multilingual speech recognizers: CTC-DRO and its baselines."""

from typing import TYPE_CHECKING

from .runtime.lazy import lazy_names

__version__ = "0.1.0"

__all__ = [
    "AdaptiveBatchSampler",
    "CTCDROLoss",
    "GroupUniformBatchSampler",
    "LengthMatchedBatchSampler",
    "Manifest",
    "ObjectiveCTCLoss",
    "SimilarLengthBatchSampler",
    "Utterance",
    "budget_use",
    "ctc_dro",
    "ctc_dro_unsmoothed",
    "ctc_losses",
    "erm",
    "error_weighted",
    "exponential_update",
    "group_dro",
    "proportional_weights",
    "smoothed_update",
    "static_weights",
]

if TYPE_CHECKING:
    from .objectives.ctc import ctc_losses
    from .objectives.ctc_dro import ctc_dro, ctc_dro_unsmoothed
    from .objectives.erm import erm
    from .objectives.error_weighted import error_weighted
    from .objectives.group_dro import group_dro
    from .objectives.loss import CTCDROLoss, ObjectiveCTCLoss
    from .objectives.static_weights import static_weights
    from .objectives.weights import budget_use, exponential_update, proportional_weights, smoothed_update
    from .sampling.adaptive import AdaptiveBatchSampler
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
        "objectives.error_weighted": ["error_weighted"],
        "objectives.group_dro": ["group_dro"],
        "objectives.loss": ["CTCDROLoss", "ObjectiveCTCLoss"],
        "objectives.static_weights": ["static_weights"],
        "objectives.weights": ["budget_use", "exponential_update", "proportional_weights", "smoothed_update"],
        "sampling.adaptive": ["AdaptiveBatchSampler"],
        "sampling.samplers": ["GroupUniformBatchSampler", "LengthMatchedBatchSampler", "SimilarLengthBatchSampler"],
        "speech.manifest": ["Manifest"],
        "speech.utterance": ["Utterance"],
    },
)
