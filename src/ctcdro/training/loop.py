"""The training loop, on accelerate.

    train(config, "run")        starts a run, or goes on with one that was stopped or killed

What one can rely on: a run that is killed at any moment and started again ends with the same model and the same group
weights as one that never was, to the byte, on a CPU and with as many threads. A step is `accumulate` batches, over all
processes; between steps come checkpoints, and looks at the development data.
"""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from torch import Tensor

from ..objectives.ctc import per_frame, per_label
from ..runs.folder import RunFolder
from ..runtime import bfloat16
from ..runtime.extras import extra
from ..runtime.progress import Track, untracked
from ..runtime.workers import explain_dead_processes
from ..storage.atomic import remove_leftovers
from ..storage.json_files import append_line
from ..storage.locks import lock_folder
from ..storage.paths import PathLike

with extra("train", "Training"):
    from ..decoding.decode import decode
    from ..runs.config import Config
    from ..scoring.scores import score
    from ..speech.audio import AudioError
    from ..speech.batch import Batch
    from .setup import Run, finish, is_first_process, num_steps, resume, save, start

if TYPE_CHECKING:
    from accelerate import Accelerator

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Watch(Protocol):
    """Is told of every step and epoch; what it does about it is its own affair."""

    def __call__(self, record: dict[str, Any]) -> None: ...


def train(config: Config, out: PathLike, watch: Watch = lambda record: None, track: Track = untracked) -> RunFolder:
    """Trains a model; goes on with an unfinished run.

    Args:
        config: the run.
        out: its folder.
        watch: is told of every step and epoch.
        track: shows what is done before the first step.

    Raises:
        ValueError: if `out` has a finished run or one of another configuration; if another process is writing to it;
            if the configuration asks for bfloat16 on a CPU where it does not work.
        FloatingPointError: if the gradient is not finite, before it does harm.
        AudioError: if audio cannot be read; with `batches.on_fault: skip`, if none can be read.
        OSError: if another process of the run is gone, or a worker that reads audio.
        KeyboardInterrupt: after Ctrl-C or SIGTERM, when a checkpoint is written.
    """
    if config.training.precision == "bf16" and not torch.cuda.is_available():
        bfloat16.require_cpu()
    is_first = is_first_process()  # it holds the folder for all processes of the run
    with lock_folder(out) if is_first else nullcontext():
        if is_first:
            remove_leftovers(out)
        run = start(config, RunFolder(out), track)
        try:
            with explain_dead_processes():
                return _train(run, watch)
        finally:
            run.accelerator.end_training()  # lets trackers write what they hold


def _train(run: Run, watch: Watch) -> RunFolder:
    config = run.config
    resume(run)
    started = time.monotonic() - run.progress.seconds
    with _asked_to_stop() as asked:
        while run.progress.step < num_steps(config) and not _is_enough(run):
            record = train_step(run)
            run.progress.seconds = time.monotonic() - started
            _log_step(run, record, watch)
            ends_epoch, stops = _ends_epoch(run), asked(run.accelerator)
            if ends_epoch:
                validate(run, watch)
            if ends_epoch or stops or run.progress.step % (config.training.checkpoint_every or math.inf) == 0:
                save(run)
            if stops:
                raise KeyboardInterrupt
    finish(run)
    return run.folder


def train_step(run: Run) -> dict[str, Any]:
    """One step of the optimizer."""
    config, accelerator = run.config, run.accelerator
    num_mine = config.optimizer.accumulate // accelerator.num_processes
    totals = torch.zeros(3, len(run.groups.names), device=accelerator.device)  # utterances, losses, seconds
    skipped: list[str] = []
    _seed_step(run)
    # In evaluation mode it adds losses up, as with even weights, and leaves the weights alone.
    run.objective.train(run.progress.num_batches >= config.objective.start_after)
    for number in range(num_mine):
        batch = _next_batch(run, skipped).to(accelerator.device)
        # Gradients are exchanged once a step, with those of the last batch.
        with accelerator.no_sync(run.forward) if number + 1 < num_mine else nullcontext():
            losses = losses_of(run, batch)
            accelerator.backward(run.objective(losses, batch.groups) / num_mine)
        kept = losses.detach() != math.inf
        seconds = run.durations[batch.indices].to(totals, non_blocking=True)
        totals.index_add_(1, batch.groups, torch.stack([kept.float(), losses.detach().where(kept, 0.0), seconds]))
    if config.batches.on_fault == "skip":
        skipped = run.gather(skipped)
    num_utterances, total_losses, seconds = accelerator.reduce(totals, "sum").tolist()
    norm = _clip(run, seconds)
    learning_rate = run.optimizer.param_groups[0]["lr"]
    run.optimizer.step()
    run.schedule.step()
    run.optimizer.zero_grad()
    run.progress.step += 1
    run.progress.num_batches += config.optimizer.accumulate
    means = [total / number if number else None for total, number in zip(total_losses, num_utterances, strict=True)]
    return {
        "step": run.progress.step,
        "loss": sum(total_losses) / max(1, sum(num_utterances)),
        "gradient_norm": norm,
        "learning_rate": learning_rate,
        "audio_seconds": sum(seconds),
        "weights": dict(zip(run.groups.names, run.objective.weights.tolist(), strict=True)),
        "losses": dict(zip(run.groups.names, means, strict=True)),
        **({"skipped": skipped} if skipped else {}),
    }


def losses_of(run: Run, batch: Batch) -> Tensor:
    """(B,) losses of a batch, normalized as configured. The host does not wait for the device."""
    output = run.forward(batch.inputs, batch.lengths)
    losses = run.recognizer.losses(output, batch.targets, batch.num_labels)
    if run.config.objective.normalize == "frames":
        return per_frame(losses, output.num_frames)
    return per_label(losses, batch.num_labels) if run.config.objective.normalize == "labels" else losses


def validate(run: Run, watch: Watch) -> None:
    """Looks at the development data at the end of an epoch, and keeps the model if it is the best so far."""
    config, progress, batches = run.config.training, run.progress, run.config.batches
    progress.epoch += 1
    decoded = decode(
        run.recognizer,
        run.vocabulary,
        run.dev,
        dataset=run.dev_dataset,
        forward=run.forward,
        batch_duration=batches.batch_duration,
        num_workers=batches.num_workers,
    )
    scores = score(decoded.predictions)
    worst_language, worst_cer = scores.worst() or (None, math.inf)
    losses = decoded.losses[decoded.losses != math.inf]  # NaN stays: the model has diverged
    record: dict[str, Any] = {
        "step": progress.step,
        "epoch": progress.epoch,
        "dev_loss": float(losses.mean()) if len(losses) else math.inf,
        "worst_cer": worst_cer,
        "worst_language": worst_language,
        "cer": scores.rates("cer"),
        "lid": scores.rates("lid"),
    }
    value = record["dev_loss" if config.select == "dev-loss" else "worst_cer"]
    record["is_best"] = value < progress.best and not math.isnan(record["dev_loss"])
    progress.epochs_since_best = 0 if record["is_best"] else progress.epochs_since_best + 1
    if record["is_best"]:
        progress.best = value
        if run.accelerator.is_main_process:
            run.recognizer.save(run.folder.best, run.vocabulary)
    if run.accelerator.is_main_process:
        append_line(run.folder.log, record)
        rates = {f"{kind}/{name}": rate for kind in ("cer", "lid") for name, rate in record[kind].items()}
        _track(run, record | rates)
        watch(record)


def _seed_step(run: Run) -> None:
    """Makes the random numbers of a step a function of the seed, the step and the process.

    Numbers drawn earlier, by validation or while the feature cache was filled, then do not affect training.
    """
    entropy = [run.config.seed, run.progress.step, run.accelerator.process_index]
    torch.manual_seed(int(np.random.SeedSequence(entropy).generate_state(1)[0]))


def _next_batch(run: Run, skipped: list[str]) -> Batch:
    """A batch of which something could be read; what could not is added to `skipped`."""
    for _ in range(len(run.stream) + 1):
        batch = next(run.stream)
        skipped += batch.skipped
        if batch.num_utterances:
            return batch
    raise AudioError(
        f"No audio can be read: all {len(run.stream):,} batches of an epoch were skipped. The first error: {skipped[0]}"
    )


def _clip(run: Run, seconds: list[float]) -> float:
    """Limits the norm of the gradient, and returns the norm before.

    The limit is multiplied by the step's mean weight relative to equal weights, so that a batch of one group keeps its
    weight even where every step is clipped.

    Args:
        seconds: (G,) audio of each group in the step.
    """
    limit = run.config.optimizer.clip_norm
    if limit is not None:
        limit *= relative_weight(run.objective.weights.tolist(), seconds)
    parameters = list(run.forward.parameters())
    total = torch.nn.utils.get_total_norm(one.grad for one in parameters if one.grad is not None)
    norm = float(total)
    if not math.isfinite(norm):
        raise FloatingPointError(
            f"step {run.progress.step + 1}: the gradient is not finite ({norm}). The last checkpoint is sound. Begin "
            "another run, with a lower optimizer.learning_rate or with training.precision fp32."
        )
    if limit is not None and norm > limit:
        torch.nn.utils.clip_grads_with_norm_(parameters, limit, total)
    return norm


def relative_weight(weights: Sequence[float], seconds: Sequence[float]) -> float:
    """The mean weight of a step's audio, relative to equal weights.

    Args:
        weights: (G,) on the simplex.
        seconds: (G,) audio of each group in the step.

    Example:
        >>> relative_weight([0.75, 0.25], seconds=[50.0, 0.0]), relative_weight([0.75, 0.25], seconds=[50.0, 50.0])
        (1.5, 1.0)
    """
    total = sum(weight * share for weight, share in zip(weights, seconds, strict=True))
    return len(weights) * total / sum(seconds)


def _ends_epoch(run: Run) -> bool:
    done = run.progress.num_batches // run.config.training.batches_per_epoch
    return done > run.progress.epoch or run.progress.step == num_steps(run.config)


def _is_enough(run: Run) -> bool:
    patience = run.config.training.stop_after
    return patience is not None and run.progress.epochs_since_best >= patience


def _log_step(run: Run, record: dict[str, Any], watch: Watch) -> None:
    if run.accelerator.is_main_process:
        weights = {key: record.pop(key) for key in ("weights", "losses")}
        append_line(run.folder.group_weights, {"step": record["step"], **weights})
        record["seconds"] = round(run.progress.seconds, 3)
        append_line(run.folder.log, record)
        flat = {f"{kind}/{name}": value for kind, values in weights.items() for name, value in values.items()}
        if record["step"] % run.config.training.track_every == 0:
            _track(run, record | flat)
        watch({**record, **weights})


def _track(run: Run, record: dict[str, Any]) -> None:
    figures = {name: value for name, value in record.items() if isinstance(value, int | float)}
    run.accelerator.log(figures, step=record["step"])


@contextmanager
def _asked_to_stop() -> Iterator[Callable[[Accelerator], bool]]:
    """Whether Ctrl-C or SIGTERM has come to any process; they end the run after a step, with a checkpoint."""
    came: list[int] = []
    handlers = {number: signal.signal(number, lambda number, _: came.append(number)) for number in STOP_SIGNALS}

    def asked(accelerator: Accelerator) -> bool:
        if accelerator.num_processes == 1:
            return bool(came)
        return bool(accelerator.reduce(torch.tensor(float(len(came)), device=accelerator.device), "sum") > 0)

    try:
        yield asked
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
