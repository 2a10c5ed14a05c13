"""The training loop, on accelerate.

Guarantee: a run that is killed at any point and resumed ends with byte-identical model and group weights, on a CPU with
the same number of threads. A step has `optimizer.batches_per_step` batches, over all processes; checkpoints and
validation take place between steps.
"""

from __future__ import annotations

import math
import time
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ..runs.folder import RunFolder
from ..runtime import bfloat16
from ..runtime.devices import select_device
from ..runtime.extras import extra
from ..runtime.progress import Track, untracked
from ..runtime.ranks import is_first_process, outlive_model
from ..runtime.workers import explain_dead_processes
from ..storage.atomic import remove_leftovers
from ..storage.locks import lock_folder
from ..storage.paths import PathLike

with extra("train", "Training"):
    from ..speech.audio import AudioError
    from .checkpoints import publish_best_model, resume, save
    from .final_diagnosis import diagnose
    from .gradient_norm import clip_gradient, gradient_norm
    from .optimizer import learning_rates, num_frozen_steps, num_steps
    from .setup import set_up_run
    from .start import score_start
    from .step_log import StepCallback, StepTotals, log_step, make_record
    from .validation import validate

if TYPE_CHECKING:
    from ..runs.config import Config
    from ..speech.batch import Batch
    from .run import Run

# Epochs without readable audio before a run stops. More than one: with several processes, groups take turns, and in one
# epoch a process may have only batches of an unreadable group.
MAX_EMPTY_EPOCHS = 10


def train(
    config: Config,
    out: PathLike,
    callback: StepCallback = lambda record: None,
    track: Track = untracked,
    device: str = "auto",
) -> RunFolder:
    """Trains a model; resumes an unfinished run.

    Args:
        callback: called with the record of every step and validation, and before with what was copied from another
            model.
        track: shows the progress of the preparation before the first step.
        device: "cpu", "cuda", "cuda:1", or "auto" for a GPU if there is one. With several processes, each has its own
            GPU.

    Raises:
        ValueError: if `out` contains a finished run or a run with another configuration, or is in use; if there is no
            such device; or if bfloat16 does not work on this CPU.
        FloatingPointError: if the gradient is NaN or infinite, before the step is taken.
        AudioError: if audio cannot be read; with `data.on_bad_audio: skip`, only if none can be read.
        OSError: if another process of the run, or a data-loading worker, died.
        KeyboardInterrupt: after Ctrl-C or SIGTERM, once a checkpoint is written.
    """
    chosen = select_device(device)
    if config.training.precision == "bf16" and chosen.type == "cpu":
        bfloat16.require_cpu()
    is_first = is_first_process()  # it locks the folder for all processes of the run
    with lock_folder(out) if is_first else nullcontext():
        if is_first:
            remove_leftovers(out)
        run = set_up_run(config, RunFolder(out), track, chosen)
        try:
            with explain_dead_processes():
                run_steps(run, callback)
        finally:
            outlive_model()
            run.accelerator.end_training()  # flushes trackers
    return run.folder


def run_steps(run: Run, callback: StepCallback) -> None:
    """Takes the remaining steps of a run."""
    resume(run)
    run.host_weights.refresh()
    score_start(run, callback)
    started = time.monotonic() - run.progress.seconds
    with run.stop_signals:
        while run.progress.step < num_steps(run.config) and not _is_out_of_patience(run):
            record = train_step(run)
            run.progress.seconds = time.monotonic() - started
            log_step(run, record, callback)
            is_due, stops = _validation_is_due(run), run.stop_signals.stops(run.accelerator.num_processes)
            if is_due:
                with run.weight_average.applied():
                    validate(run, callback)
                run.host_weights.refresh()
            if is_due or stops or run.progress.step % (run.config.training.checkpoint_every_steps or math.inf) == 0:
                save(run)
            if stops:
                raise KeyboardInterrupt
    diagnose(run)
    publish_best_model(run)


def train_step(run: Run) -> dict[str, Any]:
    """Takes one optimizer step, and returns its record for the log.

    The host waits for the device once: when it reads the figures of the step, after the backward pass. It then writes
    the log and prepares the next batch while the device updates the model.
    """
    _seed_step(run)
    run.recognizer.trains_encoder = run.progress.step >= num_frozen_steps(run.config)
    totals = StepTotals(run)
    num_batches = run.config.optimizer.batches_per_step // run.accelerator.num_processes
    for number in range(num_batches):
        batch = _next_batch(run, totals.skipped).to(run.accelerator.device)
        # Gradients are synchronized once per step, in the backward pass of the last batch.
        with run.accelerator.no_sync(run.wrapped_model) if number + 1 < num_batches else nullcontext():
            losses = run.losses(batch)
            objective = run.objective(losses, batch.groups, batch.num_characters)
            run.accelerator.backward(objective / num_batches)
        totals.add(batch, losses.detach())
    norm = gradient_norm(run)
    figures = totals.read(norm)
    clip_gradient(run, norm, figures)
    rates = learning_rates(run.optimizer)
    run.optimizer.step()
    run.schedule.step()
    run.optimizer.zero_grad()
    run.progress.step += 1
    run.weight_average.update(run.progress.step)
    return {
        "step": run.progress.step,
        "gradient_norm": figures.gradient_norm,
        **rates,
        **make_record(run, figures),
    }


def _seed_step(run: Run) -> None:
    """Seeds the generators with the seed, the step and the process.

    Random numbers drawn by validation, or while the feature cache is filled, then do not affect training.
    """
    entropy = [run.config.seed, run.progress.step, run.accelerator.process_index]
    seed = int(np.random.SeedSequence(entropy).generate_state(1)[0])
    # `torch.manual_seed` does the same, but formats a stack trace for every kind of device that is absent: 0.5 ms.
    torch.default_generator.manual_seed(seed)
    if run.accelerator.device.type == "cuda":
        torch.cuda.manual_seed(seed)


def _next_batch(run: Run, skipped: list[str]) -> Batch:
    """The next batch with readable audio. Errors of unreadable audio are added to `skipped`."""
    for _ in range(MAX_EMPTY_EPOCHS * len(run.stream) + 1):
        batch = next(run.stream)
        skipped += batch.skipped
        if batch.num_utterances:
            return batch
    raise AudioError(
        f"No audio can be read: all {len(run.stream):,} batches of {MAX_EMPTY_EPOCHS} epochs were skipped. The first "
        f"error: {skipped[0]}"
    )


def _validation_is_due(run: Run) -> bool:
    num_batches = run.progress.step * run.config.optimizer.batches_per_step
    num_due = num_batches // run.config.training.validate_every_batches
    return num_due > run.progress.num_validations or run.progress.step == num_steps(run.config)


def _is_out_of_patience(run: Run) -> bool:
    return run.progress.validations_since_best >= (run.config.training.early_stopping_patience or math.inf)
