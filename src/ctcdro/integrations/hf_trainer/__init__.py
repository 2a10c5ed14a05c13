"""The `Trainer` of transformers with a robust objective and length-matched batches.

    trainer = RobustTrainer(model, args, …, objective=ctcdro.ctc_dro(…), batch_sampler=sampler)

`RobustSeq2SeqTrainer` is the same for sequence-to-sequence models such as Whisper. For a custom `Trainer` write `class
Mine(RobustTrainer, YourTrainer)`; `compute_loss` of YourTrainer is then not called. `ErrorRates` scores each language,
so that the error rate of the worst one can select the best model. Guarantees:

* the loss of an utterance is its CTC loss, or the sum of the cross-entropies of its tokens, in nats;
* a step minimizes the mean of the objective over its batches, that is, over accumulation and over processes;
* batches are those of the sampler: accelerate neither shards, evens, dispatches nor shuffles them;
* a checkpoint holds the state of the objective and the position of the sampler: a run that resumes from it continues
  with the same batches and the same weights, without reading the data of finished batches;
* an incomplete checkpoint is never resumed from;
* evaluation does not change the weights; its loss is the mean of the plain losses;
* a NaN loss is never hidden, neither in training nor in evaluation.
"""

from ...runtime.extras import extra

with extra("hf-trainer", "RobustTrainer"):
    from .checkpoints import last_checkpoint
    from .error_rates import ErrorRates
    from .trainer import RobustSeq2SeqTrainer, RobustTrainer

__all__ = ["ErrorRates", "RobustSeq2SeqTrainer", "RobustTrainer", "last_checkpoint"]
