"""The start of a run from another model (`model.init_from`), and what it knew before and after training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..models.recognizer import Recognizer, build
from ..models.starting_point import Copied, count_labels, read_starting_point
from ..runs.folder import find_model
from ..scoring.before_after import BeforeAfter
from ..speech.manifest import Manifest
from ..speech.shards.index import ShardIndex
from ..speech.vocabulary import Vocabulary
from ..storage.json_files import read_json, write_json
from .validation import score_dev

if TYPE_CHECKING:
    from ..runs.config import Config
    from .run import Run
    from .step_log import StepCallback


def build_recognizer(config: Config, train_data: Manifest | ShardIndex) -> tuple[Recognizer, Vocabulary, Copied | None]:
    """The recognizer of a run and its labels; and what it has from another model, if it starts from one."""
    recognizer, vocabulary, copied = _build(config, train_data)
    recognizer.settings = replace(recognizer.settings, longest_seconds=train_data.longest_duration)
    return recognizer, vocabulary, copied


def _build(config: Config, train_data: Manifest | ShardIndex) -> tuple[Recognizer, Vocabulary, Copied | None]:
    vocabulary = train_data.vocabulary()
    # The other keys of the section are keyword arguments of `build`.
    settings = config.model.model_dump(exclude={"encoder", "init_from", "init_head", "feature_cache_dir"})
    settings |= {"encoder": config.model.encoder, "seed": config.seed}
    if config.model.init_from is None:
        return build(vocabulary_size=len(vocabulary), **settings), vocabulary, None
    start = read_starting_point(str(find_model(config.model.init_from)))
    if config.model.init_head:
        vocabulary = start.grow(vocabulary)
    recognizer, copied = start.build(
        vocabulary, count_labels(vocabulary, train_data), copies_head=config.model.init_head, **settings
    )
    return recognizer, vocabulary, copied


def score_start(run: Run, callback: StepCallback) -> None:
    """Before the first step: passes what was copied to the callback, and scores the model that training starts from.

    All processes must call it.
    """
    copied = run.copied
    if copied is None or run.progress.step:
        return
    record: dict[str, Any] = {"step": 0, "started_from": copied.source, **copied._asdict()}
    if copied.has_head:
        cer = _known_rates(score_dev(run).scores.rates("cer"))
        record |= {"cer": cer}
        if run.accelerator.is_main_process:
            found = BeforeAfter(copied.source, copied.languages, cer, {})
            write_json(run.folder.before_after, found.to_record())
    if run.accelerator.is_main_process:
        callback(record)


def complete_before_after(run: Run, selected: Mapping[str, Any]) -> None:
    """At the end: adds the errors of the selected model, from the record of its validation."""
    if run.copied is not None and run.copied.has_head:
        found = BeforeAfter.from_record(read_json(run.folder.before_after))
        cer = _known_rates(selected["cer"])
        complete = replace(found, after={name: cer[name] for name in found.before if name in cer})
        write_json(run.folder.before_after, complete.to_record())


def _known_rates(rates: Mapping[str, float | None]) -> dict[str, float]:
    return {name: rate for name, rate in rates.items() if rate is not None}
