"""The `Trainer` of `transformers` with a robust objective and length-matched batches.

    trainer = RobustTrainer(model, args, …, objective=ctcdro.ctc_dro(…), batch_sampler=sampler)

For a custom `Trainer`, write `class Mine(RobustTrainer, YourTrainer)`; `compute_loss` of YourTrainer is then not
called. A step minimizes the mean of the objective over its batches, including accumulation and all processes. Batches
come from the sampler: accelerate does not shard, even out, dispatch or shuffle them. A resumed run continues with the
same batches and weights, without reading the data of finished batches, and never from an incomplete checkpoint.
Evaluation does not change the weights. A NaN loss is never hidden.
"""

from ...runtime.extras import extra

with extra("hf-trainer", "RobustTrainer"):
    from .checkpoints import last_checkpoint
    from .error_rates import ErrorRates
    from .trainer import RobustSeq2SeqTrainer, RobustTrainer

__all__ = ["ErrorRates", "RobustSeq2SeqTrainer", "RobustTrainer", "last_checkpoint"]
