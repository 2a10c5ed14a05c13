"""Commands reject hostile input with exit status 2 and a message (`check` with 1), never with a traceback."""

import os
import sys

import pytest
import yaml
from hostile import FUZZ, altered, as_json, damaged
from hypothesis import given, settings
from hypothesis import strategies as st
from run_folders import write_run
from tones import write_dataset

from ctcdro.cli.main import main

FEWER = settings(FUZZ, max_examples=max(1, FUZZ.max_examples // 2))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    return write_run(folder / "run", write_dataset(folder / "tones", num_train=2, num_dev=2))


@pytest.fixture
def command(monkeypatch, capsys):
    """Runs a command in this process, checks its messages, and returns its exit status."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["ctcdro", *map(str, arguments)])
        capsys.readouterr()
        code = 0
        try:
            main()
        except SystemExit as end:  # anything else would be a traceback
            code = end.code or 0
        output = capsys.readouterr()
        if code == 2:
            lines = [line for line in output.err.splitlines() if line.strip()]
            assert lines, "no message"
            assert all(len(line) < 2_100 for line in lines)
        assert code in (0, 1, 2)
        assert not set(output.out + output.err) & set("\0\x1b\x07\x08")
        return code

    return run


RECORD = {"audio_filepath": "a.wav", "duration": 1.0, "text": "dobrý den", "lang": "ces", "id": "a1"}
LINE = as_json(RECORD) + b"\n"
LINES = st.one_of(damaged(LINE), altered(RECORD).map(lambda record: LINE + as_json(record) + b"\n"))


@given(LINES)
@FEWER
def test_check(tmp_path, command, content):
    (tmp_path / "train.jsonl").write_bytes(content)
    assert command("check", tmp_path) in (1, 2)  # the audio is never there


@given(LINES)
@FEWER
def test_prepare(tmp_path, command, content):
    (tmp_path / "list.json").write_bytes(content)
    arguments = ("prepare", "nemo", "--train", tmp_path / "list.json", "--language", "ces", "--overwrite")
    assert command(*arguments, "--out", tmp_path / "out") == 2
    assert command(*arguments, "--out", tmp_path / "out", "--on-error", "fail") == 2


@given(st.one_of(damaged(LINE), altered(RECORD).map(as_json)))
@FEWER
def test_score(tmp_path, command, content):
    (tmp_path / "reference.jsonl").write_bytes(LINE)
    (tmp_path / "hypothesis.jsonl").write_bytes(content)
    command("score", tmp_path / "reference.jsonl", tmp_path / "hypothesis.jsonl")


@given(damaged(yaml.safe_dump({"dataset": "nowhere", "model": {"encoder": "mel-small"}, "seed": 1}).encode()))
@FEWER
def test_train_and_sweep(tmp_path, command, content):
    (tmp_path / "run.yaml").write_bytes(content)
    assert command("train", tmp_path / "run.yaml", "--out", tmp_path / "run") == 2
    assert command("sweep", tmp_path / "run.yaml", "--out", tmp_path / "sweep") == 2


@pytest.mark.parametrize("name", ["config.yaml", "run.json", "group_weights.jsonl", "log.jsonl", "scores/test.json"])
@given(st.data())
@settings(FUZZ, max_examples=max(1, FUZZ.max_examples // 8))
def test_report(tmp_path, command, run, name, data):
    sound = (run.path / name).read_bytes()
    (run.path / name).write_bytes(data.draw(damaged(sound)))
    try:
        command("report", run.path, "--out", tmp_path / "page.html", "--no-audio")
    finally:
        (run.path / name).write_bytes(sound)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "vocab.json"])
@given(st.data())
@FEWER
def test_transcribe(tmp_path, command, name, data):
    for other in ("config.json", "model.safetensors", "vocab.json"):
        (tmp_path / other).write_bytes(data.draw(st.binary(max_size=50)) if other == name else b"{}")
    (tmp_path / "a.wav").touch()
    assert command("transcribe", tmp_path, tmp_path / "a.wav") == 2


def test_files_of_one_repeated_byte(tmp_path, command):
    (tmp_path / "reference.jsonl").write_bytes(LINE)
    for content in (b"", b"\0" * 1000, b"[" * 100_000, b"{" * 100_000, b'"' + b"a" * 1_000_000):
        for name in ("train.jsonl", "run.yaml", "list.json", "hypothesis.jsonl"):
            (tmp_path / name).write_bytes(content)
        assert command("check", tmp_path) == 2
        assert command("train", tmp_path / "run.yaml", "--out", tmp_path / "run") == 2
        assert command("prepare", "nemo", "--train", tmp_path / "list.json", "--out", tmp_path / "out") == 2
        assert command("score", tmp_path / "reference.jsonl", tmp_path / "hypothesis.jsonl") == 2


def test_pipes_and_devices_in_a_dataset_are_not_waited_for(tmp_path, command):
    os.mkfifo(tmp_path / "a.wav")
    (tmp_path / "train.jsonl").write_bytes(LINE)
    assert command("check", tmp_path) == 1
    (tmp_path / "train.jsonl").unlink()
    os.mkfifo(tmp_path / "train.jsonl")
    assert command("check", tmp_path) == 2
    (tmp_path / "run.yaml").write_text(f"dataset: {tmp_path}\nmodel: {{encoder: mel-small}}\n")
    assert command("train", tmp_path / "run.yaml", "--out", tmp_path / "run") == 2
