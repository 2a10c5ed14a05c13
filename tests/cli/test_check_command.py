"""`ctcdro check`, run as users run it."""

import json

import pytest
from in_process import run
from tones import write_dataset

from ctcdro import Manifest
from ctcdro.cli import console


def test_languages_are_shown_by_name(tmp_path):
    shown = run("check", write_dataset(tmp_path / "data", num_train=2, num_dev=2)).stdout
    assert ["Ghotuo", "(aaa)", "train"] in [line.split()[:3] for line in shown.splitlines()]


def test_the_exit_status_is_one_if_there_are_errors_and_their_places_are_shown(tmp_path):
    dataset = write_dataset(tmp_path / "data", num_train=2, num_dev=2)
    (dataset / Manifest.read(dataset / "train.jsonl")[1].audio_filepath).unlink()
    done = run("check", dataset)
    assert done.returncode == 1
    assert f"{dataset / 'train.jsonl'}:2: " in done.stdout
    assert "error: missing audio (1)" in done.stdout


def test_findings_are_counted_beyond_those_that_are_shown(tmp_path):
    line = json.dumps({"audio_filepath": "a.wav", "duration": 1.0, "text": "ahoj", "lang": "ces"})
    (tmp_path / "train.jsonl").write_text(f"{line}\n" * 1234)
    done = run("check", tmp_path, "--headers-only", "--max-shown", 3)
    assert done.returncode == 1
    assert "error: missing audio (1234)" in done.stdout
    assert "… and 1231 more; --json has 1000 of them" in done.stdout
    assert "1234 errors, 2 warnings in" in done.stdout


def test_control_sequences_are_escaped(tmp_path):
    record = {"audio_filepath": "a\x1b[2J.wav", "duration": 1.0, "text": "[red]ahoj :fire:", "lang": "ces"}
    (tmp_path / "train.jsonl").write_text(json.dumps(record) + "\n")
    done = run("check", tmp_path)
    assert "\x1b" not in done.stdout
    assert "a\\x1b[2J.wav" in done.stdout


@pytest.mark.parametrize(
    ("is_terminal", "options", "shows_progress"), [(True, [], True), (True, ["--quiet"], False), (False, [], False)]
)
def test_a_terminal_shows_progress_on_stderr_unless_quiet(tmp_path, monkeypatch, is_terminal, options, shows_progress):
    monkeypatch.setattr(console, "shows_bars", lambda: is_terminal)
    dataset = write_dataset(tmp_path / "data", num_train=2, num_dev=2)
    done = run("check", dataset, *options)
    assert (done.stderr != "") == shows_progress
    assert "0 errors" in done.stdout
