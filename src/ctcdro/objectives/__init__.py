"""The losses of a batch and their groups in, one number to minimize out; and the group weights behind it.

    weights          the update rules, as pure functions
    objectives       what is minimized: `erm`, `group_dro`, `ctc_dro`, `ctc_dro_unsmoothed`
    ctc              the CTC loss of each utterance
    steps_tensor     the steps of an update in tensor operations, for any device
    steps_python     the same steps in plain Python, for tensors in host memory

Needs torch only.
"""
