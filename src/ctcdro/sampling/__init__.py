"""Durations and groups in, batches out: lists of indices, one group each, close to one total duration.

    samplers     the batch samplers
    base         a plan per epoch, shared by the ranks, with a state of two numbers
    packing      which utterances make up a batch
    streaming    the same for data that arrive one by one

Needs torch and numpy only. `from ctcdro.sampling import LengthMatchedBatchSampler` works for all samplers.
"""

from typing import TYPE_CHECKING

from ..runtime.lazy import lazy_names

__all__ = ["GroupUniformBatchSampler", "LengthMatchedBatchSampler", "SimilarLengthBatchSampler"]

if TYPE_CHECKING:
    from .samplers import GroupUniformBatchSampler, LengthMatchedBatchSampler, SimilarLengthBatchSampler

__getattr__, __dir__ = lazy_names(__name__, {"samplers": __all__})
