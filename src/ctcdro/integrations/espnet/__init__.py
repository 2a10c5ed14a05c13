"""CTC-DRO in ESPnet2's ASR task: the loss as a `ctc_type`, the length-matched batches as a `batch_type`.

Run `python -m ctcdro.integrations.espnet` instead of `python -m espnet2.bin.asr_train`, with the same arguments. Put a
file `utt2category` (lines of "utterance group", one per utterance) into the folder of the training data, and set
`ctc_type: ctcdro`, `dro_step_size` and `dro_smoothing` in `ctc_conf`, `batch_type: ctcdro` and `batch_duration`.

Either of the two works without the other. Guarantees:

* the weights are part of the model, hence of `checkpoint.pth`, and a resumed run continues exactly;
* `config.yaml` and all models that a run writes also load in plain ESPnet: decoding does not need ctcdro;
* validation and attention plots use the plain loss, and change no weight;
* each rank gets its own batches, all ranks hold the same weights, and each batch counts the same.

ESPnet itself is not modified: a subclass of its task builds the model and the batches.
"""

from ...runtime.extras import extra

with extra("espnet", "In addition to ESPnet itself (pip install espnet), the ESPnet integration"):
    from .data import Corpus, read_corpus
    from .task import CTCDROTask

__all__ = ["CTCDROTask", "Corpus", "read_corpus"]
