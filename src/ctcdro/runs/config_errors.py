"""Errors of pydantic -> one line per problem, with the path of the key, what is wrong, and what to do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

# Names in other toolkits -> our keys.
KNOWN_ELSEWHERE = {
    "accelerator": "the option --device",
    "batch": "sampling.batch_duration",
    "batch_seconds": "sampling.batch_duration",
    "clip_grad_norm": "optimizer.max_grad_norm",
    "device": "the option --device",
    "early_stopping": "training.early_stopping_patience",
    "ema": "training.average_last_fraction",
    "encoder_lr": "optimizer.encoder_learning_rate",
    "encoder_name": "model.encoder",
    "epochs": "training.num_batches",
    "eval_steps": "training.validate_every_batches",
    "fp16": "training.precision",
    "freeze_finetune_updates": "optimizer.freeze_encoder_batches",
    "grad_clip": "optimizer.max_grad_norm",
    "gradient_accumulation_steps": "optimizer.batches_per_step",
    "gradient_clip_val": "optimizer.max_grad_norm",
    "group": "data.group_by",
    "logging_steps": "training.log_every_steps",
    "loss": "objective.name",
    "lr": "optimizer.learning_rate",
    "lr_scheduler_type": "optimizer.lr_schedule",
    "max_epochs": "training.num_batches",
    "max_steps": "training.num_batches",
    "method": "objective.name",
    "mixed_precision": "training.precision",
    "num_epochs": "training.num_batches",
    "num_steps": "training.num_batches",
    "num_train_epochs": "training.num_batches",
    "out": "the option --out",
    "patience": "training.early_stopping_patience",
    "report_to": "training.trackers",
    "save_steps": "training.checkpoint_every_steps",
    "snr": "data.noise_snr_db",
    "specaug": "model.spec_augment",
    "speed_perturb": "data.speed_perturbation",
    "swa": "training.average_last_fraction",
    "warmup_ratio": "optimizer.warmup_fraction",
    "warmup_steps": "optimizer.warmup_fraction",
    "workers": "data.num_workers",
}

EXPECTED = {
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "dict_type": "keys and values",
    "float_parsing": "a number",
    "float_type": "a number",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "int_type": "a whole number",
    "path_type": "a path",
    "string_type": "text",
    "tuple_type": "a list",
}

WORDS = {
    "Input should be": "must be",
    "greater than or equal to": "at least",
    "less than or equal to": "at most",
}


def describe(error: ValidationError, kind: type[BaseModel]) -> list[str]:
    """All problems of a configuration, one line each."""
    return [line for fault in error.errors(include_url=False) for line in _describe(fault, kind)]


def _describe(fault: Any, kind: type[BaseModel]) -> Iterator[str]:
    path: Sequence[Any] = fault["loc"]
    key = f"{'.'.join(map(str, path)):.200}"
    section = _section_at(path, kind)
    message, got = fault["msg"].removeprefix("Value error, "), f"; got {fault['input']!r:.60}."
    if fault["type"] == "value_error" and section is not None:  # lines of `Section.problems`
        prefix = f"{key}." if key else ""
        yield from (f"{prefix}{line}{'' if line.endswith(('.', '?')) else '.'}" for line in message.splitlines())
    elif fault["type"] == "value_error":
        yield f"{key}: {message}."
    elif fault["type"] == "extra_forbidden":
        yield f"{key}: unknown key. {_suggest(path, fault['input'], kind)}"
    elif fault["type"] == "missing" and isinstance(path[-1], str):
        yield f"{key}: missing. {_description(path, kind)}"
    elif section is not None:
        yield f"{key}: must be a section with the keys {', '.join(section.model_fields)}{got}"
    else:
        yield f"{key}: {_expectation(fault['type'], message, fault.get('ctx', {}))}{got}"


def _expectation(kind: str, message: str, context: dict[str, Any]) -> str:
    if kind in EXPECTED:
        return f"must be {EXPECTED[kind]}"
    if kind == "missing":
        return "a value is missing at this place of the list"
    if kind in ("too_short", "string_too_short"):
        return "must not be empty"
    if kind == "too_long":
        return f"must have {context['max_length']} values"
    for before, after in WORDS.items():
        message = message.replace(before, after)
    return f"{message[:1].lower()}{message[1:]}"


def _suggest(path: Sequence[Any], value: Any, kind: type[BaseModel]) -> str:
    """The key that was probably meant; otherwise the keys of the section."""
    *parents, name = map(str, path)
    siblings = list((_section_at(path[:-1], kind) or kind).model_fields)
    own_names = {sibling: ".".join([*parents, sibling]) for sibling in siblings}
    all_names = {full.rsplit(".", 1)[-1]: full for full in reversed([*_all_keys(kind)])}
    run = "run." if "run" in kind.model_fields else ""
    elsewhere = {known: run + key if "." in key else key for known, key in KNOWN_ELSEWHERE.items()}
    steps = [(own_names, 0.75), (all_names, 1.0), (elsewhere, 1.0), (all_names | own_names, 0.6)]
    for names, cutoff in steps[:1] if isinstance(value, dict) else steps:  # a section is not a key of another one
        if similar := get_close_matches(name, names, n=1, cutoff=cutoff):
            return f"Did you mean {names[similar[0]]}?"
    return f"The keys are {', '.join(siblings)}."


def _all_keys(kind: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """All keys, sections before their parts, such as `model.lora.rank`."""
    for name, field in kind.model_fields.items():
        yield prefix + name
        section = section_in(field.annotation)
        if section is not None:
            yield from _all_keys(section, f"{prefix}{name}.")


def _description(path: Sequence[Any], kind: type[BaseModel]) -> str:
    section = _section_at(path[:-1], kind)
    description = section.model_fields[path[-1]].description if section else None
    return " ".join((description or "").split())


def _section_at(path: Sequence[Any], kind: type[BaseModel]) -> type[BaseModel] | None:
    """The section that a path leads to; None if it leads to a value."""
    section: type[BaseModel] | None = kind
    for name in path:
        if section is None or isinstance(name, int):  # a place in a list
            continue
        field = section.model_fields.get(name)
        section = None if field is None else section_in(field.annotation)
    return section


def section_in(annotation: Any) -> type[BaseModel] | None:
    """The section in an annotation such as `LoraConfig | None`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(section_in, get_args(annotation))), None)
