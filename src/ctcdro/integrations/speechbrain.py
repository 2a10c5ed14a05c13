"""SpeechBrain: the robust loss in a `Brain` and length-matched batches in its loader, both in its checkpoints.

Only the training stage changes the weights. Every checkpoint of the brain contains loss, sampler and random generators;
one saved in the middle of an epoch resumes exactly, even with dropout, and loads no audio of finished batches. With
several processes, only the sampler shards the batches, and all processes hold the same weights.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor

from ..objectives.ctc import Normalization
from ..objectives.loss import ObjectiveCTCLoss
from ..objectives.objective import Objective
from ..runtime.extras import extra
from ..runtime.ranks import gather
from ..sampling.adaptive import make_sampler
from ..sampling.batch_arrays import Seconds
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


class RobustCTCLoss(ObjectiveCTCLoss):
    """The CTC losses of a batch, weighted by an objective.

    The arguments are those of `speechbrain.nnet.losses.ctc_loss`, plus the group of each utterance and the stage. In
    stages other than training, the value is the unweighted sum of the losses, and the weights do not change. An
    utterance whose transcript does not fit into its frames is skipped, and counted in `stats()`.

    Args:
        objective: `ctcdro.ctc_dro(…)` or another objective with `group_names`.
        normalization, num_language_tokens: as for `ctcdro.ObjectiveCTCLoss`.
    """

    def __init__(
        self,
        objective: Objective,
        blank_index: int = 0,
        normalization: Normalization = "none",
        num_language_tokens: int = 0,
    ) -> None:
        if objective.group_names is None:
            raise ValueError("`objective` must have group names: create it with `group_names=…`.")
        super().__init__(objective, blank_index, normalization, num_language_tokens)

    def stats(self) -> dict[str, float]:
        """Weights by name and the number of skipped utterances, for the statistics of a `TrainLogger`."""
        weights = zip(self.objective.group_names or [], self.objective.weights.tolist(), strict=True)
        num_skipped = int(self.objective.num_skipped.sum())
        return {**{f"weight/{name}": weight for name, weight in weights}, "num_skipped": num_skipped}

    def forward(  # type: ignore[override]
        self,
        log_probs: Tensor,
        targets: Tensor,
        input_lens: Tensor,
        target_lens: Tensor,
        groups: Sequence[str],
        stage: Stage,
    ) -> Tensor:
        """Returns the number to minimize.

        Args:
            log_probs: (B, T, C) log probabilities, such as the output of `log_softmax`.
            targets: (B, S) padded labels.
            input_lens, target_lens: (B,) frames and labels per utterance, relative to T and S.
            groups: (B,) the group name of each utterance, as in a `PaddedBatch`.
            stage: the argument of `compute_objectives`.
        """
        num_labels = (target_lens * targets.shape[1]).round().int()
        num_frames = (input_lens * log_probs.shape[1]).round().int()
        # Set here, because a brain does not change the mode of modules in its hparams.
        self.objective.train(stage == Stage.TRAIN)
        return super().forward(log_probs.transpose(0, 1), targets, num_frames, num_labels, groups)


@partial(checkpoints.register_checkpoint_hooks, save_on_main_only=False)
class PlannedDataLoader(SaveableDataLoader):
    """A `SaveableDataLoader` that saves the state of its ctcdro sampler and all random generators.

    Its parent class saves the number of batches, and skips as many when it resumes. The sampler resumes at no cost,
    with any number of processes. A loader without a generator gets one; see `random_state`.
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
            return  # like its parent class: the best checkpoint is loaded for evaluation
        state = json.loads(Path(path).read_text(encoding="utf-8"))
        if isinstance(state, dict):
            restore_generators(state["generators"])
            # Also at the end of an epoch: the next epoch of an adaptive sampler continues after this one.
            self.batch_sampler.load_state_dict(state["sampler"])
        elif not end_of_epoch:
            raise ValueError(
                f"{path} was saved after {state} batches by a loader with other batches; batches would be missed or "
                "repeated. Resume from a checkpoint at the end of an epoch."
            )


class AtomicCheckpointer(Checkpointer):
    """A `Checkpointer` whose checkpoints are complete or absent, even if the process is killed.

    SpeechBrain writes file by file into the final folder, and would resume from an incomplete one. This class writes to
    a folder that SpeechBrain does not recognize as a checkpoint, and renames it when it is complete.
    """

    def save_checkpoint(self, *args: Any, **kwargs: Any) -> Checkpoint | None:
        if if_main_process():
            for leftover in self.checkpoints_dir.glob(".CKPT+*"):  # from a process that was killed
                shutil.rmtree(leftover)
        written = super().save_checkpoint(*args, **kwargs)
        ddp_barrier()  # wait until every process has written its part
        finished = None if written is None else self._finish(written)
        ddp_barrier()  # so that every process finds the same checkpoints
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
    """A loader of length-matched batches, to pass to `brain.fit` instead of the training data.

    The weights of an error-weighted objective become shares of the batches (`ctcdro.AdaptiveBatchSampler`). Also
    registers the sampler for `set_epoch`, adds loader and loss to the checkpointer of the brain, and moves the loss to
    its device. A brain does not shard the batches of a loader again.

    Args:
        dataset: the training data, with group and duration in its annotation, so that no audio is read.
        loss: the loss, with the groups of the dataset.
        group_key, duration_key: keys of the annotation for the group name and the seconds of an utterance.
        batch_duration, exponent, seed: as for `ctcdro.LengthMatchedBatchSampler`.
        **loader_kwargs: options of `torch.utils.data.DataLoader`, such as `num_workers`, except those that would change
            the batches.
    """
    names = group_names(dataset, group_key)
    number_of = {name: number for number, name in enumerate(loss.objective.group_names or [])}
    if set(names) != set(number_of):
        raise ValueError(
            f"`dataset` has the groups {', '.join(names)}, but `loss` has {', '.join(number_of)}; weights would go to "
            "the wrong groups, or never change. Create its objective with `group_names(dataset, group_key)`."
        )
    durations = _column(dataset, "duration_key", duration_key)
    groups = [number_of[name] for name in _column(dataset, "group_key", group_key)]
    options = batch_duration, exponent, seed
    sampler = make_sampler(durations, groups, loss.objective, *options, group_names=list(number_of))
    warn_of_clipping(brain, loss.objective, limit="max_grad_norm", batches_per_step="grad_accumulation_factor")
    loader = PlannedDataLoader(dataset, batch_sampler=sampler, **{"collate_fn": PaddedBatch, **loader_kwargs})
    brain.train_sampler = sampler
    loss.to(brain.device)
    if brain.checkpointer is not None:
        brain.checkpointer.add_recoverable("ctcdro", loss)
        brain.checkpointer.add_recoverable("dataloader-TRAIN", loader)  # the name that a brain uses for its loaders
    return loader


def _column(dataset: DynamicItemDataset, argument: str, key: str) -> list[Any]:
    """Reads a key of the annotation of every utterance. Dynamic items are not used, because they might load audio."""
    for data_id in dataset.data_ids:
        if key not in dataset.data[data_id]:
            raise ValueError(
                f"`{argument}`: utterance {data_id!r} has no {key!r} in its annotation, only "
                f"{', '.join(dataset.data[data_id])}. Add it to the JSON or CSV file; dynamic items are not used."
            )
    return [dataset.data[data_id][key] for data_id in dataset.data_ids]
