"""CTC-DRO in ESPnet2's ASR task: the loss as a `ctc_type`, the length-matched batches as a `batch_type`.

Run `python -m ctcdro.integrations.espnet` instead of `python -m espnet2.bin.asr_train`, with the same arguments. Put a
file `utt2category` (lines of "utterance group", one per utterance) into the folder of the training data, and set
`ctc_type: ctcdro`, `dro_step_size` and `dro_smoothing` in `ctc_conf`, `batch_type: ctcdro` and `batch_duration`.

Either of the two works without the other. The weights are part of the model, so a resumed run continues exactly; all
models also load in plain ESPnet. Validation and attention plots use the plain loss, and change no weight. Each rank
gets its own batches, all ranks hold the same weights, and each batch counts the same.
"""

from ...runtime.extras import extra

with extra("espnet", "In addition to ESPnet itself (pip install espnet), the ESPnet integration"):
    from .data import Corpus, read_corpus
    from .task import CTCDROTask

__all__ = ["CTCDROTask", "Corpus", "read_corpus"]
