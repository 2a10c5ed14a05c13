"""The robust objectives and the length-matched batches in other toolkits, one file or folder each.

    hf_trainer      Trainer and Seq2SeqTrainer of transformers
    lightning       Lightning
    lhotse          a CutSampler, eager and lazy
    espnet          ESPnet2's ASR task
    speechbrain     Brain, SaveableDataLoader and Checkpointer of SpeechBrain

Each needs only its toolkit and the lower folders of the package, which never import an integration.
"""
