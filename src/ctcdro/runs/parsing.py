"""YAML files and `--set` overrides -> validated sections; errors name the file and the path of the key."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar, get_args

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from ..storage.atomic import atomic_write
from ..storage.json_files import parse_json
from ..storage.paths import PathLike

MAX_CHARACTERS = 1_000_000


class Section(BaseModel):
    """Base class of all sections: unknown keys are rejected, and values do not change once read."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, allow_inf_nan=False)

    def write(self, path: PathLike) -> None:
        """Writes all keys, including defaults."""
        with atomic_write(path) as file:
            yaml.safe_dump(self.model_dump(mode="json"), file, sort_keys=False, allow_unicode=True)


AnySection = TypeVar("AnySection", bound=Section)


def add_fields(**fields: Any) -> Callable[[type[AnySection]], type[AnySection]]:
    """Adds fields to a section that come from the registry of methods."""
    return lambda section: create_model(
        section.__name__, __base__=section, __doc__=section.__doc__, __module__=section.__module__, **fields
    )


def read_values(path: PathLike) -> dict[str, Any]:
    """Keys and values of a YAML file, not validated yet."""
    try:
        values = _parse_yaml(Path(path).read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path}: not a YAML file: {' '.join(str(error).split())}") from error
    if not isinstance(values, dict):
        raise ValueError(f"{path}: expected keys and values such as `dataset: folder`; got {values!r:.60}.")
    return values


def parse_section(kind: type[AnySection], values: dict[str, Any], overrides: Iterable[str], source: str) -> AnySection:
    """Validates keys and values after overrides such as "objective.step_size=1e-3". Errors name the path of the key."""
    try:
        values = _plain(values)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{source}: {error}") from error
    for override in overrides:
        _override(values, override)
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        faults = [f"{source}: {_fault(fault, kind)}" for fault in error.errors(include_url=False)]
        raise ValueError("\n".join(faults)) from error


def _parse_yaml(text: str) -> Any:
    """The value of a YAML text. Aliases are rejected: with them, a short text can expand to any size."""
    if len(text) > MAX_CHARACTERS:
        raise ValueError(f"more than {MAX_CHARACTERS:,} characters")
    try:
        return yaml.load(text, _Loader)
    except (yaml.YAMLError, RecursionError) as error:
        raise ValueError(str(error)) from error


class _Loader(yaml.SafeLoader):
    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases such as *name are not supported; write the value again")
        return super().compose_node(parent, index)


def _plain(values: Any) -> Any:
    """The values as in JSON: dates and keys are text."""
    return parse_json(json.dumps(values, default=str))


def by_key(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Nested values by dotted keys, such as `model.lora.rank`."""
    for key, value in values.items():
        if isinstance(value, dict):
            yield from by_key(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def refuse_changes(folder: Path, there: Section, here: Section) -> None:
    """Rejects a configuration that differs from the one in the folder."""
    before, now = (dict(by_key(one.model_dump(mode="json"))) for one in (there, here))
    changed = [key for key in before | now if before.get(key) != now.get(key)]
    if changed:
        changes = "; ".join(f"{key} was {before.get(key)}, now it is {now.get(key)}" for key in changed)
        raise ValueError(
            f"Cannot resume {folder}: the configuration changed ({changes}). Restore it, or choose another --out."
        )


def set_key(values: dict[str, Any], key: str, value: Any, source: str) -> None:
    """Sets a dotted key; creates sections that are missing or null, such as `model.lora`."""
    *sections, name = key.split(".")
    for section in sections:
        if values.get(section) is None:
            values[section] = {}
        values = values[section]
        if not isinstance(values, dict):
            raise ValueError(f"{source}: {section:.60} is a value and has no keys")
    values[name] = value


def _override(values: dict[str, Any], override: str) -> None:
    key, sign, text = override.partition("=")
    if not sign or not key.split(".")[-1]:
        raise ValueError(f"--set requires KEY=VALUE, such as objective.step_size=1e-3; got {override!r:.60}.")
    source = f"--set {override:.200}"
    try:
        value = _plain(_parse_yaml(text))
    except ValueError as error:
        raise ValueError(f"{source}: not a value: {' '.join(str(error).split())}") from error
    set_key(values, key, value, source)


def _fault(fault: Any, kind: type[Section]) -> str:
    path: Sequence[Any] = fault["loc"]
    key = f"{'.'.join(map(str, path)):.200}"
    if fault["type"] == "extra_forbidden":
        keys = _keys(path[:-1], kind)
        similar = get_close_matches(str(path[-1]), keys, n=1)
        hint = f"did you mean {similar[0]}? " if similar else ""
        return f"{key}: unknown key; {hint}The keys are {', '.join(keys)}."
    if fault["type"] == "missing":
        return f"{key}: missing."
    message = fault["msg"].removeprefix("Value error, ")
    shown = "" if fault["type"] == "value_error" else f"; got {fault['input']!r:.60}"
    return f"{key + ': ' if key else ''}{message[:1].lower()}{message[1:]}{shown}."


def _keys(path: Sequence[Any], kind: type[Section]) -> list[str]:
    section: Any = kind
    for name in path:
        if isinstance(name, str):  # and not a place in a list
            section = _section_in(section.model_fields[name].annotation)
    return list(section.model_fields)


def _section_in(annotation: Any) -> Any:
    """The section in an annotation such as `LoraConfig | None`."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return annotation
    return next(filter(None, map(_section_in, get_args(annotation))), None)
