"""Checkpoints are atomic, damage is detected, and there is no pickle."""

import json
import logging
import re
import subprocess
import sys
import time

import pytest
import torch

from ctcdro.training.checkpoint_files import (
    Checkpoint,
    has_checkpoints,
    load_checkpoint,
    optimizer_state,
    optimizer_tensors,
    save_checkpoint,
)


def checkpoint(step):
    return Checkpoint(
        step, {"a": torch.full((3,), float(step)), "b/c": torch.arange(4)}, {"epoch": step, "list": [1, None]}
    )


def test_the_newest_is_loaded_and_old_ones_are_removed(tmp_path):
    for step in (5, 90, 1000):
        save_checkpoint(tmp_path, checkpoint(step), keep=2)
    loaded = load_checkpoint(tmp_path)
    assert (loaded.step, loaded.values) == (1000, {"epoch": 1000, "list": [1, None]})
    assert torch.equal(loaded.tensors["a"], torch.full((3,), 1000.0))
    assert torch.equal(loaded.tensors["b/c"], torch.arange(4))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["000000090", "000001000"]


def test_without_checkpoint_there_is_none(tmp_path):
    assert load_checkpoint(tmp_path / "nowhere") is None


def flip(path):
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def replace(path, old, new):
    path.write_text(path.read_text().replace(old, new))


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: (folder / "tensors.safetensors").unlink(),
        lambda folder: (folder / "values.json").unlink(),
        lambda folder: (folder / "tensors.safetensors").write_bytes(b""),
        lambda folder: (folder / "values.json").write_text('{"step": 2'),
        lambda folder: (folder / "values.json").write_text("[]"),
        lambda folder: flip(folder / "tensors.safetensors"),
        lambda folder: flip(folder / "sha256sums"),
        lambda folder: replace(folder / "values.json", '"epoch": 2', '"epoch": 3'),
    ],
)
def test_a_damaged_checkpoint_is_skipped_for_the_previous_one(tmp_path, damage, caplog):
    save_checkpoint(tmp_path, checkpoint(1))
    save_checkpoint(tmp_path, checkpoint(2))
    damage(tmp_path / "000000002")
    with caplog.at_level(logging.WARNING):
        assert load_checkpoint(tmp_path).step == 1
    assert re.search("Checkpoint .*000000002 is damaged .*Falling back to the previous one", caplog.text)
    save_checkpoint(tmp_path, checkpoint(2))
    assert load_checkpoint(tmp_path).step == 2


def test_what_a_killed_run_left_is_no_checkpoint_and_is_cleared(tmp_path):
    save_checkpoint(tmp_path, checkpoint(1))
    (tmp_path / ".000000002").mkdir()
    (tmp_path / ".000000002" / "tensors.safetensors").write_bytes(b"half")
    assert load_checkpoint(tmp_path).step == 1
    save_checkpoint(tmp_path, checkpoint(3))
    assert not (tmp_path / ".000000002").exists()


LARGE_CHECKPOINT = """
import sys, pathlib, torch
from ctcdro.training.checkpoint_files import Checkpoint, save_checkpoint
save_checkpoint(pathlib.Path(sys.argv[1]), Checkpoint(7, {"a": torch.zeros(50_000_000)}, {}))
"""


def test_a_run_killed_while_tensors_are_written_can_write_that_checkpoint_again(tmp_path):
    with subprocess.Popen([sys.executable, "-c", LARGE_CHECKPOINT, str(tmp_path)]) as process:
        while process.poll() is None and not list(tmp_path.glob(".000000007/*")):
            time.sleep(0.001)
        process.kill()
    assert [path.name for path in tmp_path.iterdir()] == [".000000007"]
    save_checkpoint(tmp_path, checkpoint(7))
    assert [path.name for path in tmp_path.iterdir()] == ["000000007"]


def test_a_run_that_goes_back_keeps_its_new_checkpoints(tmp_path):
    for step in (1000, 2000):
        save_checkpoint(tmp_path, checkpoint(step))
        (tmp_path / f"{step:09d}" / "values.json").write_text("{}")
    assert load_checkpoint(tmp_path) is None
    (tmp_path / ".DS_Store").touch()
    save_checkpoint(tmp_path, checkpoint(500))
    assert load_checkpoint(tmp_path).step == 500


def test_a_full_disk_is_reported_and_leaves_existing_checkpoints(tmp_path):
    save_checkpoint(tmp_path, checkpoint(1))
    program = """
import resource, sys, torch
from pathlib import Path
from ctcdro.training.checkpoint_files import Checkpoint, save_checkpoint
resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, 1_000))  # files end there, as on a full disk
try:
    save_checkpoint(Path(sys.argv[1]), Checkpoint(2, {"a": torch.zeros(1_000)}, {}))
except OSError as error:
    print(error)
"""
    told = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True)
    assert re.search(r"tensors.safetensors: cannot write the file: .*File too large", told.stdout)
    assert [path.name for path in tmp_path.iterdir()] == ["000000001"]
    assert load_checkpoint(tmp_path).step == 1


def test_the_state_of_an_optimizer_survives(tmp_path):
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, betas=(0.9, 0.98))
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    before = optimizer.state_dict()
    param_groups = json.loads(json.dumps(before["param_groups"]))
    state = optimizer_state(optimizer_tensors(before), param_groups)
    other = torch.optim.AdamW(torch.nn.Linear(3, 2).parameters(), lr=0.5)
    other.load_state_dict(state)
    assert other.param_groups[0]["lr"] == 0.1
    assert tuple(other.param_groups[0]["betas"]) == (0.9, 0.98)
    for one, two in zip(optimizer.state.values(), other.state.values(), strict=True):
        assert all(torch.equal(one[name], two[name]) for name in one)


def test_folders_of_others_are_neither_read_nor_removed_nor_renamed(tmp_path, caplog):
    (tmp_path / "stray.txt").touch()
    for name in ("1", "2019", "000000001", "000000007", ".000000003", "999999999"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "photo.jpg").write_text(name)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "values.json").touch()
    (tmp_path / "000000002").symlink_to("elsewhere")
    before = sorted(tmp_path.rglob("*"))
    with caplog.at_level(logging.WARNING):
        assert load_checkpoint(tmp_path) is None
    assert not has_checkpoints(tmp_path)
    for step in (4, 5, 6):
        save_checkpoint(tmp_path, checkpoint(step), keep=1)
    assert [path for path in before if not path.exists()] == []
    assert load_checkpoint(tmp_path).step == 6
    with pytest.raises(OSError, match="not empty"):
        save_checkpoint(tmp_path, checkpoint(7))
    assert load_checkpoint(tmp_path).step == 6
    assert caplog.text == ""


def test_a_stray_file_in_a_checkpoint_does_not_hide_it(tmp_path):
    save_checkpoint(tmp_path, checkpoint(1))
    (tmp_path / "000000001" / ".DS_Store").touch()
    assert load_checkpoint(tmp_path).step == 1
    save_checkpoint(tmp_path, checkpoint(2), keep=1)
    assert [path.name for path in (tmp_path / "000000001").iterdir()] == [".DS_Store"]


def test_a_link_to_another_folder_is_refused(tmp_path):
    (tmp_path / "photos" / "000000001").mkdir(parents=True)
    (tmp_path / "checkpoints").symlink_to("photos")
    for use in (load_checkpoint, has_checkpoints, lambda folder: save_checkpoint(folder, checkpoint(1))):
        with pytest.raises(ValueError, match="checkpoints is a symbolic link to photos"):
            use(tmp_path / "checkpoints")
    assert (tmp_path / "photos" / "000000001").exists()
