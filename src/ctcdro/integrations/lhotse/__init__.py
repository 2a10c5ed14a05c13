"""lhotse samplers that yield CutSets with one group each and equal total durations.

    LengthMatchedCutSampler       for an eager CutSet: the plan of `ctcdro.LengthMatchedBatchSampler`
    LengthMatchedStreamSampler    for a lazy CutSet, Shar, or another stream of any length, in bounded memory
    group_numbers                 the group of each cut, for `ctcdro.CTCDROLoss`

Both are lhotse `CutSampler`s, with `set_epoch`, `filter`, `map`, `state_dict` and `diagnostics`. Batches are a pure
function of (cuts, options, seed, epoch). Ranks take turns and get the same number of batches. A state can be saved at
any batch.
"""

from ...runtime.extras import extra

with extra("lhotse", "The lhotse integration"):
    from .base import group_numbers, language_of
    from .eager import LengthMatchedCutSampler
    from .stream import LengthMatchedStreamSampler

__all__ = ["LengthMatchedCutSampler", "LengthMatchedStreamSampler", "group_numbers", "language_of"]
