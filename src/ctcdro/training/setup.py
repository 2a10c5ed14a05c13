"""The parts of a run: how they are made, saved, and brought back.

A checkpoint holds everything that a restart needs and the configuration does not specify: model, optimizer, objective,
position in the data, and the numbers of `Progress`. Random numbers need no state: each step seeds the generators.
"""

from __future__ import annotations

import hashlib
import math
import os
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..objectives import objectives
from ..runs.folder import RunFolder, about_this_run, forget_after, read_about
from ..runtime.extras import extra
from ..runtime.progress import Track, untracked
from ..sampling import samplers as sampling
from ..sampling.base import PlannedBatchSampler
from ..speech.manifest import Groups, Manifest
from ..speech.vocabulary import Vocabulary
from ..storage.atomic import flush_to_disk
from ..storage.json_files import write_json
from ..storage.tensors import tensors_digest
from .checkpoints import Checkpoint, flattened, has_checkpoints, load_checkpoint, restored, save_checkpoint

with extra("train", "Training"):
    from accelerate import Accelerator, DistributedDataParallelKwargs
    from accelerate.state import AcceleratorState
    from accelerate.tracking import get_available_trackers
    from accelerate.utils import gather_object, get_int_from_env

    from ..models.feature_cache import FeatureCache, FeatureRecognizer, speech_dataset
    from ..models.recognizer import Recognizer, build
    from ..runs.config import Config, differences, read_config
    from ..speech.dataset import SpeechDataset, check_audio_exists
    from .endless_loader import BatchStream


@dataclass
class Progress:
    """How far a run is: all numbers that a restart needs."""

    step: int = 0
    num_batches: int = 0
    epoch: int = 0
    best: float = math.inf
    epochs_since_best: int = 0
    seconds: float = 0.0
    """Spent, over all restarts."""


@dataclass
class Run:
    """The parts of a run. What a checkpoint keeps is the state of those below the line."""

    config: Config
    folder: RunFolder
    accelerator: Accelerator
    dev: Manifest
    dev_dataset: SpeechDataset
    vocabulary: Vocabulary
    groups: Groups
    durations: Tensor
    """(n,) seconds of the training utterances."""
    recognizer: Recognizer
    forward: torch.nn.Module
    """The recognizer, as wrapped for devices, precision and processes."""
    given: dict[str, str]
    """Digests of what the run is given from outside, and so is in no checkpoint: manifests, pretrained weights."""
    # ---
    objective: objectives.Objective
    optimizer: torch.optim.Optimizer
    schedule: torch.optim.lr_scheduler.LambdaLR
    stream: BatchStream
    progress: Progress = field(default_factory=Progress)

    def gather(self, items: list[Any]) -> list[Any]:
        """Returns the items of all processes, which must all call it."""
        return gather_object(items)


def is_first_process() -> bool:
    """Whether this is the first process of the run, before `Accelerator` sets it up; also under `mpirun`."""
    return get_int_from_env(("RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK"), 0) == 0


def num_steps(config: Config) -> int:
    """Steps of a whole run."""
    return config.training.epochs * config.training.batches_per_epoch // config.optimizer.accumulate


def learning_rate_factor(step: int, total: int, schedule: str, warmup: float) -> float:
    """What the learning rate is multiplied with at a step.

    Example:
        >>> [round(learning_rate_factor(step, 10, "linear", 0.2), 3) for step in (0, 1, 2, 6, 10)]
        [0.5, 1.0, 1.0, 0.5, 0.0]
    """
    num_warmup = round(warmup * total)
    if step < num_warmup:
        return (step + 1) / num_warmup
    done = (step - num_warmup) / max(1, total - num_warmup)
    return {"constant": 1.0, "linear": 1.0 - done, "cosine": 0.5 * (1.0 + math.cos(math.pi * done))}[schedule]


def start(config: Config, folder: RunFolder, track: Track = untracked) -> Run:
    """Makes all parts of a run, as they are at its beginning; `track` shows how the feature cache is filled."""
    # accelerate keeps the precision of the first run of a process for all later ones, and refuses another.
    AcceleratorState._reset_state()
    accelerator = Accelerator(
        mixed_precision="bf16" if config.training.precision == "bf16" else "no",
        cpu=not torch.cuda.is_available(),
        log_with=list(config.training.trackers) or None,
        project_dir=folder.tracking,
        # Buffers are constants. To exchange them in evaluation, too, would have a rank without a batch wait for ever.
        kwargs_handlers=[DistributedDataParallelKwargs(broadcast_buffers=False)],
    )
    if accelerator.ddp_handler is not None and accelerator.num_processes > 2:
        # Otherwise torch rearranges the gradients after the first step, and after the first step of a restart. With
        # three or more processes, it would then add them in another order.
        accelerator.ddp_handler.find_unused_parameters = True
    if config.optimizer.accumulate % accelerator.num_processes:
        raise ValueError(
            f"optimizer.accumulate must be a multiple of the number of processes, {accelerator.num_processes}; got "
            f"{config.optimizer.accumulate}."
        )
    paths = [config.dataset / f"{split}.jsonl" for split in ("train", "dev")]
    for path in paths:
        if not path.is_file():
            raise ValueError(f"dataset: {path} is not there; `ctcdro prepare` makes datasets.")
    train_data, dev = map(Manifest.read, paths)
    if config.batches.on_fault == "stop":
        check_audio_exists([train_data, dev])
    with accelerator.main_process_first():
        _claim(config, folder, accelerator)
    vocabulary = Vocabulary.of((one.text for one in train_data), (one.lang for one in train_data))
    groups = train_data.groups(config.batches.group_by)
    recognizer = build(
        config.model.encoder,
        len(vocabulary),
        head=config.model.head,
        freeze_encoder=config.model.freeze_encoder,
        lora=config.model.lora.model_dump() if config.model.lora else None,
        gradient_checkpointing=config.model.gradient_checkpointing,
        spec_augment=config.model.spec_augment,
        seed=config.seed,
    ).to(accelerator.device)
    optimizer = _optimizer(config, recognizer)
    total, schedule = num_steps(config), config.optimizer
    cache = FeatureCache(config.model.feature_cache, recognizer) if config.model.feature_cache else None
    if cache is not None:
        _fill(cache, [train_data, dev], config, accelerator, track)
    dataset_of = partial(speech_dataset, recognizer, cache, on_fault=config.batches.on_fault)
    dataset = dataset_of(train_data, vocabulary, group_numbers=groups.numbers)
    module: torch.nn.Module = recognizer if cache is None else FeatureRecognizer(recognizer)
    compiled = torch.compile(module) if config.training.compile else module
    wrapped, optimizer = accelerator.prepare(compiled, optimizer)
    if isinstance(wrapped, torch.nn.parallel.DistributedDataParallel):
        wrapped.device_ids = None  # it would copy the lengths of a batch to the GPU, and the host would wait for them
    if accelerator.is_main_process and not has_checkpoints(folder.checkpoints):
        vocabulary.save(folder.vocabulary)
        write_json(folder.run, about_this_run(config.seed, accelerator.num_processes))
    _start_trackers(config, folder, accelerator)
    return Run(
        config=config,
        folder=folder,
        accelerator=accelerator,
        dev=dev,
        dev_dataset=dataset_of(dev, vocabulary),
        vocabulary=vocabulary,
        groups=groups,
        durations=torch.from_numpy(train_data.durations),
        recognizer=recognizer,
        forward=wrapped,
        given={str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}
        | {f"the pretrained weights of {config.model.encoder}": tensors_digest(_frozen(recognizer))},
        objective=_objective(config, train_data, groups, vocabulary).to(accelerator.device),
        optimizer=optimizer,
        schedule=torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda step: learning_rate_factor(step, total, schedule.schedule, schedule.warmup)
        ),
        stream=BatchStream(dataset, _sampler(config, train_data, groups), config.batches.num_workers),
    )


def _start_trackers(config: Config, folder: RunFolder, accelerator: Accelerator) -> None:
    names = config.training.trackers
    missing = [name for name in names if name not in {str(known) for known in get_available_trackers()}]
    if missing:
        raise ImportError(f"training.trackers: {', '.join(missing)} not installed; install it, or leave it out.")
    place = {"wandb": {"dir": str(folder.tracking)}, "mlflow": {"logging_dir": str(folder.tracking)}}
    if names:
        folder.tracking.mkdir(parents=True, exist_ok=True)
    accelerator.init_trackers("ctcdro", init_kwargs={name: place[name] for name in names if name in place})


def _fill(
    cache: FeatureCache, manifests: list[Manifest], config: Config, accelerator: Accelerator, track: Track
) -> None:
    for manifest in manifests:
        cache.fill(
            manifest,
            skip_faults=config.batches.on_fault == "skip",
            num_workers=config.batches.num_workers,
            rank=accelerator.process_index,
            num_ranks=accelerator.num_processes,
            track=track,
        )
    accelerator.wait_for_everyone()


def _claim(config: Config, folder: RunFolder, accelerator: Accelerator) -> None:
    """Makes the folder, or sees that the run in it, if it has got anywhere, is this one and not finished."""
    if folder.is_finished:
        raise ValueError(f"{folder.path} has a finished run; give another folder, or remove it.")
    if not has_checkpoints(folder.checkpoints):  # nothing is lost
        if accelerator.is_main_process:
            folder.path.mkdir(parents=True, exist_ok=True)
            config.write(folder.config)
    elif differing := differences(read_config(folder.config), config):
        raise ValueError(f"{folder.path} has a run of another configuration ({differing}).")


def _objective(config: Config, manifest: Manifest, groups: Groups, vocabulary: Vocabulary) -> objectives.Objective:
    one, num_groups = config.objective, len(groups.names)
    if one.name == "erm":
        return objectives.erm(num_groups, reduction=one.reduction, group_names=groups.names)
    if one.name == "group-dro":
        return objectives.group_dro(num_groups, step_size=one.step_size, group_names=groups.names)
    scales = _scales_per_label(manifest, groups, vocabulary) if one.compare_by == "label" else None
    make = objectives.ctc_dro_unsmoothed
    if one.name == "ctc-dro":
        make = partial(objectives.ctc_dro, smoothing=one.smoothing)
    return make(
        num_groups, step_size=one.step_size, reduction=one.reduction, loss_scales=scales, group_names=groups.names
    )


def _scales_per_label(manifest: Manifest, groups: Groups, vocabulary: Vocabulary) -> list[float]:
    num_labels = [len(vocabulary.encode(one.text, one.lang)) for one in manifest]
    return objectives.scales_per_label(
        np.bincount(groups.numbers, num_labels).tolist(), np.bincount(groups.numbers, manifest.durations).tolist()
    )


def _sampler(config: Config, manifest: Manifest, groups: Groups) -> PlannedBatchSampler:
    one = config.batches
    if one.sampler == "similar-length":
        return sampling.SimilarLengthBatchSampler(manifest.durations, one.batch_size, seed=config.seed)
    if one.sampler == "group-uniform":
        return sampling.GroupUniformBatchSampler(groups.numbers, one.batch_size, seed=config.seed)
    return sampling.LengthMatchedBatchSampler(
        manifest.durations,
        groups.numbers,
        one.batch_duration,
        balance=one.balance,
        seed=config.seed,
        group_names=groups.names,
    )


def _optimizer(config: Config, model: torch.nn.Module) -> torch.optim.Optimizer:
    one = config.optimizer
    kind = torch.optim.AdamW if one.decoupled else torch.optim.Adam
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    return kind(trained, lr=one.learning_rate, betas=one.betas, weight_decay=one.weight_decay, fused=True)


def save(run: Run) -> None:
    """Writes a checkpoint; all processes must call it."""
    # Positions differ where processes skip batches of unreadable audio.
    streams = run.gather([run.stream.state_dict()])
    if run.accelerator.is_main_process:
        optimizer, optimizer_values = flattened(run.optimizer.state_dict(), "optimizer")
        frozen = _frozen(run.recognizer)
        tensors = {
            **{f"model/{name}": tensor for name, tensor in run.recognizer.state_dict().items() if name not in frozen},
            **{f"objective/{name}": tensor for name, tensor in run.objective.state_dict().items()},
            **optimizer,
        }
        values = {
            "optimizer": optimizer_values,
            "schedule": run.schedule.state_dict(),
            "streams": streams,
            "progress": asdict(run.progress),
            "given": run.given,
        }
        save_checkpoint(
            run.folder.checkpoints,
            Checkpoint(run.progress.step, tensors, values),
            keep=run.config.training.keep_checkpoints,
        )
    run.accelerator.wait_for_everyone()


def resume(run: Run) -> None:
    """Goes back to the newest checkpoint that is sound, if there is one."""
    checkpoint = load_checkpoint(run.folder.checkpoints)
    if run.accelerator.is_main_process:
        for path in (run.folder.log, run.folder.group_weights):
            forget_after(path, checkpoint.step if checkpoint else 0)
    run.accelerator.wait_for_everyone()
    if checkpoint is None:
        return
    try:
        _bring_back(run, checkpoint.tensors, checkpoint.values)
    except (KeyError, TypeError, AttributeError, RuntimeError, IndexError) as error:  # all its digests are right
        raise ValueError(
            f"{run.folder.checkpoints}: the checkpoint of step {checkpoint.step} is of another run or version "
            f"({error!r:.500}). Remove it, to go on from the one before."
        ) from error


def _bring_back(run: Run, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
    changed = [name for name, digest in run.given.items() if values["given"].get(name) != digest]
    if changed:
        raise ValueError(
            f"{run.folder.path}: not what this run began with: {', '.join(changed)}. Bring that back, or begin another "
            "run in another folder."
        )
    num_processes, streams = run.accelerator.num_processes, values["streams"]
    if len(streams) != num_processes:
        raise ValueError(
            f"Cannot resume {run.folder.path}: it was started with {_processes(len(streams))}, and this command has "
            f"{_processes(num_processes)}. Use {_processes(len(streams))} to resume exactly, or choose another --out."
        )
    run.recognizer.load_state_dict(_frozen(run.recognizer) | _below("model/", tensors))
    run.objective.load_state_dict(_below("objective/", tensors))
    optimizer = restored(values["optimizer"], tensors)
    optimizer["state"] = {int(number): state for number, state in optimizer["state"].items()}
    run.optimizer.load_state_dict(optimizer)
    run.schedule.load_state_dict(values["schedule"])
    run.stream.load_state_dict(streams[run.accelerator.process_index])
    run.progress = Progress(**values["progress"])


def _processes(number: int) -> str:
    return f"{number} process{'es' if number > 1 else ''}"


def _frozen(recognizer: Recognizer) -> dict[str, Tensor]:
    """The parameters that are not trained: as pretrained, and large."""
    return {name: parameter.data for name, parameter in recognizer.named_parameters() if not parameter.requires_grad}


def _below(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def finish(run: Run) -> None:
    """The best model becomes the model of the run."""
    if run.accelerator.is_main_process:
        if math.isinf(run.progress.best):
            raise ValueError(f"{run.folder.path}: no epoch had a finite loss on the development data; see log.jsonl.")
        record = read_about(run.folder)
        write_json(run.folder.run, record | {"seconds": round(run.progress.seconds, 1), "steps": run.progress.step})
        os.replace(run.folder.best, run.folder.model)
        flush_to_disk(run.folder.path)
    run.accelerator.wait_for_everyone()
