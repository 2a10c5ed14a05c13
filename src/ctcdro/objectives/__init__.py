"""The losses of a batch and their groups in, one number to minimize out; and the group weights behind it.

    methods                     the registry: name, title and settings of each method
    erm, group_dro, ctc_dro     the methods, one file each
    objective                   what they share: checks, ranks, state
    signals                     what the weights compare
    weights                     the update rules: how weights follow a signal
    pending_losses              losses that wait for the next update
    ctc, loss                   the CTC loss of each utterance; `CTCDROLoss`

Needs torch only.
"""
