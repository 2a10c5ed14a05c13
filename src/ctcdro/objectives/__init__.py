"""Objectives: from the losses of a batch and their groups to one number to minimize, with group weights.

    methods                     the registry: name, title and settings of each method
    erm, group_dro, ctc_dro, error_weighted, static_weights     the methods, one file each
    objective                   the base class: checks, ranks, state
    rounds                      objectives whose weights change once per round of all groups
    signals                     signals: the quantities that the weights compare
    weights                     update rules: how weights follow a signal
    numbers_by_group            numbers that callers pass for every group
    pending_losses              losses collected for the next update
    ctc, loss                   the CTC loss of each utterance; `CTCDROLoss`

Needs torch only.
"""
