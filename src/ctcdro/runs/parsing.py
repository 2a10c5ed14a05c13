"""YAML files and `--set` overrides -> validated sections; errors name the file and the path of the key.

Relative paths in a file are relative to its folder, and those of `--set` to the working directory. Validated sections
have absolute paths.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Self, TypeAlias, TypeVar

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError, create_model, model_validator

from ..storage.atomic import atomic_write
from ..storage.json_files import parse_json
from ..storage.paths import PathLike
from .config_errors import describe

MAX_CHARACTERS = 1_000_000


class Section(BaseModel):
    """Base class of all sections: unknown keys are rejected, and values do not change once read."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, allow_inf_nan=False)

    def problems(self) -> Iterator[str]:
        """Invalid combinations, in the form "key: what is wrong and what to do", with keys relative to the section."""
        return iter(())

    def notes(self) -> Iterator[str]:
        """Effects of valid values that are easy to miss, in the same form."""
        return iter(())

    @model_validator(mode="after")
    def _reject_problems(self) -> Self:
        if problems := list(self.problems()):
            raise ValueError("\n".join(problems))
        return self

    def to_yaml(self) -> str:
        """All keys, including defaults."""
        return yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False, allow_unicode=True)

    def write(self, path: PathLike) -> None:
        """Writes all keys, including defaults."""
        with atomic_write(path) as file:
            file.write(self.to_yaml())


# Keys with paths, in any section.
FOLDER_KEYS, MODEL_KEYS = ("dataset", "feature_cache_dir", "baseline"), ("encoder", "init_from")
# Keys whose value is a mapping, such as {ces: 1, cmn: 2.5}, and not a section.
MAPPING_KEYS = ("weights",)


def _absolute(path: PathLike, folder: PathLike = "") -> str:
    absolute = Path.cwd() / folder / os.path.expanduser(path)
    needs_resolving = ".." in absolute.parts and "\0" not in str(absolute)
    return str(absolute.resolve() if needs_resolving else absolute)


def _absolute_if_folder(name: str, folder: PathLike = "") -> str:
    path = _absolute(name, folder)
    return path if name != "mel-small" and os.path.isdir(path) else name


FolderPath: TypeAlias = Annotated[Path, AfterValidator(lambda path: Path(_absolute(path)))]
ModelName: TypeAlias = Annotated[str, AfterValidator(lambda name: _absolute_if_folder(name))]


AnySection = TypeVar("AnySection", bound=Section)


def add_fields(**fields: Any) -> Callable[[type[AnySection]], type[AnySection]]:
    """Adds fields to a section that come from the registry of methods."""
    return lambda section: create_model(
        section.__name__, __base__=section, __doc__=section.__doc__, __module__=section.__module__, **fields
    )


def read_values(path: PathLike) -> dict[str, Any]:
    """Keys and values of a YAML file, not validated yet; paths are absolute."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not a text file in UTF-8: {error}") from error
    return _resolve_paths(parse_values(text, str(path)), Path(path).parent)


def parse_values(text: str, source: str) -> dict[str, Any]:
    """Keys and values of a YAML text, not validated yet."""
    try:
        values = _parse_yaml(text)
    except ValueError as error:
        raise ValueError(f"{source}: not valid YAML: {' '.join(str(error).split())}") from error
    if not isinstance(values, dict):
        raise ValueError(f"{source}: expected keys and values such as `dataset: folder`; got {values!r:.60}.")
    return values


def _resolve_paths(values: Any, folder: Path, key: str = "") -> Any:
    """Makes paths absolute that are relative to `folder`; keys may be nested or dotted, and values listed."""
    if isinstance(values, list):
        return [_resolve_paths(value, folder, key) for value in values]
    if isinstance(values, dict):
        return {name: _resolve_paths(value, folder, str(name).split(".")[-1]) for name, value in values.items()}
    if isinstance(values, str) and key in FOLDER_KEYS:
        return _absolute(values, folder)
    if isinstance(values, str) and key in MODEL_KEYS:
        return _absolute_if_folder(values, folder)
    return values


def parse_section(kind: type[AnySection], values: dict[str, Any], overrides: Iterable[str], source: str) -> AnySection:
    """Validates keys and values after overrides such as "objective.step_size=1e-3". Errors name the path of the key."""
    try:
        values = _plain(values)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{source}: {error}") from error
    overrides = list(overrides)
    for override in overrides:
        _override(values, override)
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        problems = (f"{_find_source(problem, overrides, source)}: {problem}" for problem in describe(error, kind))
        raise ValueError("\n".join(problems)) from error


def _find_source(problem: str, overrides: Sequence[str], source: str) -> str:
    """The override whose key the problem is about, otherwise `source`."""
    key = problem.partition(":")[0]
    given = [override for override in overrides if f"{key}.".startswith(f"{override.partition('=')[0]}.")]
    return f"--set {given[-1]:.200}" if given else source


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
    """Nested values by dotted keys, such as `model.lora.rank`. A mapping under one of `MAPPING_KEYS` is one value."""
    for key, value in values.items():
        if isinstance(value, dict) and key.rpartition(".")[2] not in MAPPING_KEYS:
            yield from by_key(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def short_key(key: str) -> str:
    """The last part of a dotted key; the whole key if that is only `name`."""
    return key if key.endswith(".name") else key.rpartition(".")[2]


def format_setting(value: Any) -> str | None:
    """A value in a table or a name; None stays None."""
    if isinstance(value, list | tuple):
        return ", ".join(str(format_setting(item)) for item in value)
    if isinstance(value, dict):
        return ", ".join(f"{key} {format_setting(item)}" for key, item in value.items())
    if value is None or isinstance(value, str):
        return value
    return f"{value:g}" if isinstance(value, float) else json.dumps(value)


def describe_settings(values: Mapping[str, Any]) -> str:
    """Values by key in words, such as "signal loss_per_character, warmup batches 600"; None is omitted."""
    return ", ".join(
        f"{short_key(key).replace('_', ' ').replace('.', ' ')} {format_setting(value)}"
        for key, value in values.items()
        if value is not None
    )


def refuse_changes(folder: Path, there: Section, here: Section) -> None:
    """Rejects a configuration that differs from the one in the folder."""
    before, now = (dict(by_key(one.model_dump(mode="json"))) for one in (there, here))
    changed = [key for key in before | now if before.get(key) != now.get(key)]
    if changed:
        changes = "; ".join(f"{key}: {before.get(key)} → {now.get(key)}" for key in changed)
        raise ValueError(
            f"Cannot resume {folder}: the configuration changed ({changes}). Restore it, or choose another --out."
        )


def set_key(values: Any, key: str, value: Any, source: str) -> None:
    """Sets a dotted key; creates sections that are missing or null, such as `model.lora`. Lists have numbers."""
    *sections, name = key.split(".")
    for section in sections:
        place = _place(values, section, source)
        if isinstance(values, dict) and values.get(section) is None:
            values[section] = {}
        values = values[place]
        if not isinstance(values, dict | list):
            raise ValueError(f"{source}: `{section:.60}` is not a section.")
    values[_place(values, name, source)] = value


def _place(values: Any, name: str, source: str) -> str | int:
    """The key of a section, or the index of an item in a list."""
    if isinstance(values, dict):
        return name
    if not name.isdecimal() or int(name) >= len(values):
        raise ValueError(f"{source}: `{name:.60}` must be the number of an item, from 0 to {len(values) - 1}.")
    return int(name)


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
