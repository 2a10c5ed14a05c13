"""`RobustTrainer` and `RobustSeq2SeqTrainer`."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader
from transformers import Seq2SeqTrainer, Trainer
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR, seed_worker

from ...objectives.ctc import Normalization, ctc_losses
from ...objectives.loss import ObjectiveCTCLoss
from ...objectives.objective import Objective
from ...sampling.base import PlannedBatchSampler
from ...sampling.samplers import LengthMatchedBatchSampler
from ..checks import check_objective, check_ranks, warn_of_clipping
from .checkpoints import last_checkpoint, load_state, save_state
from .data import EpochLoader, GroupCollator, check_data
from .error_rates import NO_LABEL, ErrorRates, check_evaluation, decode_greedily

# Methods of models that compute output lengths from input lengths; the name depends on the family.
LENGTH_FUNCTIONS = ("_get_feat_extract_output_lengths", "_get_subsampling_output_length")

# Options of `DataLoader` that are taken from the arguments `dataloader_…`.
LOADER_OPTIONS = ("num_workers", "pin_memory", "persistent_workers", "prefetch_factor", "multiprocessing_context")

# Settings of the Trainer that conflict with the sampler or the objective: the required value, and the reason.
SETTINGS: dict[str, tuple[Any, str]] = {
    "train_sampling_strategy": ("random", "`batch_sampler` chooses the batches. Keep the default."),
    "dataloader_drop_last": (False, "the sampler fills the last round itself. Keep the default."),
    "auto_find_batch_size": (False, "`batch_sampler` sets the batch size. Lower its `batch_duration` instead."),
    "label_smoothing_factor": (0.0, "the objective weights plain losses. Keep the default."),
    "enable_jit_checkpoint": (False, "it may save between the weight update and the step. Use `save_steps`."),
}


class RobustTrainer(Trainer):
    """A `Trainer` that minimizes a robust objective on batches of a ctcdro sampler.

    It supports models with CTC logits and encoder-decoder models. For others, override `utterance_losses`, or only
    `num_frames` for CTC models without a method for the number of output frames. `per_device_train_batch_size` is
    ignored: the sampler sets the batch size.

    Args:
        objective: such as `ctcdro.ctc_dro(…)`, whose weights are logged by name if it has `group_names`; or a
            `CTCDROLoss`, whose `blank` is ignored. If it needs error rates, each evaluation during training sets its
            weights from `compute_metrics=ErrorRates(…)`.
        batch_sampler: such as `ctcdro.LengthMatchedBatchSampler(…)`, created for `train_dataset`, without rank.
        group_column: column of `train_dataset` with the name or number of each utterance's group. It need not be an
            argument of the model, and `data_collator` does not receive it. If the items of a dataset are not
            dictionaries, `data_collator` must add group numbers to the batch under this key.
    """

    # `compute_loss` returns the loss of one batch: the Trainer divides it by the number of batches in a step.
    loss_is_scaled_for_ga = False
    data_collator: Any
    compute_metrics: Any

    def __init__(
        self,
        *args: Any,
        objective: Objective | ObjectiveCTCLoss,
        batch_sampler: PlannedBatchSampler,
        group_column: str = "language",
        **kwargs: Any,
    ) -> None:
        if kwargs.get("compute_loss_func") is not None:
            raise ValueError("`compute_loss_func` must be None. To weight other losses, override `utterance_losses`.")
        self._normalization: Normalization = "none"
        self._num_language_tokens = 0
        if isinstance(objective, ObjectiveCTCLoss):
            self._normalization, self._num_language_tokens = objective.normalization, objective.num_language_tokens
            objective = objective.objective
        super().__init__(*args, **kwargs)
        self.objective = objective.to(self.args.device)
        self.batch_sampler = batch_sampler
        self.group_column = group_column
        one_group = isinstance(batch_sampler, LengthMatchedBatchSampler)
        self.data_collator = GroupCollator(
            self.data_collator, group_column, objective.num_groups, objective.group_names, one_group
        )
        self.model_accepts_loss_kwargs = False  # otherwise the Trainer counts labels, which is not needed
        self._first_state = {name: value.clone() for name, value in objective.state_dict().items()}
        # (2, G) sum and number of plain losses per group since the last log entry
        self._sums = objective.pending.new_zeros(2, objective.num_groups, device=self.args.device)
        self._check()

    def _check(self) -> None:
        for name, (expected, why) in SETTINGS.items():
            if getattr(self.args, name) != expected:
                raise ValueError(f"`{name}` must be {expected!r}; got {getattr(self.args, name)!r}, but {why}")
        is_generating = getattr(self.args, "predict_with_generate", False)
        if isinstance(self.compute_metrics, ErrorRates) and self._has_decoder and not is_generating:
            raise ValueError(
                "`compute_metrics=ErrorRates(…)` needs generated text for an encoder-decoder model. Set "
                "`predict_with_generate=True` in Seq2SeqTrainingArguments, and use RobustSeq2SeqTrainer."
            )
        objective = self.objective
        if objective.needs_error_rates:
            check_evaluation(self.args, objective, self.compute_metrics, self.eval_dataset)
        check_objective(self.batch_sampler, [objective])
        warn_of_clipping(self.args, objective, limit="max_grad_norm", batches_per_step="gradient_accumulation_steps")
        if self.train_dataset is not None:
            check_data(self.train_dataset, self.group_column, self.batch_sampler, objective.num_groups)

    def utterance_losses(self, outputs: Mapping[str, Any], inputs: Mapping[str, Any]) -> Tensor:
        """(B,) loss per utterance. The objective skips and counts losses of +inf."""
        labels, logits = inputs["labels"], outputs["logits"]
        if self._has_decoder:
            cross_entropy = torch.nn.CrossEntropyLoss(ignore_index=NO_LABEL, reduction="none")
            return cross_entropy(logits.float().transpose(1, 2), labels).sum(-1)
        is_label = labels >= 0
        log_probs = logits.log_softmax(-1, dtype=torch.float32).transpose(0, 1)
        num_labels, num_frames = is_label.sum(-1), self.num_frames(inputs)
        return ctc_losses(log_probs, labels[is_label], num_frames, num_labels, self._blank, self._normalization)

    def num_frames(self, inputs: Mapping[str, Any]) -> Tensor:
        """(B,) frames per utterance in the logits of a CTC model, from the model's own method."""
        length_function = next((name for name in LENGTH_FUNCTIONS if hasattr(self.model, name)), None)
        if length_function is None:
            raise ValueError(
                f"`model` ({type(self.model).__name__}) has none of {', '.join(LENGTH_FUNCTIONS)}. Override "
                "`num_frames` of RobustTrainer or, if it is not a CTC model, `utterance_losses`."
            )
        mask = inputs.get("attention_mask")
        if mask is None:  # the model then treats padding as audio
            audio = inputs[self.model.main_input_name]
            mask = audio.new_ones(audio.shape[:2], dtype=torch.int64)
        return getattr(self.model, length_function)(mask.sum(-1)).to(torch.int64)

    def num_characters(self, inputs: Mapping[str, Any]) -> Tensor:
        """(B,) characters per transcript (labels without language tokens), for objectives that need them."""
        return ((inputs["labels"] >= 0).sum(-1) - self._num_language_tokens).clamp(min=0)

    def compute_loss(
        self, model: torch.nn.Module, inputs: Mapping[str, Any], return_outputs: bool = False, **_: Any
    ) -> Any:
        """Returns the objective of the batch; in evaluation, the mean loss of the utterances that CTC can align."""
        inputs = dict(inputs)
        groups = inputs.pop(self.group_column, None)
        # Without labels, a CTC model does not compute its own loss. A decoder needs them as its input.
        outputs = model(**{name: value for name, value in inputs.items() if name != "labels" or self._has_decoder})
        losses = self.utterance_losses(outputs, inputs)
        if not model.training:
            loss = _mean_loss(losses)
        elif groups is None:
            raise ValueError(
                f"`group_column`: no {self.group_column!r} in the batch, only {', '.join(inputs)}. Add it to the items."
            )
        else:
            num_characters = self.num_characters(inputs) if self.objective.needs_characters else None
            loss = self.objective(losses, groups, num_characters)
            self._add_to_log(losses.detach(), groups)
        return (loss, outputs) if return_outputs else loss

    def get_train_dataloader(self) -> DataLoader:
        """Returns a loader of the sampler's batches for this process, which accelerate must not prepare."""
        rank = self.args.process_index
        check_ranks(self.batch_sampler, rank, self.args.world_size)
        dataset, collate = self.train_dataset, replace(self.data_collator, is_training=True)
        if hasattr(dataset, "remove_columns"):  # one of `datasets`
            dataset = self._remove_unused_columns(dataset, description="training")
        else:
            collate = self._get_collator_with_removed_columns(collate, description="training")
        return EpochLoader(
            dataset,
            batch_sampler=self.batch_sampler,
            collate_fn=collate,
            **{name: getattr(self.args, f"dataloader_{name}") for name in LOADER_OPTIONS},
            worker_init_fn=partial(seed_worker, num_workers=self.args.dataloader_num_workers, rank=rank),
            seed=self.args.seed,
        )

    def train(self, resume_from_checkpoint: str | bool | None = None, *args: Any, **kwargs: Any) -> Any:
        """Like `Trainer.train`. `resume_from_checkpoint=True` resumes from `last_checkpoint(output_dir)`."""
        if self.model_init is not None:  # each call creates a new model, for example in a hyperparameter search
            self.objective.load_state_dict(self._first_state)
        self.objective.train()
        if self.args.world_size > 1 and self.model_wrapped is self.model and not self.is_fsdp_enabled:
            # After an evaluation, accelerate considers the model prepared. It would never be wrapped, and gradients
            # never synchronized.
            self.model._is_accelerate_prepared = False
        if resume_from_checkpoint is True:
            resume_from_checkpoint = last_checkpoint(self.args.output_dir)
            if resume_from_checkpoint is None:
                raise ValueError(
                    f"`resume_from_checkpoint`: {self.args.output_dir} has no complete checkpoint. To resume if there "
                    "is one, pass `last_checkpoint(output_dir)` of ctcdro.integrations.hf_trainer."
                )
        if resume_from_checkpoint:
            load_state(Path(resume_from_checkpoint), self.objective, self.batch_sampler, self.args)
        return super().train(resume_from_checkpoint, *args, **kwargs)

    def log(self, logs: dict[str, float], *args: Any, **kwargs: Any) -> None:
        """Adds the weight of each group, its mean plain loss since the last entry, and the number skipped so far."""
        if "loss" in logs:
            names = self.objective.group_names or range(self.objective.num_groups)
            weights, skipped = self.objective.weights.tolist(), self.objective.num_skipped.tolist()
            sums = zip(names, *self.accelerator.reduce(self._sums, "sum").tolist(), strict=True)
            logs |= {f"weight/{name}": weight for name, weight in zip(names, weights, strict=True)}
            logs |= {f"loss/{name}": total / number for name, total, number in sums if number}
            logs |= {f"skipped/{name}": number for name, number in zip(names, skipped, strict=True) if number}
            self._sums.zero_()
        super().log(logs, *args, **kwargs)

    def evaluation_loop(self, *args: Any, **kwargs: Any) -> Any:
        if isinstance(self.compute_metrics, ErrorRates):
            # Seq2SeqTrainer would keep the utterances that are repeated so that all processes have the same number.
            self.gather_function = self.accelerator.gather_for_metrics
        return super().evaluation_loop(*args, **kwargs)

    def _evaluate(self, trial: Any, ignore_keys_for_eval: Any, skip_scheduler: bool = False) -> dict[str, float]:
        metrics = super()._evaluate(trial, ignore_keys_for_eval, skip_scheduler)
        # `skip_scheduler` is true for `eval_on_start`, which would replace the weights of a checkpoint.
        if self.objective.needs_error_rates and not skip_scheduler:
            prefix = "eval_cer/"
            rates = {key.removeprefix(prefix): rate for key, rate in metrics.items() if key.startswith(prefix)}
            self.objective.update_error_rates(rates)
        return metrics

    def prediction_step(
        self, model: torch.nn.Module, inputs: Mapping[str, Any], prediction_loss_only: bool, *args: Any, **kwargs: Any
    ) -> tuple[Tensor | None, Any, Any]:
        """Like `Trainer.prediction_step`. For `ErrorRates`, returns labels as predictions, and groups with labels."""
        inputs = dict(self._prepare_inputs(inputs))
        groups = inputs.pop(self.group_column, None)
        loss, predictions, labels = super().prediction_step(model, inputs, prediction_loss_only, *args, **kwargs)
        if prediction_loss_only or labels is None or not isinstance(self.compute_metrics, ErrorRates):
            return loss, predictions, labels
        if groups is None:
            raise ValueError(
                f"`compute_metrics=ErrorRates(…)` needs {self.group_column!r} in every item of `eval_dataset`; the "
                f"batch has only {', '.join(inputs)}."
            )
        if not self._has_decoder:
            logits = predictions[0] if isinstance(predictions, tuple) else predictions
            predictions = decode_greedily(logits, self.num_frames(inputs), self._blank)
        return loss, predictions, (labels, groups)

    def _add_to_log(self, losses: Tensor, groups: Tensor) -> None:
        is_counted = ~losses.isposinf()
        terms = torch.stack([losses.where(is_counted, 0.0), is_counted]).to(self._sums)
        self._sums.index_add_(1, groups.to(self._sums.device, torch.int64), terms)

    @property
    def _has_decoder(self) -> bool:
        return getattr(getattr(self.model, "config", None), "is_encoder_decoder", False)

    @property
    def _blank(self) -> int:
        return self.model.config.pad_token_id  # in all CTC models of transformers

    def _set_signature_columns_if_needed(self) -> None:
        super()._set_signature_columns_if_needed()
        if self.group_column not in self._signature_columns:
            self._signature_columns.append(self.group_column)  # otherwise it would be removed as unused

    def _save_checkpoint(self, model: torch.nn.Module, trial: Any) -> None:
        if self.args.should_save:
            folder = Path(self._get_output_dir(trial)) / f"{PREFIX_CHECKPOINT_DIR}-{self.state.global_step}"
            save_state(folder, self.objective, self.batch_sampler, self.state.epoch)
        super()._save_checkpoint(model, trial)

    def _save_rng_state(self, output_dir: str) -> None:
        super()._save_rng_state(output_dir)
        self.accelerator.wait_for_everyone()  # the next file marks the checkpoint as complete


class RobustSeq2SeqTrainer(RobustTrainer, Seq2SeqTrainer):
    """`RobustTrainer` for models that generate text, such as Whisper.

    With `predict_with_generate=True`, `eval_loss` is the model's loss, a mean over tokens.
    """


def _mean_loss(losses: Tensor) -> Tensor:
    is_counted = ~losses.isposinf()  # a NaN loss must be visible in the mean
    if not is_counted.any():
        warnings.warn("No transcript in a batch of `eval_dataset` fits its audio; its loss counts as 0.", stacklevel=3)
    return losses.where(is_counted, 0.0).sum() / is_counted.sum().clamp(min=1)
