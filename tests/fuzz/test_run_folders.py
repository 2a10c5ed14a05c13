"""Run folders with damaged files, read by `ctcdro report` and `ctcdro export`."""

import json
import shutil

import pytest
import yaml
from hostile import FUZZ, altered, as_json, damaged, is_reported
from hypothesis import given, settings
from hypothesis import strategies as st
from run_folders import write_run
from tones import write_dataset

from ctcdro.report.model_card import model_card
from ctcdro.report.page import write_report
from ctcdro.runs.folder import RunFolder, forget_after
from ctcdro.scoring.scores import read_scores
from ctcdro.speech.vocabulary import Vocabulary
from ctcdro.training.progress_text import last_record


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    run = write_run(folder / "run", write_dataset(folder / "tones", num_train=2, num_dev=2), "ctc-dro")
    Vocabulary(["aaa", "bbb"], "abcdefgh").save(run.vocabulary)
    return run


def succeeds_or_reports(run, out):
    """Errors must name the run, one of its files, or a file of its dataset."""
    is_reported(lambda: write_report([run.path], out, num_worst=1, audio=False), run.path.parent, "baseline")
    is_reported(lambda: model_card(run).encode(), run.path)


def damage(data, path):
    """Changes lines and values of a file."""
    sound = path.read_bytes()
    if path.suffix == ".yaml":
        return data.draw(damaged(sound))
    if path.suffix == ".json":
        return data.draw(st.one_of(damaged(sound), altered(json.loads(sound)).map(as_json)))
    lines = sound.splitlines()
    place = data.draw(st.integers(0, len(lines) - 1))
    changed = data.draw(altered(json.loads(lines[place])).map(as_json))
    lines[place] = changed
    return data.draw(st.one_of(damaged(sound), st.just(b"\n".join(lines) + b"\n")))


FILES = ["config.yaml", "run.json", "log.jsonl", "group_weights.jsonl", "scores/test.json", "predictions/test.jsonl"]


@pytest.mark.parametrize("name", FILES)
@given(st.data())
@settings(FUZZ, max_examples=FUZZ.max_examples // 4)  # a page takes a quarter of a second
def test_files_of_runs(run, tmp_path, name, data):
    path = run.path / name
    sound = path.read_bytes()
    path.write_bytes(damage(data, path))
    try:
        succeeds_or_reports(run, tmp_path / "page.html")
        last_record(run.log)
        is_reported(lambda: read_scores(run.scores("test")), run.path)
    finally:
        path.write_bytes(sound)


@given(st.data())
@FUZZ
def test_logs_of_unfinished_runs(run, tmp_path, data):
    path = tmp_path / "log.jsonl"
    path.write_bytes(damage(data, run.log))
    is_reported(lambda: forget_after(path, 2), path)


def test_an_unfinished_log_is_read_up_to_its_last_complete_line(tmp_path):
    path = tmp_path / "log.jsonl"
    for end in (b'{"step": 4, "name": "\xc5', b"\xff", b'{"step": 4', b"[", b'{"a":' * 5000):
        path.write_bytes(b'{"step": 1}\n{"step": 2}\n' + end)
        assert last_record(path) == ({"step": 2} if len(end) < 8000 else None)  # it reads the last 8 kB only
        forget_after(path, 5)
        assert [json.loads(line)["step"] for line in path.read_text().splitlines()] == [1, 2]
        assert last_record(path) == {"step": 2}


def test_a_missing_or_empty_log_has_no_step(tmp_path):
    assert last_record(tmp_path / "log.jsonl") is None
    (tmp_path / "log.jsonl").write_bytes(b"[1]\n")
    assert last_record(tmp_path / "log.jsonl") is None


def test_a_configuration_from_elsewhere_is_read_as_one(run, tmp_path):
    shutil.copytree(run.path, tmp_path / "run")
    folder = RunFolder(tmp_path / "run")
    values = yaml.safe_load(folder.config.read_text())
    folder.config.write_text(yaml.safe_dump(values | {"dataset": "/dev/null/nothing"}))
    succeeds_or_reports(folder, tmp_path / "page.html")
    assert (tmp_path / "page.html").is_file()
