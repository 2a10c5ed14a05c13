"""The robust objectives and the length-matched batches inside other toolkits, one file each.

    hf_trainer      Trainer and Seq2SeqTrainer of transformers
    lightning       Lightning
    lhotse          a CutSampler, eager and lazy
    espnet          ESPnet2's ASR task
    speechbrain     Brain, SaveableDataLoader and Checkpointer of SpeechBrain

Each needs its toolkit and the core alone. Nothing here is imported by the rest of the package.
"""
