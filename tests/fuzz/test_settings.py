"""Damaged configurations of runs and sweeps, and small ones that would expand without limit."""

import pytest
import yaml
from hostile import FUZZ, altered, damaged, is_reported
from hypothesis import given
from hypothesis import strategies as st

from ctcdro.runs.config import Config, parse_config, read_config
from ctcdro.sweeps.config import parse_sweep, read_sweep

RUN = {
    "dataset": "set1",
    "seed": 3,
    "model": {"encoder": "mel-small", "lora": None},
    "objective": {"name": "ctc-dro", "step_size": "1e-3"},
    "data": {"group_by": "lang"},
    "sampling": {"batch_duration": 6.0},
    "optimizer": {"betas": [0.9, 0.98], "max_grad_norm": None, "batches_per_step": 1},
    "training": {"num_batches": 2, "trackers": ["tensorboard"]},
}
SWEEP = {
    "run": RUN,
    "settings": [
        {"objective": "erm", "sampling": {"sampler": "group-uniform"}},
        {"objective": "ctc-dro", "step_size": [1e-3, 1e-4], "model.spec_augment": False, "label": "ours"},
    ],
    "seeds": [0, 1],
}
DESCRIPTIONS = {"run": (RUN, read_config, parse_config), "sweep": (SWEEP, read_sweep, parse_sweep)}


@pytest.mark.parametrize("kind", DESCRIPTIONS)
@given(st.data())
@FUZZ
def test_files(tmp_path, kind, data):
    values, read, _ = DESCRIPTIONS[kind]
    path = tmp_path / f"{kind}.yaml"
    path.write_bytes(data.draw(damaged(yaml.safe_dump(values, allow_unicode=True).encode())))
    config = is_reported(lambda: read(path), path)
    if config is not None:
        config.write(tmp_path / "copy.yaml")
        assert read(tmp_path / "copy.yaml") == config


@pytest.mark.parametrize("kind", DESCRIPTIONS)
@given(st.data())
@FUZZ
def test_values(tmp_path, kind, data):
    values, _, parse = DESCRIPTIONS[kind]
    drawn = data.draw(altered(values))
    if isinstance(drawn, dict):
        config = is_reported(lambda: parse(drawn, source="here.yaml"), "here.yaml")
        if config is not None:
            is_reported(lambda: config.write(tmp_path / "copy.yaml"), tmp_path)


@given(damaged(b"optimizer.betas=[0.9, 0.98]"))
@FUZZ
def test_overrides(content):
    override = content.decode(errors="replace")
    is_reported(lambda: parse_config({"dataset": "set1"}, [override]), "--set", "configuration")


NINE_TIMES = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]\n" for level in range(1, 12)
)
MERGED = "a0: &a0 {x: 1}\n" + "".join(
    f"a{level}: &a{level} {{<<: [{', '.join([f'*a{level - 1}'] * 9)}]}}\n" for level in range(1, 12)
)


def test_what_would_expand_without_limit_is_rejected(tmp_path):
    path = tmp_path / "run.yaml"
    themselves = ["a: &a [*a]\n", "&a {b: *a}\n"]
    deep = ["[" * 100_000, "a: " * 2_000, "- " * 5_000, "? " * 5_000]
    for text in (NINE_TIMES, MERGED, *themselves, *deep):  # unguarded, each would take hours or all memory
        path.write_text(text)
        with pytest.raises(ValueError, match=r"run\.yaml"):
            read_config(path)


def test_yaml_creates_no_objects(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for tag in ("python/object/apply:os.system ['touch taken']", "python/name:os.system", "python/tuple [1]"):
        (tmp_path / "run.yaml").write_text(f"dataset: !!{tag}\n")
        with pytest.raises(ValueError, match=r"run\.yaml: not valid YAML: could not determine a constructor"):
            read_config(tmp_path / "run.yaml")
        assert not (tmp_path / "taken").exists()


def test_merged_keys_may_be_used(tmp_path):
    (tmp_path / "run.yaml").write_text("dataset: set1\noptimizer: {<<: {warmup_fraction: 0.5}}\n")
    config = read_config(tmp_path / "run.yaml")
    assert isinstance(config, Config)
    assert config.optimizer.warmup_fraction == 0.5
