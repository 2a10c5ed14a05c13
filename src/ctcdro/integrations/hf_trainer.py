"""The `Trainer` of transformers with a robust objective and length-matched batches.

    from ctcdro.integrations.hf_trainer import RobustTrainer

    sampler = ctcdro.LengthMatchedBatchSampler(durations, groups, batch_duration=50.0)
    objective = ctcdro.ctc_dro(len(languages), step_size=1e-4, smoothing=0.1, group_names=languages)
    trainer = RobustTrainer(model, args, …, objective=objective, batch_sampler=sampler)

`RobustSeq2SeqTrainer` is the same for sequence-to-sequence models such as Whisper. For a custom `Trainer` write `class
Mine(RobustTrainer, YourTrainer)`; `compute_loss` of YourTrainer is then not called. `ErrorRates` scores each language,
so that the error rate of the worst one can select the best model.

Guarantees:

* the loss of an utterance is its CTC loss, or the sum of the cross-entropies of its tokens, in nats;
* a step minimizes the mean of the objective over its batches, that is, over accumulation and over processes;
* batches are those of the sampler: accelerate neither shards, evens, dispatches nor shuffles them;
* a checkpoint holds the state of the objective and the position of the sampler: a run that resumes from it continues
  with the same batches and the same weights, without reading the data of finished batches;
* an incomplete checkpoint is never resumed from;
* evaluation does not change the weights; its loss is the mean of the plain losses;
* a NaN loss is never hidden, neither in training nor in evaluation.
"""

from __future__ import annotations

import json
import logging
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset

from ..objectives.ctc import ctc_losses
from ..objectives.loss import CTCDROLoss
from ..objectives.objective import Objective
from ..runtime.extras import extra
from ..sampling.base import PlannedBatchSampler
from ..sampling.samplers import LengthMatchedBatchSampler
from .clipping import warn_of_clipping

with extra("hf-trainer", "RobustTrainer"):
    from safetensors.torch import load_file, save_file
    from transformers import EvalPrediction, Seq2SeqTrainer, Trainer, TrainerState
    from transformers.trainer import TRAINER_STATE_NAME
    from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR, seed_worker

logger = logging.getLogger(__name__)

OBJECTIVE_FILE = "ctcdro_objective.safetensors"
SAMPLER_FILE = "ctcdro_sampler.json"

NO_LABEL = -100
"""What pads labels, in transformers."""

UNKNOWN_GROUP = -1

MAKE_SAMPLER_LAST = (
    "The dataset was shuffled, filtered or sorted after the sampler was made. Make the sampler last, from the "
    "durations and groups of `train_dataset` in its final order."
)

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


def last_checkpoint(folder: str | Path) -> str | None:
    """The latest complete checkpoint in a folder; None if there is none.

    `transformers.trainer_utils.get_last_checkpoint` returns the latest folder even if the process was killed while it
    wrote it. The Trainer writes `trainer_state.json` last, so a checkpoint without it is incomplete.

    Args:
        folder: `output_dir` of the Trainer.

    Example:
        >>> last_checkpoint("a folder that does not exist") is None
        True
    """
    numbered = {}
    for path in Path(folder).glob(f"{PREFIX_CHECKPOINT_DIR}-*"):
        if number := re.fullmatch(rf"{PREFIX_CHECKPOINT_DIR}-(\d+)", path.name):
            numbered[int(number[1])] = path
    for _, path in sorted(numbered.items(), reverse=True):
        try:
            json.loads((path / TRAINER_STATE_NAME).read_text())
        except (OSError, ValueError):
            logger.warning(f"Skipping {path}: the checkpoint is incomplete. Remove it to silence this warning.")
        else:
            return str(path)
    return None


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
        profile: how to score; see `ctcdro.scoring.scores`.

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
        from ..scoring.scores import score  # scoring needs packages that training does not

        if not isinstance(prediction.label_ids, tuple):
            raise ValueError(
                "`compute_metrics=ErrorRates(…)` needs the group of each utterance, which a RobustTrainer or "
                "RobustSeq2SeqTrainer gives it; this trainer gave labels only."
            )
        labels, groups = prediction.label_ids
        scores = score(
            (
                _Recognized(str(number), self.group_names[group], self._text(reference), self._text(hypothesis))
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
class _Recognized:
    id: str
    lang: str
    text: str
    hyp_text: str
    hyp_lang: str | None = None


class RobustTrainer(Trainer):
    """A `Trainer` that minimizes a robust objective, on batches of a sampler of this package.

    For models with CTC logits, and models with an encoder and a decoder. For others override `utterance_losses`, or
    `num_frames` alone if they are CTC models without a function for the number of output frames.

    `per_device_train_batch_size` is ignored: the sampler sets the size of batches.

    Args:
        *args, **kwargs: those of `Trainer`.
        objective: for example `ctcdro.ctc_dro(…)`; with its `group_names`, weights are logged by name. A `CTCDROLoss`
            is accepted, too; its `blank` is ignored in favor of the model's.
        batch_sampler: for example `ctcdro.LengthMatchedBatchSampler(…)`, made for `train_dataset`. It finds rank and
            world size itself.
        group_column: of `train_dataset`, with the name or the number of the group of each utterance. It need not be an
            argument of the model, and `data_collator` does not see it. A dataset whose items are not dictionaries needs
            a `data_collator` that puts numbers of groups under this key into the batch.
    """

    # What `compute_loss` gives is of one batch: the Trainer divides it by the number of batches in a step.
    loss_is_scaled_for_ga = False
    data_collator: Any
    compute_metrics: Any

    def __init__(
        self,
        *args: Any,
        objective: Objective | CTCDROLoss,
        batch_sampler: PlannedBatchSampler,
        group_column: str = "language",
        **kwargs: Any,
    ) -> None:
        if kwargs.get("compute_loss_func") is not None:
            raise ValueError(
                "`compute_loss_func` must be None; got a function, which `objective` would compete with. To weigh "
                "other losses, override `utterance_losses`."
            )
        objective = _checked_objective(objective)
        _check_sampler(batch_sampler)
        super().__init__(*args, **kwargs)
        self.objective = objective.to(self.args.device)
        self.batch_sampler = batch_sampler
        self.group_column = group_column
        self.data_collator = _WithGroups(
            self.data_collator,
            group_column,
            objective.num_groups,
            objective.group_names,
            vocab_size=getattr(getattr(self.model, "config", None), "vocab_size", None),
        )
        self.model_accepts_loss_kwargs = False  # otherwise the Trainer counts labels needlessly
        self._first_state = {name: value.clone() for name, value in objective.state_dict().items()}
        self._sums = objective.pending.new_zeros(2, objective.num_groups, device=self.args.device)
        """(2, G): the sum and the number of plain losses of each group since the last log."""
        self._check_settings()
        self._check_data()
        self._warn_of_unused_losses()

    def utterance_losses(self, outputs: Mapping[str, Any], inputs: Mapping[str, Any]) -> Tensor:
        """The loss of each utterance of a batch, for the objective to weigh.

        Args:
            outputs: of the model.
            inputs: the batch, without groups.

        Returns:
            (B,) losses; the objective skips and counts those that are +inf.
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
        """The objective of the batch; in evaluation mode, the mean loss of the utterances that CTC can align."""
        inputs = dict(inputs)
        groups = inputs.pop(self.group_column, None)
        # Without its labels a CTC model does not compute a loss of its own. Decoders need them, as their input.
        outputs = model(**{name: value for name, value in inputs.items() if name != "labels" or self._has_decoder})
        losses = self.utterance_losses(outputs, inputs)
        if not model.training:
            is_counted = ~losses.isposinf()  # a loss that is NaN must reach the result
            if not is_counted.any():
                _warn_once("A batch of `eval_dataset` has no transcript that fits its audio; it counts as 0.")
            loss = losses.where(is_counted, 0.0).sum() / is_counted.sum().clamp(min=1)
        elif groups is None:
            raise ValueError(
                f"`group_column`: the batch has no {self.group_column!r} (found: {', '.join(inputs)}). Give every item "
                "of `train_dataset` its group under that name."
            )
        else:
            loss = self.objective(losses, groups)
            self._add_to_log(losses.detach(), groups)
        return (loss, outputs) if return_outputs else loss

    def get_train_dataloader(self) -> DataLoader:
        """The batches of the sampler, of this process. They must not be prepared by accelerate."""
        if self.train_dataset is None:
            raise ValueError("`train_dataset` must be given to train; got None.")
        self._check_ranks()
        dataset = self.train_dataset
        has_one_group = isinstance(self.batch_sampler, LengthMatchedBatchSampler)
        collate = replace(self.data_collator, is_training=True, has_one_group=has_one_group)
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
            generator=torch.Generator(),  # otherwise each pass draws from the generator that dropout uses
            seed=self.args.seed,
        )

    def get_eval_dataloader(self, eval_dataset: Any = None) -> DataLoader:
        """As of `Trainer`; languages that training does not have are reported by name."""
        dataset = self.eval_dataset if eval_dataset is None else eval_dataset
        self._add_unseen_groups(self.eval_dataset[dataset] if isinstance(dataset, str) else dataset)
        return super().get_eval_dataloader(eval_dataset)

    def get_test_dataloader(self, test_dataset: Any) -> DataLoader:
        """As of `Trainer`; languages that training does not have are reported by name."""
        self._add_unseen_groups(test_dataset)
        return super().get_test_dataloader(test_dataset)

    def train(self, resume_from_checkpoint: str | bool | None = None, *args: Any, **kwargs: Any) -> Any:
        """As of `Trainer`; a checkpoint restores the objective and the sampler, too.

        `True` resumes from `last_checkpoint(output_dir)`, which skips incomplete checkpoints.
        """
        if self.model_init is not None:  # a new model each time, as in a search: so are the weights
            self.objective.load_state_dict(self._first_state)
        self.objective.train()
        if self.args.world_size > 1 and self.model_wrapped is self.model and not self.is_fsdp_enabled:
            # After an evaluation accelerate takes the model for prepared. It would then never be wrapped, and gradients
            # never exchanged.
            self.model._is_accelerate_prepared = False
        if resume_from_checkpoint is True:
            resume_from_checkpoint = last_checkpoint(self.args.output_dir)
            if resume_from_checkpoint is None:
                raise ValueError(
                    f"`resume_from_checkpoint`: {self.args.output_dir} has no complete checkpoint. To resume if there "
                    "is one, pass `last_checkpoint(output_dir)` of ctcdro.integrations.hf_trainer."
                )
        if resume_from_checkpoint:
            self._restore(Path(resume_from_checkpoint))
        return super().train(resume_from_checkpoint, *args, **kwargs)

    def log(self, logs: dict[str, float], *args: Any, **kwargs: Any) -> None:
        """As of `Trainer`. A line with the training loss has `weight/<group>`, and

        * `loss/<group>`, the mean plain loss of its utterances since the last such line, if it had any;
        * `skipped/<group>`, how many utterances were skipped so far, if any were.
        """
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
        if (groups == UNKNOWN_GROUP).any():
            raise ValueError(
                f"`eval_dataset` has a group in {self.group_column!r} that training does not have, and no column from "
                "which to read its name. Make it a dataset of the package `datasets`, or exclude these utterances."
            )
        if not self._has_decoder:
            logits = predictions[0] if isinstance(predictions, tuple) else predictions
            predictions = _greedy(logits, self.num_frames(inputs), self._blank)
        return loss, predictions, (labels, groups)

    def _add_to_log(self, losses: Tensor, groups: Tensor) -> None:
        is_counted = ~losses.isposinf()
        terms = torch.stack([losses.where(is_counted, 0.0), is_counted]).to(self._sums)
        self._sums.index_add_(1, groups.to(self._sums.device, torch.int64), terms)

    def _add_unseen_groups(self, dataset: Any) -> None:
        """Numbers the groups of evaluation data that training does not have, and passes their names to `ErrorRates`."""
        collator = self.data_collator
        column = set(_column(dataset, self.group_column) or ())
        unseen = {group for group in column if collator.number(group) == UNKNOWN_GROUP}
        if not unseen:
            return
        self.data_collator = replace(collator, unseen=(*collator.unseen, *sorted(unseen, key=str)))
        if isinstance(self.compute_metrics, ErrorRates):
            seen = list(self.compute_metrics.group_names)[: collator.num_groups]
            names = [*seen, *(str(group) for group in self.data_collator.unseen)]
            self.compute_metrics = replace(self.compute_metrics, group_names=names)

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
            (folder / TRAINER_STATE_NAME).unlink(missing_ok=True)  # written last; until then it is incomplete
            save_file(self.objective.state_dict(), folder / OBJECTIVE_FILE)
            # The sampler cannot know: the loader asks it for batches ahead of time.
            num_done = round((self.state.epoch - self.batch_sampler.epoch) * len(self.batch_sampler))
            (folder / SAMPLER_FILE).write_text(json.dumps(self.batch_sampler.state_dict(num_done), indent=2))
        super()._save_checkpoint(model, trial)

    def _save_rng_state(self, output_dir: str) -> None:
        super()._save_rng_state(output_dir)
        self.accelerator.wait_for_everyone()  # so that what follows marks the checkpoint as complete for all processes

    def _restore(self, folder: Path) -> None:
        missing = [name for name in (OBJECTIVE_FILE, SAMPLER_FILE) if not (folder / name).exists()]
        if missing:
            raise ValueError(
                f"`resume_from_checkpoint`: {folder} has no {' and no '.join(missing)}, so the group weights would be "
                "lost. Resume from a checkpoint that a RobustTrainer wrote."
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
                f"{global_step} steps the Trainer would continue at batch {there[1]} of epoch {there[0]}, so batches "
                "would be repeated or skipped. Resume with the same number of processes times "
                "`gradient_accumulation_steps`, and without `ignore_data_skip`."
            )

    def _check_settings(self) -> None:
        for name, (expected, why) in SETTINGS.items():
            given = getattr(self.args, name)
            if given != expected:
                raise ValueError(f"`{name}` must be {expected!r}; got {given!r}, but {why}")
        warn_of_clipping(
            logger,
            self.args.max_grad_norm,
            self.args.gradient_accumulation_steps,
            self.objective.num_groups,
            limit_option="max_grad_norm",
            steps_option="gradient_accumulation_steps",
        )
        if self.args.per_device_train_batch_size != type(self.args).per_device_train_batch_size:
            logger.warning(
                f"`per_device_train_batch_size` is {self.args.per_device_train_batch_size}, but is ignored: "
                "`batch_sampler` sets the size of batches. The Trainer's own sample counts are therefore wrong."
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
        column = _column(dataset, self.group_column)
        if groups is not None and column is not None:
            self._check_order(column, groups)

    def _check_order(self, column: Iterable[Any], groups: Any) -> None:
        """Rejects a dataset in which the group of some utterance is not that in the sampler, up to renaming."""
        names: dict[int, Any] = {}
        for index, (name, number) in enumerate(zip(column, groups.tolist(), strict=True)):
            if names.setdefault(number, name) != name:
                raise ValueError(
                    f"`train_dataset` and `batch_sampler` disagree on the group of utterance {index:,}: "
                    f"{self.group_column!r} is {name!r}, but it was {names[number]!r} for other utterances of the "
                    f"sampler's group {number}. {MAKE_SAMPLER_LAST}"
                )
        if len(set(names.values())) != len(names):
            raise ValueError(
                f"`batch_sampler` has {len(names)} groups, but {self.group_column!r} of `train_dataset` has "
                f"{len(set(names.values()))}. Make both with the same groups."
            )

    def _warn_of_unused_losses(self) -> None:
        order = type(self).__mro__
        for one in order[order.index(RobustTrainer) + 1 :]:
            if "compute_loss" in vars(one) and not one.__module__.startswith("transformers."):
                logger.warning(
                    f"`{one.__name__}.compute_loss` is not called: RobustTrainer computes the loss. Override "
                    "`utterance_losses` for other losses of utterances."
                )

    def _check_ranks(self) -> None:
        here = self.args.process_index, self.args.world_size
        if self.batch_sampler.rank_and_world_size != here:
            raise ValueError(
                f"`batch_sampler` was made for (rank, world size) {self.batch_sampler.rank_and_world_size}, this "
                f"process is {here}. Omit its `rank` and `world_size`: it finds them itself."
            )


class RobustSeq2SeqTrainer(RobustTrainer, Seq2SeqTrainer):
    """`RobustTrainer` for models that generate text, as Whisper.

    With `predict_with_generate=True`, `eval_loss` is the model's own: a mean over tokens.
    """


class _Batches(DataLoader):
    def __init__(self, *args: Any, seed: int, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._seed = seed

    def set_epoch(self, epoch: int) -> None:
        """Called by the Trainer. The seeds of worker processes depend on the epoch, whether or not the run resumes."""
        self.batch_sampler.set_epoch(epoch)  # type: ignore[union-attr]
        self.generator.manual_seed(self._seed + epoch)


@dataclass(frozen=True)
class _WithGroups:
    """Takes the groups out of the items, collates the rest, and adds the numbers of the groups to the batch.

    Labels are checked here, where they are still on the host, since the model does not receive them.
    """

    collate: Callable[[list[Any]], Any]
    column: str
    num_groups: int
    names: list[str] | None
    vocab_size: int | None = None
    is_training: bool = False
    has_one_group: bool = False
    unseen: tuple[Any, ...] = ()
    """Groups of evaluation data that training does not have; their numbers follow those of training."""

    def __call__(self, items: list[Any]) -> Any:
        groups = None
        if all(isinstance(item, Mapping) and self.column in item for item in items):
            groups = [item[self.column] for item in items]
            items = [{name: item[name] for name in item if name != self.column} for item in items]
        batch = self.collate(items)
        if groups is not None:
            batch[self.column] = torch.tensor([self._checked_number(group) for group in groups])
        self._check_labels(batch)
        self._check_one_group(batch)
        return batch

    def number(self, group: Any) -> int:
        """The number of a group, given by name or number; `UNKNOWN_GROUP` if there is no such group."""
        if isinstance(group, str):
            if group in (self.names or ()):
                return self.names.index(group)  # type: ignore[union-attr]
        else:
            try:
                if 0 <= operator.index(group) < self.num_groups:
                    return operator.index(group)
            except TypeError:
                pass
        return self.num_groups + self.unseen.index(group) if group in self.unseen else UNKNOWN_GROUP

    def _checked_number(self, group: Any) -> int:
        number = self.number(group)
        if not self.is_training or 0 <= number < self.num_groups:
            return number
        expected = "no names, as `objective` was made without `group_names`"
        if self.names is not None:
            expected = f"`group_names` of `objective`: {', '.join(self.names)}"
        raise ValueError(
            f"`group_column`: {self.column!r} must hold numbers from 0 to {self.num_groups - 1}, or names "
            f"({expected}); got {group!r}."
        )

    def _check_labels(self, batch: Any) -> None:
        labels = batch.get("labels") if isinstance(batch, Mapping) else None
        if self.vocab_size is None or not isinstance(labels, Tensor) or not labels.numel():
            return
        if labels.max() >= self.vocab_size:
            raise ValueError(
                f"Labels must be less than `vocab_size` of the model, {self.vocab_size}; got {labels.max()}. The "
                "tokenizer has more labels than the model: load the model with `vocab_size=len(tokenizer)`."
            )

    def _check_one_group(self, batch: Any) -> None:
        if not self.has_one_group or not isinstance(batch, Mapping) or self.column not in batch:
            return
        found = sorted(set(torch.as_tensor(batch[self.column]).tolist()))
        if len(found) > 1:
            names = [self.names[number] if self.names else str(number) for number in found]
            raise ValueError(
                f"`batch_sampler` makes batches of one group, but this one has {', '.join(names)}. {MAKE_SAMPLER_LAST}"
            )


def _checked_objective(objective: Any) -> Objective:
    if isinstance(objective, CTCDROLoss):
        return objective.objective
    if not isinstance(objective, Objective):
        raise TypeError(
            f"`objective` must be an objective of ctcdro, such as ctcdro.ctc_dro(…); got {type(objective).__name__}."
        )
    return objective


def _check_sampler(sampler: Any) -> None:
    if not isinstance(sampler, PlannedBatchSampler):
        raise TypeError(
            "`batch_sampler` must be a batch sampler of ctcdro, such as ctcdro.LengthMatchedBatchSampler(…), which "
            f"shards and resumes; got {type(sampler).__name__}."
        )


def _column(dataset: Any, name: str) -> Iterable[Any] | None:
    """A column of a dataset of the package `datasets`, without the rest of its items; None for other datasets."""
    has_columns = hasattr(dataset, "with_format") and hasattr(dataset, "__len__")  # and is not a stream
    return dataset.with_format(None)[name] if has_columns and name in dataset.column_names else None


@cache
def _warn_once(message: str) -> None:
    logger.warning(message)


def _greedy(logits: Tensor, num_frames: Tensor, blank: int) -> Tensor:
    """(B, T) the best label of each frame; `NO_LABEL` for blanks, repetitions, and what is beyond the utterance."""
    best = logits.argmax(-1)
    is_new = torch.ones_like(best, dtype=torch.bool)
    is_new[:, 1:] = best[:, 1:] != best[:, :-1]
    is_within = torch.arange(best.shape[1], device=best.device) < num_frames[:, None]
    return best.where(is_new & is_within & (best != blank), NO_LABEL)
