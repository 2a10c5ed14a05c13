"""Every command that writes a folder takes its lock first."""

import json
import sys

import pytest
import yaml
from tones import write_dataset

from ctcdro.cli.main import main
from ctcdro.decoding.evaluate import evaluate
from ctcdro.storage.locks import lock_folder

COMMANDS = ("prepare", "synthesis", "train", "sweep")


@pytest.fixture(scope="module")
def lines(tmp_path_factory):
    """The commands, without their `--out`."""
    folder = tmp_path_factory.mktemp("base")
    dataset = write_dataset(folder / "data", num_train=2, num_dev=2)
    run = {"dataset": str(dataset), "model": {"encoder": "mel-small", "head": "linear"}}
    (folder / "run.yaml").write_text(yaml.safe_dump(run))
    settings = [{"objective": "erm"}]
    (folder / "sweep.yaml").write_text(yaml.safe_dump({"run": run, "settings": settings, "seeds": [0]}))
    return {
        "prepare": ("prepare", "nemo", "--train", dataset / "train.jsonl", "--overwrite"),
        "synthesis": ("prepare", "synthetic", "--languages", "ces", "--minutes", "0.1:0.1:0.1", "--overwrite"),
        "train": ("train", folder / "run.yaml"),
        "sweep": ("sweep", folder / "sweep.yaml"),
    }


def refusal(monkeypatch, capsys, *arguments):
    """The message of a command that fails with exit status 2."""
    monkeypatch.setattr(sys, "argv", ["ctcdro", *map(str, arguments)])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    return capsys.readouterr().err


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def out(tmp_path):
    """A folder with files of the names that commands replace or remove."""
    folder = tmp_path / "out"
    folder.mkdir()
    for name in ("train.jsonl", "dev.jsonl", "config.yaml", "sweep.yaml", f".run.json.{'0' * 32}.ctcdro-new"):
        (folder / name).write_text("of the other process")
    return folder


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_changes_nothing_in_a_folder_that_another_process_writes(name, lines, out, monkeypatch, capsys):
    with lock_folder(out):
        before = contents(out)
        said = refusal(monkeypatch, capsys, *lines[name], "--out", out)
    assert said.splitlines()[-1] == (
        f"ctcdro: {out}: another process is writing to this folder. Wait until it ends, or use another folder."
    )
    assert contents(out) == before


@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_writes_through_a_link_that_stands_for_a_lock(name, lines, out, monkeypatch, capsys, tmp_path):
    (tmp_path / "precious").write_text("precious")
    (out / ".lock").symlink_to(tmp_path / "precious")
    before = contents(out)
    assert "is a symbolic link" in refusal(monkeypatch, capsys, *lines[name], "--out", out)
    assert (tmp_path / "precious").read_text() == "precious"
    assert contents(out) == before


@pytest.mark.parametrize("name", ["predictions", "scores"])
def test_an_evaluation_writes_through_no_link(name, tmp_path):
    """An untrusted run folder could make it replace manifests, which have the names of predictions."""
    dataset = write_dataset(tmp_path / "data", num_train=1, num_dev=1)
    before = contents(dataset)
    (tmp_path / "run" / "model").mkdir(parents=True)
    (tmp_path / "run" / name).symlink_to(dataset)
    with pytest.raises(ValueError, match=f"{name} is a symbolic link to "):
        evaluate(tmp_path / "run", "dev", dataset=dataset)
    assert contents(dataset) == before
    assert json.loads((dataset / "dev.jsonl").read_text().splitlines()[0])
