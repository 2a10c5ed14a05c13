"""Diagnoses a run at the end of training: errors on training data next to those on dev, and what limits each language.

The selected model decodes a fixed sample of the training data, with as many utterances per language as dev, so the cost
is that of one validation. Everything else is read from the logs of the run. The sample depends on the dataset only, so
runs can be compared. A run that is killed and resumed writes the same files.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ..models.saving import WEIGHTS
from ..prepare.statistics import Statistics
from ..scoring.diagnosis import MAX_LISTED, Diagnosis, LanguageDiagnosis
from ..scoring.scores import count
from ..scoring.verdicts import TrainingUtterance, find_suspicious, judge, training_cer
from ..storage.atomic import atomic_write
from ..storage.json_files import json_line, read_log, write_json
from ..storage.tensors import load_tensors
from .sharding import load_whole_state
from .start import complete_before_after

if TYPE_CHECKING:
    from .run import Run

LAST_STEPS = 0.1
"""Share of the steps, at the end, over which the training loss is averaged."""


def diagnose(run: Run) -> None:
    """Writes the diagnosis of the selected model, whose weights replace those of the run, and the budget of a guard.

    All processes must call it.
    """
    if math.isinf(run.progress.best):  # there is no model
        return
    load_whole_state(run.recognizer, load_tensors(run.folder.best / WEIGHTS))
    by_language = _decode_sample(run)
    if not run.accelerator.is_main_process:
        return
    selected = [record for record in read_log(run.folder.log) if record.get("is_best")][-1]
    totals = _read_totals(run)
    languages = {
        language: _diagnose_language(
            by_language.get(language, []), selected["cer"].get(language), about, totals.get(language)
        )
        for language, about in run.training_sample.statistics.items()
    }
    with atomic_write(run.folder.suspicious) as file:
        for language in languages:
            file.writelines(map(json_line, _suspicious_records(language, by_language.get(language, []))))
    complete_before_after(run, selected)
    if run.guard is not None:
        write_json(run.folder.budget, run.guard.budget(run.config, selected).to_record())
    write_json(run.folder.diagnosis, Diagnosis(selected["step"], run.progress.step, languages).to_record())


def _decode_sample(run: Run) -> dict[str, list[TrainingUtterance]]:
    """The sampled utterances by language, without those that training skips: unreadable, or too long for CTC."""
    manifest = run.training_sample.manifest
    decoded = run.decode(manifest, run.training_sample.dataset)
    # Ids of training utterances need not be unique.
    counts = count([replace(one, id=str(index)) for index, one in enumerate(decoded.predictions)])
    edits, lengths = counts.characters.total.tolist(), counts.characters.reference.tolist()
    by_language: dict[str, list[TrainingUtterance]] = {}
    for index, (prediction, loss) in enumerate(zip(decoded.predictions, decoded.losses.tolist(), strict=True)):
        if math.isfinite(loss):
            utterance = TrainingUtterance(
                manifest[index].id or manifest.where(index),
                manifest.where(index),
                prediction.text,
                prediction.hyp_text,
                edits[index],
                lengths[index],
                loss,
            )
            by_language.setdefault(prediction.lang, []).append(utterance)
    return by_language


def _suspicious_records(language: str, utterances: list[TrainingUtterance]) -> Iterator[dict[str, Any]]:
    for one in find_suspicious(utterances):
        loss = round(one.loss_per_character, 3)
        texts = {"text": one.text, "hyp_text": one.hypothesis}
        yield {"id": one.id, "lang": language, "where": one.where, "loss_per_character": loss, **texts}


@dataclass
class LanguageTotals:
    """Sums over the steps of a run, for the groups of one language."""

    num_steps: int
    duration: float = 0.0
    weight: float = 0.0
    final_weight: float = 0.0
    last_loss: float = 0.0
    """In the last steps, like the next two."""
    last_characters: int = 0
    last_duration: float = 0.0

    def add(self, record: dict[str, Any], group: str, is_last: bool) -> None:
        # Earlier versions did not log the amounts of data; a run that they started has no figures that need them.
        num_utterances, num_characters, duration = (
            record.get(key, {}).get(group, 0) for key in ("num_utterances", "num_characters", "durations")
        )
        weight = record["weights"][group]
        self.weight += weight
        self.duration += duration
        if record["step"] == self.num_steps:
            self.final_weight += weight
        if is_last:
            self.last_loss += (record["losses"][group] or 0.0) * num_utterances
            self.last_characters += num_characters
            self.last_duration += duration


def _read_totals(run: Run) -> dict[str, LanguageTotals]:
    """The totals of each language; empty if a group has several languages."""
    languages, num_steps = run.training_sample.languages, run.progress.step
    totals = {language: LanguageTotals(num_steps) for language in languages.values()}
    num_last = math.ceil(LAST_STEPS * num_steps)
    is_plain = run.config.objective.loss_normalization == "none"  # otherwise losses are not those of texts
    for record in read_log(run.folder.group_weights):
        for group, language in languages.items():
            totals[language].add(record, group, is_plain and record["step"] > num_steps - num_last)
    return totals


def _diagnose_language(
    utterances: list[TrainingUtterance], dev_cer: float | None, about: Statistics, totals: LanguageTotals | None
) -> LanguageDiagnosis:
    found = find_suspicious(utterances)
    return LanguageDiagnosis(
        verdicts=judge(utterances, dev_cer),
        train_cer=training_cer(utterances),
        dev_cer=dev_cer,
        loss_per_character=totals.last_loss / totals.last_characters if totals and totals.last_characters else None,
        loss_per_second=totals.last_loss / totals.last_duration if totals and totals.last_duration else None,
        characters_per_second=about.characters_per_second,
        final_weight=totals.final_weight if totals else None,
        mean_weight=totals.weight / totals.num_steps if totals else None,
        minutes=60 * about.hours,
        passes=totals.duration / (3600 * about.hours) if totals and totals.duration else None,
        num_sampled=len(utterances),
        num_suspicious=len(found),
        suspicious=[one.id for one in found[:MAX_LISTED]],
    )
