"""Validation: decodes and scores the development set, sets group weights that follow it, and keeps the best model."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..decoding.decode import DecodingResult
from ..scoring.scores import Scores, score
from ..storage.json_files import append_line
from .sharding import whole_state
from .step_log import StepCallback, track_figures

if TYPE_CHECKING:
    from .run import Run


def validate(run: Run, callback: StepCallback) -> None:
    """Scores the development set, and saves the model if it is the best so far."""
    progress = run.progress
    progress.num_validations += 1
    record = _scores(run)
    value = record["dev_loss" if run.config.training.best_model_by == "dev-loss" else "worst_cer"]
    is_best = value < progress.best and not math.isnan(record["dev_loss"])
    progress.validations_since_best = 0 if is_best else progress.validations_since_best + 1
    if is_best:
        progress.best = value
        _keep_model(run)
    if run.accelerator.is_main_process:
        record |= {"is_best": is_best}
        append_line(run.folder.log, record)
        track_figures(run, record, {key: record[key] for key in ("cer", "lid")})
        callback(record)


def _keep_model(run: Run) -> None:
    """Saves the whole model; all processes must call it."""
    is_main = run.accelerator.is_main_process
    weights = whole_state(run.recognizer, is_kept=is_main) if run.is_sharded else None
    if is_main:
        run.recognizer.save(run.folder.best, run.vocabulary, weights)


class DevScores(NamedTuple):
    decoded: DecodingResult
    """Of the whole development set."""
    selection: Any
    """The utterances that select a model; the others move the group weights."""
    scores: Scores
    """Of the selection."""


def score_dev(run: Run) -> DevScores:
    """Decodes the development set and scores it; all processes must call it."""
    decoded = run.decode(run.dev, run.dev_dataset)
    selection = slice(None) if run.dev_halves is None else run.dev_halves.for_selection
    return DevScores(decoded, selection, score(np.array(decoded.predictions, dtype=object)[selection]))


def _scores(run: Run) -> dict[str, Any]:
    decoded, selection, scores = score_dev(run)
    worst_language, worst_cer = scores.worst() or (None, math.inf)
    losses = decoded.losses[selection]
    losses = losses[losses != math.inf]  # keeps NaN, a sign of divergence
    error_rates = {}
    if run.dev_halves is not None:
        error_rates = {"error_rates": run.dev_halves.error_rates(decoded.predictions)}
        run.objective.update_error_rates(error_rates["error_rates"])
    guarded = {}
    if run.guard is not None:
        num_batches = run.progress.step * run.config.optimizer.batches_per_step
        guarded = run.guard.update(run.objective, num_batches, decoded.predictions)
    return {
        "step": run.progress.step,
        "validation": run.progress.num_validations,
        **({"averaged_steps": num_averaged} if (num_averaged := run.weight_average.num_steps) else {}),
        "dev_loss": float(losses.mean()) if len(losses) else math.inf,
        "worst_cer": worst_cer,
        "worst_language": worst_language,
        "cer": scores.rates("cer"),
        "lid": scores.rates("lid"),
        **error_rates,
        **guarded,
    }
