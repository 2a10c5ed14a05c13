"""Lightning 2: the criterion in your module, a loader that can resume, and a callback.

    sampler = ctcdro.LengthMatchedBatchSampler(durations, groups, batch_duration=50.0)
    loader = ResumableLoader(DataLoader(corpus, batch_sampler=sampler, collate_fn=collate))
    lightning.Trainer(callbacks=[CTCDROCallback()]).fit(module, loader)

The criterion is part of the module: Lightning saves its weights, moves them, and keeps them fixed in validation.
Batches come from the sampler, and Lightning does not shard them again. A checkpoint at any batch resumes with the next
one, without loading finished ones, and with the same random numbers for dropout and SpecAugment.

Works with `import lightning` and with `import pytorch_lightning`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, cast

from torch.utils._pytree import tree_leaves
from torch.utils.data import DataLoader

from ..objectives.objective import Objective
from ..runtime.extras import extra
from ..runtime.ranks import gather
from ..sampling.base import PlannedBatchSampler
from .checks import check_objective, check_ranks, warn_of_clipping
from .random_state import generator_state, restore_generators, seed_workers, set_generator_state

try:
    from lightning.pytorch import Callback, LightningModule, Trainer
except ModuleNotFoundError:
    with extra("lightning", "The Lightning integration"):
        from pytorch_lightning import Callback, LightningModule, Trainer

CHECKPOINT_KEY = "ctcdro"


def _of_loader(name: str) -> property:
    return property(lambda self: getattr(self.loader, name), lambda self, value: setattr(self.loader, name, value))


class ResumableLoader:
    """Wraps a `DataLoader` with a ctcdro sampler, so that Lightning neither shards it nor starts it too early.

    Lightning adds a `DistributedSampler` to every `DataLoader`, and requests its first batches before it sets the
    epoch. This class is not a `DataLoader`, and does nothing before the first batch is requested. A loader without a
    generator gets one, so that resuming does not change the dropout of later batches.
    """

    worker_init_fn = _of_loader("worker_init_fn")  # Lightning sets it, after `seed_everything(workers=True)`
    _iterator = _of_loader("_iterator")  # Lightning uses it to end persistent workers

    def __init__(self, loader: DataLoader) -> None:
        self.loader = loader
        self.sampler = cast(PlannedBatchSampler, loader.batch_sampler)  # Lightning calls its `set_epoch`
        self.before_loading: Callable[[], None] | None = None  # called once, before the next iteration loads a batch
        self.num_taken = self.num_done = 0  # batches of the latest iteration
        self._epoch_of_taken = self.sampler.epoch

    def __len__(self) -> int:
        return len(self.loader)

    def __iter__(self) -> Iterator[Any]:
        # A generator: the loader and its workers start at the first batch, when epoch and position are known.
        self.num_taken = self.num_done = 0
        self._epoch_of_taken = self.sampler.epoch
        seed_workers(self.loader, self.sampler)
        if self.before_loading is not None:
            self.before_loading()
            self.before_loading = None
        for batch in self.loader:
            self.num_taken += 1
            yield batch

    def state_dict(self) -> dict[str, Any]:
        """The position of the loop, which may be behind that of the workers."""
        num_taken = self.num_taken if self._epoch_of_taken == self.sampler.epoch else 0
        _, world_size = self.sampler.rank_and_world_size
        return {"sampler": self.sampler.state_dict(num_taken), "world_size": world_size}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        # Lightning counts the batches of one process; with another world size it would stop too early or too late.
        _, world_size = self.sampler.rank_and_world_size
        if state["world_size"] != world_size and 0 < state["sampler"]["position"] < self.sampler.num_batches:
            raise ValueError(
                f"The checkpoint was saved in the middle of an epoch with {state['world_size']} process(es), but this "
                f"run has {world_size}; batches would be missed. Resume with {state['world_size']}, or from a "
                "checkpoint at the end of an epoch."
            )
        self.sampler.load_state_dict(state["sampler"])


class CTCDROCallback(Callback):
    """Logs `weight/<group>`, resumes loaders and random generators, and checks the settings of the trainer.

    With several objectives in a module, weights are logged as `weight/<attribute>/<group>`. An objective that needs
    error rates gets them from `on_validation_epoch_end` of the module.
    """

    def __init__(self) -> None:
        self._objectives: dict[str, Objective] = {}
        self._loaders: list[ResumableLoader] = []
        self._to_load: dict[str, Any] = {}
        self._generators_after_batch: dict[str, Any] | None = None

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        objectives = {path: part for path, part in pl_module.named_modules() if isinstance(part, Objective)}
        if not objectives:
            raise ValueError(
                f"{type(pl_module).__name__} must have a ctcdro objective as an attribute, such as `self.criterion = "
                "CTCDROLoss(…)`; it has none. Otherwise checkpoints would not contain the group weights."
            )
        is_only = len(objectives) == 1
        self._objectives = {"" if is_only else f"{path}/": objective for path, objective in objectives.items()}
        largest = max(objectives.values(), key=lambda objective: objective.num_groups)
        warn_of_clipping(trainer, largest, limit="gradient_clip_val", batches_per_step="accumulate_grad_batches")

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._loaders = _resumable_loaders(trainer)
        for loader in self._loaders:
            check_objective(loader.sampler, self._objectives.values())
        # Lightning also loads the states of loaders, but not after `trainer.estimated_stepping_batches` was called.
        if self._to_load:
            for loader, state in zip(self._loaders, self._to_load["loaders"], strict=True):
                loader.load_state_dict(state)
            restore_generators(self._to_load["generators"])
            if self._loaders:
                # Lightning may still create an iterator over the validation data, which draws a number.
                self._loaders[0].before_loading = partial(set_generator_state, generator_state())
        self._generators_after_batch = generator_state()
        self._to_load = {}

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._loaders = _resumable_loaders(trainer)  # they change with `reload_dataloaders_every_n_epochs`

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        for loader in self._loaders:
            loader.num_done = loader.num_taken
        self._generators_after_batch = generator_state()
        # Lightning drops values logged at other steps, after spending tens of milliseconds for a hundred groups.
        if not trainer.log_every_n_steps or trainer.global_step % trainer.log_every_n_steps:
            return
        for prefix, objective in self._objectives.items():
            names = objective.group_names or range(objective.num_groups)
            weights = {f"weight/{prefix}{name}": w for name, w in zip(names, objective.weights, strict=True)}
            pl_module.log_dict(weights, on_step=True, on_epoch=False, batch_size=1)

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        # If a checkpoint was saved before a validation, Lightning resumes with no validation or only a part of it.
        # Restoring the generators keeps later batches the same.
        if trainer.state.fn == "fit" and not trainer.sanity_checking and self._generators_after_batch is not None:
            set_generator_state(self._generators_after_batch)

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        # Lightning does not count this batch either. `OnExceptionCheckpoint` runs later: checkpoint callbacks are last.
        for loader in self._loaders:
            loader.num_taken = loader.num_done

    def on_save_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        loaders = [loader.state_dict() for loader in self._loaders]
        checkpoint[CHECKPOINT_KEY] = {"loaders": loaders, "generators": gather([generator_state()])}

    def on_load_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        if trainer.training:  # not for `trainer.test(ckpt_path=…)`
            self._to_load = checkpoint.get(CHECKPOINT_KEY, {})


def _resumable_loaders(trainer: Trainer) -> list[ResumableLoader]:
    leaves = tree_leaves(trainer.train_dataloader)  # from nested dictionaries and lists
    for loader in leaves:
        if isinstance(getattr(loader, "batch_sampler", None), PlannedBatchSampler):
            raise ValueError(
                f"`train_dataloader` contains a {type(loader).__name__} with {type(loader.batch_sampler).__name__}. "
                "Lightning cannot resume it and does not set its epoch, so all epochs would have the same batches. "
                "Wrap it: ctcdro.integrations.lightning.ResumableLoader(DataLoader(…))."
            )
    loaders = [loader for loader in leaves if isinstance(loader, ResumableLoader)]
    ranks = trainer.distributed_sampler_kwargs or {"rank": 0, "num_replicas": 1}
    for loader in loaders:
        check_ranks(loader.sampler, ranks["rank"], ranks["num_replicas"])
    return loaders
