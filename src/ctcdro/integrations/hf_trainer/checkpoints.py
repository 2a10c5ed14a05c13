"""Checkpoints: the Trainer's files, the state of the objective and the position of the sampler."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file
from transformers import TrainerState, TrainingArguments
from transformers.trainer import TRAINER_STATE_NAME
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

from ...objectives.objective import Objective
from ...sampling.base import PlannedBatchSampler

logger = logging.getLogger(__name__)

OBJECTIVE_FILE = "ctcdro_objective.safetensors"
SAMPLER_FILE = "ctcdro_sampler.json"


def last_checkpoint(folder: str | Path) -> str | None:
    """The latest complete checkpoint in a folder; None if there is none.

    The Trainer writes `trainer_state.json` last. A process that is killed earlier leaves a folder without it, which
    `transformers.trainer_utils.get_last_checkpoint` would return.
    """
    prefix = f"{PREFIX_CHECKPOINT_DIR}-"
    numbers = [path.name.removeprefix(prefix) for path in Path(folder).glob(f"{prefix}*")]
    for number in sorted(map(int, filter(str.isdecimal, numbers)), reverse=True):
        path = Path(folder, f"{prefix}{number}")
        try:
            json.loads((path / TRAINER_STATE_NAME).read_text())
        except (OSError, ValueError):
            logger.warning(f"Skipping {path}: the checkpoint is incomplete. Remove it to silence this warning.")
        else:
            return str(path)
    return None


def save_state(folder: Path, objective: Objective, sampler: PlannedBatchSampler, epoch: float) -> None:
    """Writes the state of objective and sampler, and marks the checkpoint as incomplete until the Trainer is done."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / TRAINER_STATE_NAME).unlink(missing_ok=True)
    save_file(objective.state_dict(), folder / OBJECTIVE_FILE)
    # `TrainerState.epoch` is a fraction. The sampler also counts batches that the loader requested ahead of time.
    num_taken = round((epoch - sampler.epoch) * len(sampler))
    (folder / SAMPLER_FILE).write_text(json.dumps(sampler.state_dict(num_taken), indent=2))


def load_state(folder: Path, objective: Objective, sampler: PlannedBatchSampler, args: TrainingArguments) -> None:
    missing = [name for name in (OBJECTIVE_FILE, SAMPLER_FILE) if not (folder / name).exists()]
    if missing:
        raise ValueError(
            f"`resume_from_checkpoint`: {folder} has no {' and no '.join(missing)}, so the group weights would be "
            "lost. Resume from a checkpoint written by a RobustTrainer."
        )
    state = json.loads((folder / SAMPLER_FILE).read_text())
    # The Trainer itself skips finished batches, so the sampler must start with the first. This skips only utterance
    # numbers; no audio is read. An adaptive sampler yields empty lists in their place.
    sampler.load_state_dict({**state, "position": 0})
    _check_position(state, TrainerState.load_from_json(str(folder / TRAINER_STATE_NAME)).global_step, sampler, args)
    objective.load_state_dict(load_file(folder / OBJECTIVE_FILE))


def _check_position(
    state: dict[str, Any], global_step: int, sampler: PlannedBatchSampler, args: TrainingArguments
) -> None:
    """Rejects a checkpoint from which the Trainer, which counts steps, would not continue with the next batch."""
    _, world_size = sampler.rank_and_world_size
    accumulated = args.gradient_accumulation_steps
    epoch, step = divmod(global_step, -(-len(sampler) // accumulated))
    expected = epoch, 0 if args.ignore_data_skip else step * accumulated * world_size
    is_epoch_done = state["position"] >= sampler.num_batches
    saved = (state["epoch"] + 1, 0) if is_epoch_done else (state["epoch"], state["position"])
    if saved != expected:
        raise ValueError(
            f"`resume_from_checkpoint` was written after {saved[1]} batches of epoch {saved[0]}, but after its "
            f"{global_step} steps the Trainer would continue at batch {expected[1]} of epoch {expected[0]}, so batches "
            "would be repeated or skipped. Keep the number of processes times `gradient_accumulation_steps` as it was, "
            "and do not set `ignore_data_skip`."
        )
