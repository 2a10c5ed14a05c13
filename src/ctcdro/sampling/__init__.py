"""Durations and groups in, batches out: lists of indices, one group each, close to one total duration.

samplers          the batch samplers
base              epochs, ranks, and a state to resume from
packing           all utterances of a group -> batches
streaming         cuts that arrive one by one -> batches, by `subset_sum`
batch_arrays    batches as two arrays, and how well they match
"""
