"""The reference of a configuration, rendered from its sections: a commented YAML file, and tables in Markdown."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import wrap
from typing import Any, Literal, get_args, get_origin

import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from .config import Config
from .config_errors import section_in
from .parsing import Section

WIDTH = 100
WRAPPING: Any = {"break_on_hyphens": False, "break_long_words": False}


def reference_yaml(kind: type[BaseModel] = Config) -> str:
    """A complete YAML file with a comment above every key, and with its default. Optional sections are commented out.

    Parsing it gives the default configuration, of the dataset in the folder `data`.
    """
    heading = f"# {_text(kind.__doc__)}\n# All keys with their defaults. Keys that you remove keep their defaults.\n"
    return heading + "\n".join(_yaml_lines(kind, "")) + "\n"


def reference_markdown(kind: type[BaseModel] = Config, level: int = 3) -> str:
    """A table of keys, defaults and descriptions per section, under headings of this level."""
    return "\n\n".join(_tables(kind, "", level)) + "\n"


def _yaml_lines(kind: type[BaseModel], indent: str, only_required: bool = False) -> Iterator[str]:
    for key, field in kind.model_fields.items():
        section = section_in(field.annotation)
        if only_required and not field.is_required():
            continue
        if not indent:
            yield ""
        comment = f"{indent}# "
        yield from wrap(_description(field), WIDTH, initial_indent=comment, subsequent_indent=comment, **WRAPPING)
        if section is None:
            yield f"{indent}{key}: {_yaml(_example(field) if field.is_required() else _default(field))}"
        elif field.is_required() or isinstance(_default(field), Section):
            yield f"{indent}{key}:"
            yield from _yaml_lines(section, indent + "  ", only_required=field.is_required())
        else:
            yield f"{comment}{key}:"
            nested = (
                [f"  - {_yaml(item)}" for item in _example(field)] if _is_list(field) else _yaml_lines(section, "  ")
            )
            yield from (comment + line for line in nested)


def _tables(kind: type[BaseModel], prefix: str, level: int) -> Iterator[str]:
    rows, sections = [], []
    for key, field in kind.model_fields.items():
        section = section_in(field.annotation)
        if not isinstance(field.default, Section):
            default = "required" if field.is_required() else f"`{_yaml(_default(field))}`"
            description = _description(field).replace("|", "\\|")
            rows.append(f"| `{prefix}{key}` | {default} | {description} |")
        if section is not None and not field.is_required():
            sections.append((key, section, "[]." if _is_list(field) else "."))
    yield "| Key | Default | Description |\n|---|---|---|\n" + "\n".join(rows)
    for key, section, separator in sections:
        yield f"{'#' * level} `{prefix}{key}`\n\n{_text(section.__doc__)}"
        yield from _tables(section, f"{prefix}{key}{separator}", level + 1)


def _description(field: FieldInfo) -> str:
    """Description and allowed values; for a section without a description, its docstring."""
    section = section_in(field.annotation)
    text = _text(field.description or (section.__doc__ if section else ""))
    values = list(_values(field))
    if all(f"`{value}`" in text for value in values):
        return text
    return f"{text} {'Any' if _is_list(field) else 'One'} of {', '.join(f'`{value}`' for value in values)}."


def _values(field: FieldInfo) -> Iterator[str]:
    for annotation in (field.annotation, *get_args(field.annotation)):
        if get_origin(annotation) is Literal:
            yield from get_args(annotation)
            return


def _is_list(field: FieldInfo) -> bool:
    return any(get_origin(annotation) is tuple for annotation in (field.annotation, *get_args(field.annotation)))


def _example(field: FieldInfo) -> Any:
    return (field.examples or [None])[0]


def _default(field: FieldInfo) -> Any:
    return field.get_default(call_default_factory=True)


def _yaml(value: Any) -> str:
    """A value on one line."""
    plain = list(value) if isinstance(value, tuple) else value
    return yaml.safe_dump(plain, default_flow_style=True, sort_keys=False, width=1000).removesuffix("...\n").strip()


def _text(text: str | None) -> str:
    return " ".join((text or "").split())
