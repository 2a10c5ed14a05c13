"""SpeechBrain: the robust loss in a `Brain`, length-matched batches in its loader, both in its checkpoints.

Only the training stage changes the weights. Loss, sampler and random generators are in every checkpoint of the brain;
one saved in the middle of an epoch resumes exactly, also with dropout, and loads no audio of finished batches. On
several processes only the sampler shards the batches, and all processes hold the same weights.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..objectives.ctc import Normalization, ctc_losses
from ..objectives.objective import Objective
from ..runtime.extras import extra
from ..runtime.ranks import gather
from ..sampling.batch_arrays import Seconds
from ..sampling.samplers import LengthMatchedBatchSampler
from .checks import warn_of_clipping
from .random_state import generator_state, restore_generators, seed_workers

with extra("speechbrain", "The SpeechBrain integration"):
    from speechbrain import Brain, Stage
    from speechbrain.dataio.batch import PaddedBatch
    from speechbrain.dataio.dataloader import SaveableDataLoader
    from speechbrain.dataio.dataset import DynamicItemDataset
    from speechbrain.utils import checkpoints
    from speechbrain.utils.checkpoints import Checkpoint, Checkpointer
    from speechbrain.utils.distributed import ddp_barrier, if_main_process


def group_names(dataset: DynamicItemDataset, group_key: str) -> list[str]:
    return sorted(set(_column(dataset, "group_key", group_key)))


class RobustCTCLoss(torch.nn.Module):
    """The CTC losses of a batch, weighted by an objective.

    The arguments are those of `speechbrain.nnet.losses.ctc_loss`, then the group of each utterance and the stage. In
    stages other than training, the value is the plain sum of the losses, whatever the groups, and no weight changes. An
    utterance whose transcript does not fit into its frames is skipped, and counted in `stats()`.

    Args:
        objective: `ctcdro.ctc_dro(…)` or another, with its `group_names`.
        normalization, num_language_tokens: as for `ctcdro.CTCDROLoss`.
    """

    def __init__(
        self,
        objective: Objective,
        blank_index: int = 0,
        normalization: Normalization = "none",
        num_language_tokens: int = 0,
    ) -> None:
        super().__init__()
        if objective.group_names is None:
            raise ValueError("`objective` must have group names: create it with `group_names=…`.")
        self.objective = objective
        self.blank_index = blank_index
        self.normalization: Normalization = normalization
        self.num_language_tokens = num_language_tokens

    def stats(self) -> dict[str, float]:
        """Weights by name and the number of skipped utterances, for the statistics of a `TrainLogger`."""
        weights = zip(self.objective.group_names or [], self.objective.weights.tolist(), strict=True)
        num_skipped = int(self.objective.num_skipped.sum())
        return {**{f"weight/{name}": weight for name, weight in weights}, "num_skipped": num_skipped}

    def forward(
        self,
        log_probs: Tensor,
        targets: Tensor,
        input_lens: Tensor,
        target_lens: Tensor,
        groups: Sequence[str],
        stage: Stage,
    ) -> Tensor:
        """The number to minimize.

        Args:
            log_probs: (B, T, C) log probabilities, for example from `log_softmax`.
            targets: (B, S) padded labels.
            input_lens, target_lens: (B,) frames and labels of each utterance, relative to T and S.
            groups: (B,) the group name of each utterance, as in a `PaddedBatch`.
            stage: the argument of `compute_objectives`.
        """
        num_labels = (target_lens * targets.shape[1]).round().int()
        num_frames = (input_lens * log_probs.shape[1]).round().int()
        log_probs = log_probs.transpose(0, 1)
        losses = ctc_losses(log_probs, targets, num_frames, num_labels, self.blank_index, self.normalization)
        # Set here, because a brain does not switch the mode of a loss among its hparams.
        self.objective.train(stage == Stage.TRAIN)
        return self.objective(losses, groups, (num_labels - self.num_language_tokens).clamp(min=0))


@partial(checkpoints.register_checkpoint_hooks, save_on_main_only=False)
class PlannedDataLoader(SaveableDataLoader):
    """A `SaveableDataLoader` that saves the state of its batch sampler, a sampler of ctcdro, and all random generators.

    Its parent saves the number of batches, and skips as many when resuming. The sampler resumes there at no cost, with
    any number of processes. A loader without a generator gets one, as in `generators`.
    """

    def __iter__(self) -> Any:
        seed_workers(self, self.batch_sampler)
        return super().__iter__()

    @checkpoints.mark_as_saver  # type: ignore[untyped-decorator]
    def _save(self, path: Path) -> None:
        # Batches that the loop has received: workers request batches from the sampler ahead of time.
        num_taken = None if self._speechbrain_iterator is None else self._speechbrain_iterator._num_yielded
        state = {"sampler": self.batch_sampler.state_dict(num_taken), "generators": gather([generator_state()])}
        if if_main_process():
            Path(path).write_text(json.dumps(state), encoding="utf-8")

    @checkpoints.mark_as_loader  # type: ignore[untyped-decorator]
    def _load(self, path: Path, end_of_epoch: bool) -> None:
        if self._speechbrain_iterator is not None:
            return  # as its parent does: the best checkpoint is loaded to be evaluated
        state = json.loads(Path(path).read_text(encoding="utf-8"))
        if isinstance(state, dict):
            restore_generators(state["generators"])
            if not end_of_epoch:
                self.batch_sampler.load_state_dict(state["sampler"])
        elif not end_of_epoch:
            raise ValueError(
                f"{path} was saved by a loader with other batches, after {state} of them; batches would be missed or "
                "repeated. Resume from a checkpoint at the end of an epoch."
            )


class AtomicCheckpointer(Checkpointer):
    """A `Checkpointer` whose checkpoints are complete or absent, whenever the process is killed.

    SpeechBrain writes file by file into the final folder, and would resume from a part of them. This class writes to a
    folder that SpeechBrain does not recognize as a checkpoint, and renames it when it is complete.
    """

    def save_checkpoint(self, *args: Any, **kwargs: Any) -> Checkpoint | None:
        if if_main_process():
            for leftover in self.checkpoints_dir.glob(".CKPT+*"):  # from a process that was killed
                shutil.rmtree(leftover)
        written = super().save_checkpoint(*args, **kwargs)
        ddp_barrier()  # every process has written its part
        finished = None if written is None else self._finish(written)
        ddp_barrier()  # every process finds the same checkpoints
        return finished

    def _finish(self, written: Checkpoint) -> Checkpoint:
        path = written.path.with_name(written.path.name.removeprefix("."))
        if path.exists():  # a checkpoint with a custom name is replaced
            shutil.rmtree(path)
        os.rename(written.path, path)
        return Checkpoint(path, written.meta, {name: path / file.name for name, file in written.paramfiles.items()})

    def _new_checkpoint_dirpath(self) -> Path:
        path = super()._new_checkpoint_dirpath()
        return path.with_name(f".{path.name}")

    def _custom_checkpoint_dirpath(self, name: str) -> Path:
        path = super()._custom_checkpoint_dirpath(name)
        return path.with_name(f".{path.name}")


def train_loader(
    brain: Brain,
    dataset: DynamicItemDataset,
    loss: RobustCTCLoss,
    group_key: str,
    *,
    batch_duration: Seconds = 50.0,
    exponent: float = 0.0,
    seed: int = 0,
    duration_key: str = "duration",
    **loader_kwargs: Any,
) -> PlannedDataLoader:
    """A loader of length-matched batches for `brain.fit`, instead of the training data.

    Also registers the sampler for `set_epoch`, adds loader and loss to the checkpointer of the brain, and moves the
    loss to its device. A brain uses a loader as it is, and does not shard its batches again.

    Args:
        dataset: the training data, with group and duration in its annotation, so that no audio is read.
        loss: its groups are those of the dataset.
        group_key, duration_key: keys of the annotation for the group name and the seconds of an utterance.
        batch_duration, exponent, seed: as for `ctcdro.LengthMatchedBatchSampler`.
        **loader_kwargs: options of `torch.utils.data.DataLoader`, such as `num_workers`, except those that would change
            the batches.
    """
    names = group_names(dataset, group_key)
    number_of = {name: number for number, name in enumerate(loss.objective.group_names or [])}
    if set(names) != set(number_of):
        raise ValueError(
            f"`dataset` has the groups {', '.join(names)}, but `loss` {', '.join(number_of)}; weights would go to the "
            "wrong groups, or never change. Create its objective with `group_names(dataset, group_key)`."
        )
    durations = _column(dataset, "duration_key", duration_key)
    groups = [number_of[name] for name in _column(dataset, "group_key", group_key)]
    sampler = LengthMatchedBatchSampler(durations, groups, batch_duration, exponent, seed, group_names=list(number_of))
    warn_of_clipping(brain, len(names), limit="max_grad_norm", batches_per_step="grad_accumulation_factor")
    loader = PlannedDataLoader(dataset, batch_sampler=sampler, **{"collate_fn": PaddedBatch, **loader_kwargs})
    brain.train_sampler = sampler
    loss.to(brain.device)
    if brain.checkpointer is not None:
        brain.checkpointer.add_recoverable("ctcdro", loss)
        brain.checkpointer.add_recoverable("dataloader-TRAIN", loader)  # the name that a brain gives to its own
    return loader


def _column(dataset: DynamicItemDataset, argument: str, key: str) -> list[Any]:
    """A value of the annotation for each utterance. Dynamic items are not used, because they might load audio."""
    for data_id in dataset.data_ids:
        if key not in dataset.data[data_id]:
            raise ValueError(
                f"`{argument}`: utterance {data_id!r} has no {key!r} in its annotation, only "
                f"{', '.join(dataset.data[data_id])}. Add it to the JSON or CSV file; dynamic items are not used."
            )
    return [dataset.data[data_id][key] for data_id in dataset.data_ids]
