"""lhotse samplers that yield CutSets of one group and of one total duration.

    LengthMatchedCutSampler       for an eager CutSet: the plan of `ctcdro.LengthMatchedBatchSampler`
    LengthMatchedStreamSampler    for a lazy CutSet, Shar, or another stream of any length, in bounded memory
    group_numbers                 the group of each cut, for `ctcdro.CTCDROLoss`

Both are `CutSampler`s of lhotse, with `set_epoch`, `filter`, `map`, `state_dict` and `diagnostics`. Batches are a pure
function of (cuts, options, seed, epoch). Ranks take them in turns and get equally many. A state resumes at any batch.
"""

from ...runtime.extras import extra

with extra("lhotse", "The lhotse integration"):
    from .base import group_numbers, language_of
    from .eager import LengthMatchedCutSampler
    from .stream import LengthMatchedStreamSampler

__all__ = ["LengthMatchedCutSampler", "LengthMatchedStreamSampler", "group_numbers", "language_of"]
