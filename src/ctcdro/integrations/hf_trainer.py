"""The `Trainer` of transformers with a robust objective and length-matched batches.

    from ctcdro.integrations.hf_trainer import RobustTrainer

    sampler = ctcdro.LengthMatchedBatchSampler(durations, groups, batch_duration=50.0)
    objective = ctcdro.ctc_dro(len(languages), step_size=1e-4, smoothing=0.1, group_names=languages)
    trainer = RobustTrainer(model, args, …, objective=objective, batch_sampler=sampler)

`RobustSeq2SeqTrainer` is the same for sequence-to-sequence models as Whisper; for a `Trainer` of your own write `class
Mine(RobustTrainer, YourTrainer)`. `ErrorRates` scores languages, so that the worst may choose the best model.

What one can rely on:

* the loss of an utterance is its CTC loss, or the sum of the cross-entropies of its tokens, in nats;
* a step minimises the mean of what the objective gives for its batches, over accumulation and over processes;
* batches come from the sampler as they are: accelerate neither shards, evens, dispatches nor shuffles them;
* a checkpoint holds the state of the objective and the position of the sampler, and a run that resumes from it goes on
  with the same batches and the same weights, without reading what it passes over;
* evaluation moves nothing; its loss is the mean of the plain losses.
"""

from __future__ import annotations

import json
import logging
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset

from ..ctc import ctc_losses
from ..extras import extra
from ..objectives import Objective
from ..planned import PlannedBatchSampler

with extra("hf-trainer", "RobustTrainer"):
    from safetensors.torch import load_file, save_file
    from transformers import EvalPrediction, Seq2SeqTrainer, Trainer, TrainerState
    from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR, get_last_checkpoint, seed_worker

logger = logging.getLogger(__name__)

OBJECTIVE_FILE = "ctcdro_objective.safetensors"
SAMPLER_FILE = "ctcdro_sampler.json"

# A limit this low is reached by nearly every batch whose losses are summed, and a batch of one group that is clipped
# counts the same whatever the weight of its group. The Trainer's default is 1.
LOW_GRAD_NORM = 10.0

NO_LABEL = -100
"""What pads labels, in transformers."""

# Functions of its models that tell the length of the output from that of the input; families differ in the name.
LENGTH_FUNCTIONS = ("_get_feat_extract_output_lengths", "_get_subsampling_output_length")

# Settings of the Trainer that the sampler or the objective leaves no room for: what they must be, and why.
SETTINGS: dict[str, tuple[Any, str]] = {
    "train_sampling_strategy": ("random", "`batch_sampler` chooses the batches. Leave it at its default."),
    "dataloader_drop_last": (False, "the sampler fills the last round itself. Leave it at its default."),
    "auto_find_batch_size": (False, "`batch_sampler` sets the size of batches. Lower its `batch_duration` instead."),
    "label_smoothing_factor": (0.0, "the objective weighs plain losses. Leave it at its default."),
    "enable_jit_checkpoint": (False, "it may save when weights have moved and the model has not. Use `save_steps`."),
}


@dataclass(frozen=True)
class ErrorRates:
    """Character error rates of languages, as `compute_metrics` of a `RobustTrainer`.

    The Trainer then logs `eval_worst_cer`, `eval_mean_cer` (over languages) and `eval_cer/<language>`; choose the best
    model with `metric_for_best_model="worst_cer", greater_is_better=False`. CTC models are decoded greedily, within the
    frames of each utterance; sequence-to-sequence models need `predict_with_generate=True`.

    Args:
        decode: labels -> text. CTC has already been undone, so for a tokenizer of CTC models it is
            `functools.partial(tokenizer.decode, group_tokens=False)`, for Whisper's
            `functools.partial(tokenizer.decode, skip_special_tokens=True)`.
        group_names: of the groups, in the order of their numbers.
        profile: how to score; see `ctcdro.metrics`.

    Example:
        >>> import numpy as np
        >>> rates = ErrorRates(lambda labels: "".join("_abc"[label] for label in labels), ["ces", "cmn"])
        >>> labels, groups = np.array([[1, 2, 3], [3, 3, -100]]), np.array([0, 1])
        >>> rates(EvalPrediction(predictions=np.array([[1, 2, 3], [3, -100, 1]]), label_ids=(labels, groups)))
        {'worst_cer': 0.5, 'mean_cer': 0.25, 'cer/ces': 0.0, 'cer/cmn': 0.5}
    """

    decode: Callable[[list[int]], str]
    group_names: Sequence[str]
    profile: str = "plain"

    def __call__(self, prediction: EvalPrediction) -> dict[str, float]:
        from ..metrics import score  # scoring needs packages that training does not

        if not isinstance(prediction.label_ids, tuple):
            raise ValueError(
                "`compute_metrics=ErrorRates(…)` needs the group of each utterance, which a RobustTrainer or "
                "RobustSeq2SeqTrainer gives it; this trainer gave labels only."
            )
        labels, groups = prediction.label_ids
        scores = score(
            (
                _Recognised(str(number), self.group_names[group], self._text(reference), self._text(hypothesis))
                for number, (reference, hypothesis, group) in enumerate(
                    zip(labels, prediction.predictions, groups, strict=True)
                )
            ),
            self.profile,
        )
        rates = scores.rates("cer")
        if not rates:
            raise ValueError("`eval_dataset` has no characters in its labels, so there is no error rate. Fill them in.")
        return {
            "worst_cer": max(rates.values()),
            "mean_cer": sum(rates.values()) / len(rates),
            **{f"cer/{name}": rate for name, rate in rates.items()},
        }

    def _text(self, labels: Any) -> str:
        return self.decode([int(label) for label in labels if label >= 0])


@dataclass(frozen=True)
class _Recognised:
    id: str
    lang: str
    text: str
    hyp_text: str
    hyp_lang: str | None = None


class RobustTrainer(Trainer):
    """A `Trainer` that minimises a robust objective, on batches of a sampler of this package.

    For models with CTC logits, and models with an encoder and a decoder. For others override `utterance_losses`, or
    `num_frames` alone if they are CTC models that do not tell how many frames they make.

    `per_device_train_batch_size` says nothing here: the sampler sets the size of batches.

    Args:
        *args, **kwargs: those of `Trainer`.
        objective: as `ctcdro.ctc_dro(…)`; with its `group_names`, weights are logged by name.
        batch_sampler: as `ctcdro.LengthMatchedBatchSampler(…)`, made for `train_dataset`. It finds rank and world size
            itself.
        group_column: of `train_dataset`, with the name or the number of the group of each utterance. It need not be an
            argument of the model, and `data_collator` does not see it. A dataset whose items are not dictionaries needs
            a `data_collator` that puts numbers of groups under this key into the batch.
    """

    # What `compute_loss` gives is of one batch: the Trainer divides it by the number of batches in a step.
    loss_is_scaled_for_ga = False
    data_collator: Callable[[list[Any]], Any]

    def __init__(
        self,
        *args: Any,
        objective: Objective,
        batch_sampler: PlannedBatchSampler,
        group_column: str = "language",
        **kwargs: Any,
    ) -> None:
        if kwargs.get("compute_loss_func") is not None:
            raise ValueError(
                "`compute_loss_func` must be None; got a function, which `objective` would compete with. To weigh "
                "other losses, override `utterance_losses`."
            )
        super().__init__(*args, **kwargs)
        self.objective = objective.to(self.args.device)
        self.batch_sampler = batch_sampler
        self.group_column = group_column
        self.data_collator = _WithGroups(self.data_collator, group_column, objective.num_groups, objective.group_names)
        self.model_accepts_loss_kwargs = False  # or labels would be counted, and counts exchanged, for nothing
        self._first_state = {name: value.clone() for name, value in objective.state_dict().items()}
        self._check_settings()
        self._check_data()

    def utterance_losses(self, outputs: Mapping[str, Any], inputs: Mapping[str, Any]) -> Tensor:
        """The loss of each utterance of a batch, for the objective to weigh.

        Args:
            outputs: of the model.
            inputs: the batch, without groups.

        Returns:
            (B,) losses; those that are not finite are left out of the objective, and counted.
        """
        if "labels" not in inputs:
            raise ValueError(f"`data_collator` must give `labels`; the batch has {', '.join(inputs)}.")
        labels, logits = inputs["labels"], outputs["logits"]
        if self._has_decoder:
            losses = torch.nn.functional.cross_entropy(
                logits.float().transpose(1, 2), labels, ignore_index=NO_LABEL, reduction="none"
            )
            return losses.sum(-1)
        is_label = labels >= 0
        log_probs = logits.log_softmax(-1, dtype=torch.float32).transpose(0, 1)
        return ctc_losses(log_probs, labels[is_label], self.num_frames(inputs), is_label.sum(-1), self._blank)

    def num_frames(self, inputs: Mapping[str, Any]) -> Tensor:
        """(B,) the frames of each utterance in the logits of a CTC model, as the model itself counts them."""
        length_function = next((name for name in LENGTH_FUNCTIONS if hasattr(self.model, name)), None)
        if length_function is None:
            raise ValueError(
                f"`model` ({type(self.model).__name__}) does not tell how many frames it makes of its input: it has "
                f"none of {', '.join(LENGTH_FUNCTIONS)}. Override `num_frames` of RobustTrainer, or, if it is no CTC "
                "model, `utterance_losses`."
            )
        mask = inputs.get("attention_mask")
        if mask is None:  # then the model sees padding as audio
            audio = inputs[self.model.main_input_name]
            mask = audio.new_ones(audio.shape[:2], dtype=torch.int64)
        return getattr(self.model, length_function)(mask.sum(-1)).to(torch.int64)

    def compute_loss(
        self,
        model: torch.nn.Module,
        inputs: Mapping[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Any:
        """What the objective gives for the batch; in evaluation mode, the mean of the losses that are finite."""
        inputs = dict(inputs)
        groups = inputs.pop(self.group_column, None)
        # Without its labels a CTC model does not compute a loss of its own. Decoders need them, as their input.
        outputs = model(**{name: value for name, value in inputs.items() if name != "labels" or self._has_decoder})
        losses = self.utterance_losses(outputs, inputs)
        if not model.training:
            is_finite = losses.isfinite()
            loss = losses.where(is_finite, 0.0).sum() / is_finite.sum().clamp(min=1)
        elif groups is None:
            raise ValueError(
                f"`group_column`: the batch has no {self.group_column!r} (found: {', '.join(inputs)}). Give every item "
                "of `train_dataset` its group under that name."
            )
        else:
            loss = self.objective(losses, groups)
        return (loss, outputs) if return_outputs else loss

    def get_train_dataloader(self) -> DataLoader:
        """The batches of the sampler, of this process. They must not be prepared by accelerate."""
        if self.train_dataset is None:
            raise ValueError("`train_dataset` must be given to train; got None.")
        self._check_ranks()
        dataset, collate = self.train_dataset, self.data_collator
        if hasattr(dataset, "remove_columns"):  # one of `datasets`
            dataset = self._remove_unused_columns(dataset, description="training")
        else:
            collate = self._get_collator_with_removed_columns(collate, description="training")
        return _Batches(
            dataset,
            batch_sampler=self.batch_sampler,
            collate_fn=collate,
            num_workers=self.args.dataloader_num_workers,
            pin_memory=self.args.dataloader_pin_memory,
            persistent_workers=self.args.dataloader_persistent_workers,
            prefetch_factor=self.args.dataloader_prefetch_factor,
            multiprocessing_context=self.args.dataloader_multiprocessing_context,
            worker_init_fn=partial(
                seed_worker, num_workers=self.args.dataloader_num_workers, rank=self.args.process_index
            ),
        )

    def train(self, resume_from_checkpoint: str | bool | None = None, *args: Any, **kwargs: Any) -> Any:
        """As of `Trainer`; a checkpoint brings the objective and the sampler back, too."""
        if self.model_init is not None:  # a new model each time, as in a search: so are the weights
            self.objective.load_state_dict(self._first_state)
        self.objective.train()
        if self.args.world_size > 1 and self.model_wrapped is self.model and not self.is_fsdp_enabled:
            # After an evaluation accelerate takes the model for prepared. It would then never be wrapped, and gradients
            # never exchanged.
            self.model._is_accelerate_prepared = False
        found = get_last_checkpoint(self.args.output_dir) if resume_from_checkpoint is True else resume_from_checkpoint
        if found:
            self._restore(Path(found))
        return super().train(resume_from_checkpoint, *args, **kwargs)

    def log(self, logs: dict[str, float], *args: Any, **kwargs: Any) -> None:
        """As of `Trainer`; with the loss come the weights, and how many losses were left out so far, if any were."""
        if "loss" in logs:
            names = self.objective.group_names or range(self.objective.num_groups)
            weights, skipped = self.objective.weights.tolist(), self.objective.num_skipped.tolist()
            logs |= {f"weight/{name}": weight for name, weight in zip(names, weights, strict=True)}
            logs |= {f"skipped/{name}": number for name, number in zip(names, skipped, strict=True) if number}
        super().log(logs, *args, **kwargs)

    def evaluation_loop(self, *args: Any, **kwargs: Any) -> Any:
        if isinstance(self.compute_metrics, ErrorRates):
            # Seq2SeqTrainer would keep the utterances that come twice so that processes have equally many.
            self.gather_function = self.accelerator.gather_for_metrics
        return super().evaluation_loop(*args, **kwargs)

    def prediction_step(
        self,
        model: torch.nn.Module,
        inputs: Mapping[str, Any],
        prediction_loss_only: bool,
        ignore_keys: list[str] | None = None,
        **kwargs: Any,
    ) -> tuple[Tensor | None, Any, Any]:
        """As of `Trainer`. For `ErrorRates` predictions are labels, and labels come with their groups."""
        inputs = dict(self._prepare_inputs(inputs))
        groups = inputs.pop(self.group_column, None)
        loss, predictions, labels = super().prediction_step(model, inputs, prediction_loss_only, ignore_keys, **kwargs)
        if prediction_loss_only or labels is None or not isinstance(self.compute_metrics, ErrorRates):
            return loss, predictions, labels
        if groups is None:
            raise ValueError(
                f"`compute_metrics=ErrorRates(…)` needs {self.group_column!r} of every item of `eval_dataset`; the "
                f"batch has {', '.join(inputs)}."
            )
        if not self._has_decoder:
            logits = predictions[0] if isinstance(predictions, tuple) else predictions
            predictions = _greedy(logits, self.num_frames(inputs), self._blank)
        return loss, predictions, (labels, groups)

    @property
    def _has_decoder(self) -> bool:
        return getattr(getattr(self.model, "config", None), "is_encoder_decoder", False)

    @property
    def _blank(self) -> int:
        return self.model.config.pad_token_id  # of all CTC models of transformers

    def _set_signature_columns_if_needed(self) -> None:
        super()._set_signature_columns_if_needed()
        if self.group_column not in self._signature_columns:
            self._signature_columns.append(self.group_column)  # or it would be removed as unused

    def _save_checkpoint(self, model: torch.nn.Module, trial: Any) -> None:
        if self.args.should_save:
            folder = Path(self._get_output_dir(trial)) / f"{PREFIX_CHECKPOINT_DIR}-{self.state.global_step}"
            folder.mkdir(parents=True, exist_ok=True)
            save_file(self.objective.state_dict(), folder / OBJECTIVE_FILE)
            # The sampler cannot know: the loader asks it for batches ahead of time.
            num_done = round((self.state.epoch - self.batch_sampler.epoch) * len(self.batch_sampler))
            (folder / SAMPLER_FILE).write_text(json.dumps(self.batch_sampler.state_dict(num_done), indent=2))
        super()._save_checkpoint(model, trial)

    def _restore(self, folder: Path) -> None:
        missing = [name for name in (OBJECTIVE_FILE, SAMPLER_FILE) if not (folder / name).exists()]
        if missing:
            raise ValueError(
                f"`resume_from_checkpoint`: {folder} has no {' and no '.join(missing)}, so the weights of groups would "
                "begin anew. Resume from a checkpoint that a RobustTrainer wrote."
            )
        state = json.loads((folder / SAMPLER_FILE).read_text())
        # The Trainer itself passes over the batches that are done, so that the sampler must begin with the first. It
        # passes over numbers of utterances only; no audio is read.
        self.batch_sampler.load_state_dict({**state, "position": 0})
        self._check_position(state, TrainerState.load_from_json(str(folder / "trainer_state.json")).global_step)
        self.objective.load_state_dict(load_file(folder / OBJECTIVE_FILE))

    def _check_position(self, state: dict[str, Any], global_step: int) -> None:
        """Refuses to resume where the Trainer, which counts steps, would go on with another batch than the next."""
        _, world_size = self.batch_sampler.rank_and_world_size
        accumulated = self.args.gradient_accumulation_steps
        epoch, step = divmod(global_step, -(-len(self.batch_sampler) // accumulated))
        there = epoch, 0 if self.args.ignore_data_skip else step * accumulated * world_size
        is_epoch_done = state["position"] >= self.batch_sampler.num_batches
        here = (state["epoch"] + 1, 0) if is_epoch_done else (state["epoch"], state["position"])
        if here != there:
            raise ValueError(
                f"`resume_from_checkpoint` was written after {here[1]} batches of epoch {here[0]}, but after its "
                f"{global_step} steps the Trainer would go on at batch {there[1]} of epoch {there[0]}, so that batches "
                "would come twice or never. Resume with the same number of processes times "
                "`gradient_accumulation_steps`, and without `ignore_data_skip`."
            )

    def _check_settings(self) -> None:
        for name, (expected, why) in SETTINGS.items():
            given = getattr(self.args, name)
            if given != expected:
                raise ValueError(f"`{name}` must be {expected!r}; got {given!r}, but {why}")
        batches_a_step = self.args.gradient_accumulation_steps * self.args.world_size
        is_clipped = self.objective.reduction == "sum" and 0 < (self.args.max_grad_norm or 0) <= LOW_GRAD_NORM
        if is_clipped and batches_a_step < self.objective.num_groups:
            logger.warning(
                f"`max_grad_norm` is {self.args.max_grad_norm:g}, but the sum of the losses of a batch has large "
                "gradients; where they are clipped, the weights of groups do not reach the model. Set it to 0 (none), "
                "or high enough to be the exception, or let a step have batches of all groups "
                "(`gradient_accumulation_steps`)."
            )
        is_generating = getattr(self.args, "predict_with_generate", False)
        if isinstance(self.compute_metrics, ErrorRates) and self._has_decoder and not is_generating:
            raise ValueError(
                "`compute_metrics=ErrorRates(…)` of a model with a decoder needs text that it generates. Set "
                "`predict_with_generate=True`, in Seq2SeqTrainingArguments, and use RobustSeq2SeqTrainer."
            )

    def _check_data(self) -> None:
        dataset, sampler = self.train_dataset, self.batch_sampler
        if dataset is None:  # it is here to evaluate
            return
        if isinstance(dataset, IterableDataset) or not hasattr(dataset, "__len__"):
            raise ValueError(
                f"`train_dataset` must have a length and items by number, for `batch_sampler` to choose from; got "
                f"{type(dataset).__name__}."
            )
        columns = getattr(dataset, "column_names", None)
        if columns is not None and self.group_column not in columns:
            raise ValueError(
                f"`group_column`: `train_dataset` has no column {self.group_column!r} (found: {', '.join(columns)}). "
                "Name the column that holds the group, or the language, of each utterance."
            )
        groups = getattr(sampler, "groups", None)
        known = groups if groups is not None else getattr(sampler, "durations", None)
        if known is not None and len(known) != len(dataset):
            raise ValueError(
                f"`batch_sampler` was made for {len(known):,} utterances, `train_dataset` has {len(dataset):,}. Make "
                "it from the durations and groups of that dataset, in its order, after all filtering."
            )
        if groups is not None and groups.max() + 1 != self.objective.num_groups:
            raise ValueError(
                f"`objective` has {self.objective.num_groups} groups, `batch_sampler` {groups.max() + 1}. Make both "
                "with the same groups, or the weights would never move."
            )

    def _check_ranks(self) -> None:
        here = self.args.process_index, self.args.world_size
        if self.batch_sampler.rank_and_world_size != here:
            raise ValueError(
                f"`batch_sampler` was made for (rank, world size) {self.batch_sampler.rank_and_world_size}, this "
                f"process is {here}. Leave out its `rank` and `world_size`: it finds them itself."
            )


class RobustSeq2SeqTrainer(RobustTrainer, Seq2SeqTrainer):
    """`RobustTrainer` for models that generate text, as Whisper.

    With `predict_with_generate=True`, `eval_loss` is the model's own: a mean over tokens.
    """


class _Batches(DataLoader):
    """Passes the number of the epoch on to the sampler; the Trainer calls it."""

    def set_epoch(self, epoch: int) -> None:
        self.batch_sampler.set_epoch(epoch)  # type: ignore[union-attr]


@dataclass(frozen=True)
class _WithGroups:
    """Takes the groups out of the items, collates the rest, and puts the numbers of the groups into the batch."""

    collate: Callable[[list[Any]], Any]
    column: str
    num_groups: int
    names: list[str] | None

    def __call__(self, items: list[Any]) -> Any:
        if not all(isinstance(item, Mapping) and self.column in item for item in items):
            return self.collate(items)
        batch = self.collate([{name: item[name] for name in item if name != self.column} for item in items])
        batch[self.column] = torch.tensor([self._number(item[self.column]) for item in items])
        return batch

    def _number(self, group: Any) -> int:
        if isinstance(group, str):
            if group in (self.names or ()):
                return self.names.index(group)  # type: ignore[union-attr]
        else:
            try:
                if 0 <= operator.index(group) < self.num_groups:
                    return operator.index(group)
            except TypeError:
                pass
        expected = "no names, as `objective` was made without `group_names`"
        if self.names is not None:
            expected = f"`group_names` of `objective`: {', '.join(self.names)}"
        raise ValueError(
            f"`group_column`: {self.column!r} must hold numbers from 0 to {self.num_groups - 1}, or names "
            f"({expected}); got {group!r}."
        )


def _greedy(logits: Tensor, num_frames: Tensor, blank: int) -> Tensor:
    """(B, T) the best label of each frame; `NO_LABEL` for blanks, repetitions, and what is beyond the utterance."""
    best = logits.argmax(-1)
    is_new = torch.ones_like(best, dtype=torch.bool)
    is_new[:, 1:] = best[:, 1:] != best[:, :-1]
    is_within = torch.arange(best.shape[1], device=best.device) < num_frames[:, None]
    return best.where(is_new & is_within & (best != blank), NO_LABEL)
