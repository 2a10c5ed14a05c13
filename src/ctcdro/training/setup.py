"""The setup of a run: a configuration -> its parts, one step each."""

from __future__ import annotations

import hashlib
import math
from functools import partial
from pathlib import Path
from typing import Any

import torch

from ..objectives.methods import METHODS
from ..objectives.objective import Objective
from ..runs.folder import RunFolder, about_this_run
from ..runtime.extras import extra
from ..runtime.progress import Track, untracked
from ..sampling.base import PlannedBatchSampler
from ..sampling.samplers import GroupUniformBatchSampler, LengthMatchedBatchSampler, SimilarLengthBatchSampler
from ..speech.manifest import Groups, Manifest
from ..speech.vocabulary import Vocabulary
from ..storage.json_files import write_json
from ..storage.tensors import tensors_digest
from .checkpoints import has_checkpoints

with extra("train", "Training"):
    from accelerate import Accelerator, DistributedDataParallelKwargs
    from accelerate.state import AcceleratorState
    from accelerate.tracking import get_available_trackers

    from ..models.feature_cache import FeatureCache, FeatureRecognizer, speech_dataset
    from ..models.recognizer import Recognizer, build
    from ..runs.config import Config, read_config
    from ..runs.parsing import differences
    from ..speech.dataset import SpeechDataset, check_audio_exists
    from .endless_loader import BatchStream
    from .state import Run, frozen_parameters


def set_up_run(config: Config, folder: RunFolder, track: Track = untracked) -> Run:
    """Creates all parts of a run, as they are before its first step; `track` shows how the feature cache is filled."""
    accelerator = _start_accelerator(config, folder)
    paths = [config.dataset / f"{split}.jsonl" for split in ("train", "dev")]
    train_data, dev = _read_manifests(paths, config)
    with accelerator.main_process_first():
        _claim_folder(config, folder, accelerator)
    vocabulary = Vocabulary.of(
        (utterance.text for utterance in train_data), (utterance.lang for utterance in train_data)
    )
    groups = train_data.groups(config.batches.group_by)
    recognizer = _build_recognizer(config, vocabulary).to(accelerator.device)
    train_dataset, dev_dataset = _datasets(config, recognizer, train_data, dev, groups, vocabulary, accelerator, track)
    wrapped_model, optimizer = _wrap(config, recognizer, accelerator)
    if accelerator.is_main_process and not has_checkpoints(folder.checkpoints):
        vocabulary.save(folder.vocabulary)
        write_json(folder.run, about_this_run(config.seed, accelerator.num_processes))
    _start_trackers(config, folder, accelerator)
    return Run(
        config=config,
        folder=folder,
        accelerator=accelerator,
        dev=dev,
        dev_dataset=dev_dataset,
        vocabulary=vocabulary,
        groups=groups,
        durations=torch.from_numpy(train_data.durations),
        input_digests=_input_digests(config, paths, recognizer),
        recognizer=recognizer,
        wrapped_model=wrapped_model,
        objective=_build_objective(config, groups).to(accelerator.device),
        optimizer=optimizer,
        schedule=_build_schedule(config, optimizer),
        stream=BatchStream(train_dataset, _build_sampler(config, train_data, groups), config.batches.num_workers),
    )


def num_steps(config: Config) -> int:
    """Steps of a whole run."""
    return config.training.epochs * config.training.batches_per_epoch // config.optimizer.accumulate


def learning_rate_factor(step: int, total: int, schedule: str, warmup: float) -> float:
    """What the learning rate is multiplied by at a step.

    Example:
        >>> [round(learning_rate_factor(step, 10, "linear", 0.2), 3) for step in (0, 1, 2, 6, 10)]
        [0.5, 1.0, 1.0, 0.5, 0.0]
    """
    num_warmup = round(warmup * total)
    if step < num_warmup:
        return (step + 1) / num_warmup
    done = (step - num_warmup) / max(1, total - num_warmup)
    return {"constant": 1.0, "linear": 1.0 - done, "cosine": 0.5 * (1.0 + math.cos(math.pi * done))}[schedule]


def _start_accelerator(config: Config, folder: RunFolder) -> Accelerator:
    # accelerate keeps the precision of the first run of a process for all later ones, and rejects another.
    AcceleratorState._reset_state()
    accelerator = Accelerator(
        mixed_precision="bf16" if config.training.precision == "bf16" else "no",
        cpu=not torch.cuda.is_available(),
        log_with=list(config.training.trackers) or None,
        project_dir=folder.tracking,
        # Buffers are constants. If evaluation exchanged them, too, a rank without a batch would wait forever.
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
    return accelerator


def _read_manifests(paths: list[Path], config: Config) -> list[Manifest]:
    for path in paths:
        if not path.is_file():
            raise ValueError(f"dataset: {path} does not exist; create a dataset with `ctcdro prepare`.")
    manifests = [Manifest.read(path) for path in paths]
    if config.batches.on_fault == "stop":
        check_audio_exists(manifests)
    return manifests


def _claim_folder(config: Config, folder: RunFolder, accelerator: Accelerator) -> None:
    """Creates the folder, or checks that the run in it is this one and not finished."""
    if folder.is_finished:
        raise ValueError(f"{folder.path} has a finished run; choose another --out, or remove it.")
    if not has_checkpoints(folder.checkpoints):  # nothing is lost
        if accelerator.is_main_process:
            folder.path.mkdir(parents=True, exist_ok=True)
            config.write(folder.config)
    elif changes := differences(read_config(folder.config), config):
        raise ValueError(
            f"Cannot resume {folder.path}: the configuration changed ({changes}). Restore it, or choose another --out."
        )


def _build_recognizer(config: Config, vocabulary: Vocabulary) -> Recognizer:
    model = config.model
    return build(
        model.encoder,
        len(vocabulary),
        head=model.head,
        freeze_encoder=model.freeze_encoder,
        lora=model.lora.model_dump() if model.lora else None,
        gradient_checkpointing=model.gradient_checkpointing,
        spec_augment=model.spec_augment,
        seed=config.seed,
    )


def _datasets(
    config: Config,
    recognizer: Recognizer,
    train_data: Manifest,
    dev: Manifest,
    groups: Groups,
    vocabulary: Vocabulary,
    accelerator: Accelerator,
    track: Track,
) -> tuple[SpeechDataset, SpeechDataset]:
    """The training and development sets as audio, or as features of a frozen encoder, which are computed first."""
    cache = FeatureCache(config.model.feature_cache, recognizer) if config.model.feature_cache else None
    if cache is not None:
        for manifest in (train_data, dev):
            cache.fill(
                manifest,
                skip_faults=config.batches.on_fault == "skip",
                num_workers=config.batches.num_workers,
                rank=accelerator.process_index,
                num_ranks=accelerator.num_processes,
                track=track,
            )
        accelerator.wait_for_everyone()
    dataset_of = partial(speech_dataset, recognizer, cache, on_fault=config.batches.on_fault)
    return dataset_of(train_data, vocabulary, group_numbers=groups.numbers), dataset_of(dev, vocabulary)


def _wrap(
    config: Config, recognizer: Recognizer, accelerator: Accelerator
) -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    """The model and its optimizer, as wrapped for devices, precision and processes."""
    module: torch.nn.Module = FeatureRecognizer(recognizer) if config.model.feature_cache else recognizer
    compiled = torch.compile(module) if config.training.compile else module
    wrapped_model, optimizer = accelerator.prepare(compiled, build_optimizer(config, recognizer))
    if isinstance(wrapped_model, torch.nn.parallel.DistributedDataParallel):
        wrapped_model.device_ids = None  # otherwise it copies lengths to the GPU, and the host waits for them
    return wrapped_model, optimizer


def build_optimizer(config: Config, model: torch.nn.Module) -> torch.optim.Optimizer:
    """Adam or AdamW for the parameters that are trained."""
    settings = config.optimizer
    optimizer = torch.optim.AdamW if settings.decoupled else torch.optim.Adam
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    return optimizer(
        trained, lr=settings.learning_rate, betas=settings.betas, weight_decay=settings.weight_decay, fused=True
    )


def _build_schedule(config: Config, optimizer: torch.optim.Optimizer) -> torch.optim.lr_scheduler.LambdaLR:
    total, settings = num_steps(config), config.optimizer
    return torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: learning_rate_factor(step, total, settings.schedule, settings.warmup)
    )


def _build_objective(config: Config, groups: Groups) -> Objective:
    objective = config.objective
    return METHODS[objective.name].create(len(groups.names), objective.settings, group_names=groups.names)


def _build_sampler(config: Config, manifest: Manifest, groups: Groups) -> PlannedBatchSampler:
    batches, seed = config.batches, config.seed
    if batches.sampler == "similar-length":
        return SimilarLengthBatchSampler(manifest.durations, batches.batch_size, seed=seed)
    if batches.sampler == "group-uniform":
        return GroupUniformBatchSampler(groups.numbers, batches.batch_size, seed=seed)
    return LengthMatchedBatchSampler(
        manifest.durations,
        groups.numbers,
        batches.batch_duration,
        balance=batches.balance,
        seed=seed,
        group_names=groups.names,
    )


def _input_digests(config: Config, paths: list[Path], recognizer: Recognizer) -> dict[str, str]:
    manifests = {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}
    weights = {f"the pretrained weights of {config.model.encoder}": tensors_digest(frozen_parameters(recognizer))}
    return manifests | weights


def _start_trackers(config: Config, folder: RunFolder, accelerator: Accelerator) -> None:
    names = config.training.trackers
    missing = [name for name in names if name not in {str(known) for known in get_available_trackers()}]
    if missing:
        raise ImportError(
            f"training.trackers: {', '.join(missing)} not installed. Install it, or remove it from training.trackers."
        )
    options: dict[str, Any] = {
        "wandb": {"dir": str(folder.tracking)},
        "mlflow": {"logging_dir": str(folder.tracking)},
    }
    if names:
        folder.tracking.mkdir(parents=True, exist_ok=True)
    accelerator.init_trackers("ctcdro", init_kwargs={name: options[name] for name in names if name in options})
