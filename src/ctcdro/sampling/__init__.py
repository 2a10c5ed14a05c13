"""Batch samplers: from durations and groups to batches of one group with equal total durations.

samplers          the batch samplers
adaptive          length-matched batches whose groups have changing shares
chunks            the same in bounded memory, for data of any size
planned_rounds    changing shares, and a limit on repetitions
base              epochs, ranks, and a state to resume from
packing           batches from all utterances of a group: by composition, in bands, or by best fit
compositions      batches of a large group with the least padding, found by a `linear_program`
bands, best_fit   batches of a small group
streaming         batches from a stream of cuts, with `subset_sum`
batch_arrays      batches as two arrays, and statistics of their durations
"""
