"""The contents of a checkpoint, and how a run resumes from it.

A checkpoint contains everything that resuming needs besides the configuration: model, optimizer, objective, averaged
weights, position in the data, and the numbers of `Progress`. Random numbers need no state: each step seeds the
generators.
"""

from __future__ import annotations

import logging
import math
import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from torch import Tensor

from ..runs.folder import forget_after, read_about
from ..runtime.ranks import gather
from ..storage.atomic import flush_to_disk
from ..storage.json_files import write_json
from .checkpoint_files import Checkpoint, load_checkpoint, optimizer_state, optimizer_tensors, save_checkpoint
from .run import Progress, Run

if TYPE_CHECKING:
    from ..models.recognizer import Recognizer

logger = logging.getLogger(__name__)


def save(run: Run) -> None:
    """Writes a checkpoint; all processes must call it."""
    # Positions differ between processes if they skip batches of unreadable audio.
    streams = gather([run.stream.state_dict()])
    folder, keep = run.folder.checkpoints, run.config.training.keep_checkpoints
    if run.is_sharded:
        from .checkpoint_shards import save_shards

        save_shards(folder, _contents(run, streams), keep)
    elif run.accelerator.is_main_process:
        save_checkpoint(folder, _contents(run, streams), keep)
    run.accelerator.wait_for_everyone()


def _contents(run: Run, streams: list[dict[str, Any]]) -> Checkpoint:
    optimizer = run.optimizer.state_dict()
    frozen = frozen_parameters(run.recognizer)
    tensors = {
        **{f"model/{name}": tensor for name, tensor in run.recognizer.state_dict().items() if name not in frozen},
        **{f"objective/{name}": tensor for name, tensor in run.objective.state_dict().items()},
        **{f"optimizer/{name}": tensor for name, tensor in optimizer_tensors(optimizer).items()},
        **{f"weight_average/{name}": tensor for name, tensor in run.weight_average.state_dict().items()},
    }
    values = {
        "optimizer": optimizer["param_groups"],
        "schedule": run.schedule.state_dict(),
        "streams": streams,
        "progress": asdict(run.progress),
        "input_digests": run.input_digests,
    }
    return Checkpoint(run.progress.step, tensors, values)


def resume(run: Run) -> None:
    """Restores the newest intact checkpoint, if there is one."""
    checkpoint = _load(run)
    if run.accelerator.is_main_process:
        for path in (run.folder.log, run.folder.group_weights):
            forget_after(path, checkpoint.step if checkpoint else 0)
    run.accelerator.wait_for_everyone()
    if checkpoint is None:
        return
    try:
        _restore(run, checkpoint.tensors, checkpoint.values)
    except (KeyError, TypeError, AttributeError, RuntimeError, IndexError) as error:  # although its checksums match
        raise ValueError(
            f"{run.folder.checkpoints}: the checkpoint of step {checkpoint.step} is from another run or version "
            f"({error!r:.500}). Delete it to resume from the previous one."
        ) from error


def _load(run: Run) -> Checkpoint | None:
    if not run.is_sharded:
        return load_checkpoint(run.folder.checkpoints)
    from .checkpoint_shards import load_shards

    parameters = [parameter for group in run.optimizer.param_groups for parameter in group["params"]]
    return load_shards(
        run.folder.checkpoints,
        {
            f"{part}/{name}": tensor
            for part in ("model", "weight_average")
            for name, tensor in run.recognizer.state_dict().items()
        }
        | {
            f"optimizer/{number}/{name}": parameter
            for name in ("exp_avg", "exp_avg_sq")
            for number, parameter in enumerate(parameters)
        },
    )


def _restore(run: Run, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
    changed = [name for name, digest in run.input_digests.items() if values["input_digests"].get(name) != digest]
    if changed:
        raise ValueError(
            f"Cannot resume {run.folder.path}: {', '.join(changed)} changed since the run started. Restore the "
            "original, or choose another --out."
        )
    stream = _stream_state(run, values["streams"])
    run.recognizer.load_state_dict(frozen_parameters(run.recognizer) | _with_prefix("model/", tensors))
    run.objective.load_state_dict(_with_prefix("objective/", tensors))
    run.optimizer.load_state_dict(optimizer_state(_with_prefix("optimizer/", tensors), values["optimizer"]))
    run.schedule.load_state_dict(values["schedule"])
    run.stream.load_state_dict(stream)
    run.weight_average.load_state_dict(_with_prefix("weight_average/", tensors))
    run.progress = Progress(**values["progress"])


def _stream_state(run: Run, streams: list[dict[str, Any]]) -> dict[str, Any]:
    """The position of this process in the data. If the number of processes changed, all continue at the earliest."""
    num_processes = run.accelerator.num_processes
    if len(streams) == num_processes:
        return streams[run.accelerator.process_index]
    if not run.is_sharded:
        raise ValueError(
            f"Cannot resume {run.folder.path}: the number of processes changed ({len(streams)} → {num_processes}). "
            "Use the same number, or choose another --out."
        )
    if run.accelerator.is_main_process:
        logger.warning(
            "The number of processes changed (%d → %d). Weights, optimizer and group weights are restored exactly, and "
            "batches continue at the same position. Random numbers such as dropout are not those of one run.",
            len(streams),
            num_processes,
        )
    return min(streams, key=lambda state: (state["epoch"], state["position"]))


def publish_best_model(run: Run) -> None:
    """Copies the best model to the folder `model`, which marks the run as finished."""
    if run.accelerator.is_main_process:
        if math.isinf(run.progress.best):
            raise ValueError(
                f"{run.folder.path}: training finished, but the development loss was never finite, so there is no "
                "model to keep. Check log.jsonl; transcripts may be too long for the model's frame rate (`ctcdro check "
                "--frame-rate`)."
            )
        record = read_about(run.folder)
        write_json(run.folder.run, record | {"seconds": round(run.progress.seconds, 1), "steps": run.progress.step})
        os.replace(run.folder.best, run.folder.model)
        flush_to_disk(run.folder.path)
    run.accelerator.wait_for_everyone()


def frozen_parameters(recognizer: Recognizer) -> dict[str, Tensor]:
    """Parameters that are not trained, which checkpoints omit."""
    return {name: parameter.data for name, parameter in recognizer.named_parameters() if not parameter.requires_grad}


def _with_prefix(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
