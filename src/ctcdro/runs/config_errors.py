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
    "encoder_name": "model.encoder",
    "epochs": "training.num_batches",
    "eval_steps": "training.validate_every_batches",
    "fp16": "training.precision",
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
    "warmup_ratio": "optimizer.warmup_fraction",
    "warmup_steps": "optimizer.warmup_fraction",
    "workers": "data.num_workers",
}

EXPECTED = {
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "float_parsing": "a number",
    "float_type": "a number",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "int_type": "a whole number",
    "path_type": "a path",
    "string_type": "text",
    "tuple_type": "a list",
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
        ends = {line: "" if line.endswith((".", "?")) else "." for line in message.splitlines()}
        yield from (f"{key}{'.' if key else ''}{line}{end}" for line, end in ends.items())
    elif fault["type"] == "value_error":
        yield f"{key}: {message}."
    elif fault["type"] == "extra_forbidden":
        yield f"{key}: unknown key. {_suggest(path, kind)}"
    elif fault["type"] == "missing" and isinstance(path[-1], str):
        yield f"{key}: missing. {_description(path, kind)}"
    elif section is not None:
        yield f"{key}: must be a section with the keys {', '.join(section.model_fields)}{got}"
    elif fault["type"] in EXPECTED:
        yield f"{key}: must be {EXPECTED[fault['type']]}{got}"
    else:
        yield f"{key}: {message[:1].lower()}{message[1:]}{got}".replace("input should be", "must be").replace(
            "greater than or equal to", "at least"
        )


def _suggest(path: Sequence[Any], kind: type[BaseModel]) -> str:
    """The key that was probably meant; otherwise the keys of the section."""
    *parents, name = map(str, path)
    section = _section_at(path[:-1], kind) or kind
    siblings = list(section.model_fields)
    full_names = list(_all_keys(kind))
    by_name = {full.rsplit(".", 1)[-1]: full for full in reversed(full_names)}
    prefix = "run." if "run" in kind.model_fields else ""
    elsewhere = KNOWN_ELSEWHERE.get(name)
    meant = None
    if similar := get_close_matches(name, siblings, n=1, cutoff=0.75):
        meant = ".".join([*parents, similar[0]])
    elif name in by_name:
        meant = by_name[name]
    elif elsewhere is not None:
        meant = prefix + elsewhere if "." in elsewhere else elsewhere
    elif similar := get_close_matches(name, [*siblings, *by_name], n=1, cutoff=0.6):
        meant = ".".join([*parents, similar[0]]) if similar[0] in siblings else by_name[similar[0]]
    return f"Did you mean {meant}?" if meant else f"The keys are {', '.join(siblings)}."


def _all_keys(kind: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """All keys, sections before their parts, such as `model.lora.rank`."""
    for name, field in kind.model_fields.items():
        yield prefix + name
        section = _section_in(field.annotation)
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
        section = None if field is None else _section_in(field.annotation)
    return section


def _section_in(annotation: Any) -> type[BaseModel] | None:
    """The section in an annotation such as `LoraConfig | None`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(_section_in, get_args(annotation))), None)
