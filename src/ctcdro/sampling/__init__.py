"""Durations and groups in, batches out: lists of indices, one group each, close to one total duration.

    samplers     the batch samplers
    base         a plan per epoch, shared by the ranks, with a state of two numbers
    packing      which utterances make up a batch
    streaming    the same for data that arrive one by one

Needs torch and numpy only.
"""
