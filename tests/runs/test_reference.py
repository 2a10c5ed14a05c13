"""The reference: complete, valid, and the source of all defaults."""

import pytest
import yaml

from ctcdro.runs.config import Config, parse_config
from ctcdro.runs.config_errors import section_in
from ctcdro.runs.parsing import by_key
from ctcdro.runs.reference import reference_markdown, reference_yaml
from ctcdro.sweeps.config import SweepConfig, parse_sweep


def fields(kind, prefix=""):
    for name, field in kind.model_fields.items():
        section = section_in(field.annotation)
        yield prefix + name, field, section
        if section is not None:
            yield from fields(section, f"{prefix}{name}.")


@pytest.mark.parametrize("kind", [Config, SweepConfig])
def test_every_key_and_every_section_has_a_description(kind):
    for name, field, section in fields(kind):
        description = field.description or (section.__doc__ if section else None)
        assert description, name
        assert description.strip().endswith("."), name


def test_the_file_is_the_default_configuration():
    assert parse_config(yaml.safe_load(reference_yaml())) == parse_config({"dataset": "data"})
    assert parse_sweep(yaml.safe_load(reference_yaml(SweepConfig))) == parse_sweep({"run": {"dataset": "data"}})


def test_the_file_shows_every_key_with_a_comment_above_it():
    lines = reference_yaml().splitlines()
    for name, _, _ in fields(Config):
        places = [i for i, line in enumerate(lines) if line.strip("# ").split(" ")[0] == name.split(".")[-1] + ":"]
        assert places, name
        assert all(lines[place - 1].lstrip().startswith("#") for place in places), name
    assert max(map(len, lines)) <= 100


def test_optional_sections_can_be_uncommented():
    text = reference_yaml()
    start = text.index("  # lora:")
    end = text.index("  # Mask features", start)
    lora = text[start:end].replace("  # ", "  ", 1).replace("\n  # ", "\n  ")
    config = parse_config(yaml.safe_load(text[:start] + lora + text[end:]))
    assert config.model.lora.rank == 8


def test_the_tables_have_every_key_with_its_default():
    table = reference_markdown()
    for key, value in by_key(parse_config({"dataset": "data"}).model_dump(mode="json")):
        default = (
            "required"
            if key == "dataset"
            else f"`{yaml.safe_dump(value, default_flow_style=True).split('...')[0].strip()}`"
        )
        assert f"| `{key}` | {default} | " in table
    assert "| `model.lora.rank` | `8` | " in table
    for key in ("run", "settings", "settings[].objective", "settings[].label", "seeds", "scoring"):
        assert f"| `{key}` | " in reference_markdown(SweepConfig)
