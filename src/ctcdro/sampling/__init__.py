"""Durations and groups in, batches out: lists of indices, one group each, close to one total duration.

    samplers          the batch samplers
    base              epochs, ranks, and a state to resume from
    packing           all utterances of a group -> batches, by `bands` or by best fit
    streaming         cuts that arrive one by one -> batches, by `subset_sum`
    packed_batches    batches as two arrays, and how well they match

Needs torch and numpy only. `from ctcdro.sampling import LengthMatchedBatchSampler` works for all samplers.
"""

from typing import TYPE_CHECKING

from ..runtime.lazy import lazy_names

__all__ = ["GroupUniformBatchSampler", "LengthMatchedBatchSampler", "SimilarLengthBatchSampler"]

if TYPE_CHECKING:
    from .samplers import GroupUniformBatchSampler, LengthMatchedBatchSampler, SimilarLengthBatchSampler

__getattr__, __dir__ = lazy_names(__name__, {"samplers": __all__})
