"""CTC-DRO in ESPnet2's ASR task: the loss as a `ctc_type`, the length-matched batches as a `batch_type`.

Run `python -m ctcdro.integrations.espnet` instead of `python -m espnet2.bin.asr_train`, with the same arguments. Put a
file `utt2category`, with one line "utterance group" per utterance, into the folder of the training data, and set
`ctc_type: ctcdro`, `dro_step_size` and `dro_smoothing` in `ctc_conf`, `batch_type: ctcdro` and `batch_duration`.

The loss and the batches can be used independently. The weights are part of the model, so runs resume exactly, and all
models load in plain ESPnet. Validation and attention plots use the plain loss and do not change the weights. Each rank
gets different batches, all ranks hold the same weights, and all batches have the same influence.
"""

from ...runtime.extras import extra

with extra("espnet", "In addition to ESPnet itself (pip install espnet), the ESPnet integration"):
    from .data import Corpus, read_corpus
    from .task import CTCDROTask

__all__ = ["CTCDROTask", "Corpus", "read_corpus"]
