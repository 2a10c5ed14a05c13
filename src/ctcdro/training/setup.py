"""The setup of a run: creates its parts from a configuration."""

from __future__ import annotations

import hashlib
import warnings
from pathlib import Path

import torch

from ..objectives.methods import METHODS
from ..runs.folder import RunFolder, about_this_run
from ..runtime.devices import select_device
from ..runtime.extras import extra
from ..runtime.progress import Track, untracked
from ..runtime.ranks import is_distributed
from ..speech.manifest import Manifest
from ..storage.json_files import write_json
from ..storage.tensors import tensors_digest
from .checkpoint_files import has_checkpoints

with extra("train", "Training"):
    from accelerate import Accelerator, DistributedDataParallelKwargs
    from accelerate.state import AcceleratorState
    from accelerate.tracking import get_available_trackers

    from ..models.feature_cache import FeatureCache, FeatureRecognizer, speech_dataset
    from ..models.recognizer import Recognizer
    from ..runs.config import AUGMENTATION_KEYS, Config, read_config
    from ..runs.parsing import refuse_changes
    from ..speech.augmentation import AudioAugmentation
    from ..speech.dataset import check_audio_exists
    from .checkpoints import frozen_parameters
    from .dev_halves import split_dev
    from .endless_loader import BatchStream
    from .guard import read_guard
    from .host_weights import HostWeights
    from .optimizer import build_optimizer, build_schedule, num_steps
    from .run import Run
    from .sharding import check_launcher, shard_model
    from .start import build_recognizer
    from .training_data import TrainingData, read_manifest, read_training_data
    from .weight_average import WeightAverage


def set_up_run(config: Config, folder: RunFolder, track: Track = untracked, device: torch.device | None = None) -> Run:
    """Creates all parts of a run, in their state before the first step. `track` shows the filling of the cache."""
    accelerator = _start_accelerator(config, folder, device or select_device())
    train_data = read_training_data(config, track)
    dev = read_manifest(config.dataset / "dev.jsonl")
    with accelerator.main_process_first():
        _claim_folder(config, folder, accelerator)
    manifests = [one for one in (train_data.utterances, dev) if isinstance(one, Manifest)]
    if config.data.on_bad_audio == "fail":
        check_audio_exists(manifests)
    groups = train_data.groups
    guard = read_guard(config, groups.names)
    recognizer, vocabulary, copied = build_recognizer(config, train_data.utterances)
    if config.training.sharding == "none":  # otherwise it is moved part by part: the whole may not fit
        recognizer.to(accelerator.device)
    objective = METHODS[config.objective.name].create(
        len(groups.names), config.objective.settings, group_names=groups.names
    )
    cache = _fill_cache(config, recognizer, manifests, accelerator, track)
    augment = _augmentation(config, recognizer)
    train_dataset = train_data.dataset(config, recognizer, cache, vocabulary, augment)
    paths = [config.dataset / "dev.jsonl", *([guard.log] if guard else [])]
    host_weights = HostWeights(objective)
    input_digests = _input_digests(config, train_data, paths, recognizer)  # while the model is whole
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
        dev_dataset=speech_dataset(recognizer, cache, dev, vocabulary, on_bad_audio=config.data.on_bad_audio),
        dev_halves=split_dev(dev, config.data.group_by, groups.names) if objective.needs_error_rates else None,
        guard=guard,
        copied=copied,
        training_sample=train_data.sample(dev, recognizer, cache, vocabulary),
        vocabulary=vocabulary,
        groups=groups,
        durations_of=train_data.durations_of,
        input_digests=input_digests,
        recognizer=recognizer,
        wrapped_model=wrapped_model,
        host_weights=host_weights,
        objective=objective.to(accelerator.device),
        optimizer=optimizer,
        schedule=build_schedule(config, optimizer),
        stream=BatchStream(
            train_dataset,
            train_data.sampler(config, host_weights),
            config.data.num_workers,
            pin_memory=accelerator.device.type == "cuda",
        ),
        weight_average=WeightAverage(recognizer, num_steps(config), config.training.average_last_fraction),
    )


def _start_accelerator(config: Config, folder: RunFolder, device: torch.device) -> Accelerator:
    check_launcher(config)
    # accelerate keeps the precision and device of the first run in a process, and rejects others later.
    AcceleratorState._reset_state(reset_partial_state=not is_distributed())
    if device.index is not None:
        torch.cuda.set_device(device)  # accelerate uses this device in a single process
    accelerator = Accelerator(
        mixed_precision="bf16" if config.training.precision == "bf16" else "no",
        cpu=device.type == "cpu",
        log_with=list(config.training.trackers) or None,
        project_dir=folder.tracking,
        kwargs_handlers=[DistributedDataParallelKwargs()],
    )
    if accelerator.ddp_handler is not None and (
        accelerator.num_processes > 2 or config.optimizer.freeze_encoder_batches
    ):
        # Without it, torch would wait for gradients of an encoder that is frozen at the start. It would also rearrange
        # the gradients after the first step, and again after the first step of a resumed run. With three or more
        # processes, it would then add them in another order.
        accelerator.ddp_handler.find_unused_parameters = True
    if device.index is not None and accelerator.num_processes > 1:
        raise ValueError(f"Device {device} is for one process; with several, use cuda: each process has its own GPU.")
    _check_num_processes(config, accelerator.num_processes)
    return accelerator


def _check_num_processes(config: Config, num_processes: int) -> None:
    try:
        config.check_num_processes(num_processes)
    except ValueError as error:
        next_multiple = -(-config.optimizer.batches_per_step // num_processes) * num_processes
        raise ValueError(f"{error} Add --set optimizer.batches_per_step={next_multiple}.") from error


def _claim_folder(config: Config, folder: RunFolder, accelerator: Accelerator) -> None:
    """Creates the folder, or checks that it contains this run and that the run is not finished."""
    if folder.is_finished:
        raise ValueError(f"{folder.path} already contains a finished run. Choose another --out, or delete the folder.")
    if not has_checkpoints(folder.checkpoints):  # there is nothing to lose
        if accelerator.is_main_process:
            folder.path.mkdir(parents=True, exist_ok=True)
            config.write(folder.config)
    else:
        refuse_changes(folder.path, read_config(folder.config), config)


def _fill_cache(
    config: Config, recognizer: Recognizer, manifests: list[Manifest], accelerator: Accelerator, track: Track
) -> FeatureCache | None:
    """Computes the features of a frozen encoder, if a cache is configured."""
    if config.model.feature_cache_dir is None:
        return None
    cache = FeatureCache(config.model.feature_cache_dir, recognizer)
    for manifest in manifests:
        cache.fill(
            manifest,
            on_bad_audio=config.data.on_bad_audio,
            num_workers=config.data.num_workers,
            rank=accelerator.process_index,
            num_ranks=accelerator.num_processes,
            track=track,
        )
    accelerator.wait_for_everyone()
    return cache


def _augmentation(config: Config, recognizer: Recognizer) -> AudioAugmentation | None:
    data, encoder = config.data, recognizer.encoder
    if not any(getattr(data, key) for key in AUGMENTATION_KEYS):
        return None
    return AudioAugmentation(
        data.speed_perturbation,
        data.edge_silence_seconds,
        data.noise_snr_db,
        config.seed,
        encoder.min_samples,
        encoder.max_samples,
    )


def _wrap(
    config: Config, recognizer: Recognizer, accelerator: Accelerator
) -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    """The model, wrapped for devices, precision and processes, and its optimizer.

    The optimizer is not wrapped: accelerate only adds the scaling of losses in float16, and costs 3% of a short step.
    """
    if config.training.sharding == "full":
        return shard_model(recognizer, accelerator), build_optimizer(config, recognizer)
    module: torch.nn.Module = FeatureRecognizer(recognizer) if config.model.feature_cache_dir else recognizer
    compiled = torch.compile(module) if config.training.compile else module
    wrapped_model = accelerator.prepare(compiled)
    if isinstance(wrapped_model, torch.nn.parallel.DistributedDataParallel):
        wrapped_model.device_ids = None  # otherwise it copies lengths to the GPU, which forces a synchronization
        # Buffers are constants. If evaluation synchronized them, a rank without a batch would hang.
        wrapped_model.broadcast_buffers = False  # as an argument, it is deprecated in torch 2.13
        # Strides differ in dimensions of size 1, which does no harm.
        warnings.filterwarnings("ignore", "Grad strides do not match bucket view strides")
    return wrapped_model, build_optimizer(config, recognizer)


def _input_digests(
    config: Config, train_data: TrainingData, paths: list[Path], recognizer: Recognizer
) -> dict[str, str]:
    train_path, train_digest = train_data.digest()
    digests = {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}
    digests |= {str(train_path): train_digest}
    frozen = tensors_digest(frozen_parameters(recognizer))
    return digests | {f"the pretrained weights of {config.model.encoder}": frozen}


def _start_trackers(config: Config, folder: RunFolder, accelerator: Accelerator) -> None:
    names = config.training.trackers
    missing = [name for name in names if name not in {str(known) for known in get_available_trackers()}]
    if missing:
        raise ImportError(
            f"training.trackers: {', '.join(missing)} not installed. Install it, or remove it from training.trackers."
        )
    if names:
        folder.tracking.mkdir(parents=True, exist_ok=True)
    options = {"wandb": {"dir": str(folder.tracking)}, "mlflow": {"logging_dir": str(folder.tracking)}}
    accelerator.init_trackers("ctcdro", init_kwargs=options)
