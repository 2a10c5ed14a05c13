"""`ctcdro prepare`, run as users run it: every reader on a corpus in its layout."""

import json
import os
import subprocess
import sys

import pytest
from in_process import run
from layouts import LAYOUTS, SPLITS, HuggingFace, Spoken

from ctcdro import Manifest

SPOKEN = [
    Spoken(split, lang, f"{lang}_{split}_{number}", f"ahoj {split} {number}")
    for split in SPLITS
    for lang in ("ces", "deu")
    for number in range(2)
]


def lists(root, pattern):
    return [part for split in SPLITS for part in (f"--{split}", root / pattern.format(split))]


ARGUMENTS = {
    "ml-superb": lambda root: ["ml-superb", root, "--pairs", "ces:commonvoice,deu:commonvoice"],
    "common-voice": lambda root: ["common-voice", root],
    "fleurs": lambda root: ["fleurs", root, "--languages", "ces,deu"],
    "kaldi": lambda root: ["kaldi", *lists(root, "{}")],
    "nemo": lambda root: ["nemo", *lists(root, "{}.json")],
    "lhotse-cuts": lambda root: ["lhotse", *lists(root, "cuts_{}.jsonl.gz")],
    "lhotse-recordings": lambda root: [
        "lhotse",
        *lists(root, "recordings_{}.jsonl"),
        *lists(root, "supervisions_{}.jsonl"),
    ],
    "huggingface": lambda root: ["huggingface", root, "--id-column", "key"],
}


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
def test_every_reader_makes_a_dataset_without_errors(layout, tmp_path):
    layout.write(tmp_path / "corpus", SPOKEN)
    done = run("prepare", *ARGUMENTS[layout.name](tmp_path / "corpus"), "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert "Czech (ces)" in done.stdout
    assert f"Dataset: {tmp_path / 'out'}" in done.stdout.replace("\n", "")
    assert [len(Manifest.read(tmp_path / "out" / f"{split}.jsonl")) for split in SPLITS] == [4, 4, 4]
    checked = run("check", tmp_path / "out", "--json", "--figure", tmp_path / "lengths.png")
    report = json.loads(checked.stdout)
    assert (checked.returncode, report["errors"]) == (0, 0), report["findings"]
    assert (tmp_path / "lengths.png").read_bytes()[1:4] == b"PNG"


def test_options_are_noted_under_their_names(tmp_path):
    layout = next(layout for layout in LAYOUTS if layout.name == "kaldi")
    layout.write(tmp_path / "corpus", SPOKEN)
    arguments = ["--language", "ces", "--text-norm", "none", "--max-duration", 20, "--out", tmp_path / "out"]
    assert run("prepare", *ARGUMENTS["kaldi"](tmp_path / "corpus"), *arguments).returncode == 0
    note = json.loads((tmp_path / "out" / "dataset.json").read_text())
    assert (note["reader"], note["language"], note["text_norm"]) == ("kaldi", "ces", "none")
    assert note["max_duration"] == {"train": 20.0, "dev": 20.0}
    assert note["train"] == [str(tmp_path / "corpus" / "train")]


@pytest.mark.parametrize(("on_error", "status"), [("skip", 0), ("fail", 2)])
def test_an_entry_with_a_problem_is_skipped_or_stops_the_command(tmp_path, on_error, status):
    LAYOUTS[0].write(tmp_path / "corpus", SPOKEN)
    next((tmp_path / "corpus").rglob("ces_train_1*.wav")).unlink()
    arguments = [*ARGUMENTS[LAYOUTS[0].name](tmp_path / "corpus"), "--on-error", on_error]
    done = run("prepare", *arguments, "--out", tmp_path / "out")
    assert done.returncode == status
    assert "missing audio" in (done.stdout if status == 0 else done.stderr)


def test_missing_corpora_are_skipped_and_reported(tmp_path):
    LAYOUTS[0].write(tmp_path / "corpus", SPOKEN)
    arguments = ["ml-superb", tmp_path / "corpus", "--pairs", "ces:commonvoice,cmn:fleurs"]
    strictly = ["--on-missing", "skip", "--on-error", "fail"]
    done = run("prepare", *arguments, *strictly, "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert "1 missing corpus" in done.stdout
    assert json.loads((tmp_path / "out" / "dataset.json").read_text())["pairs"] == "ces:commonvoice,cmn:fleurs"


def test_a_dataset_that_the_hub_does_not_have_is_named(tmp_path):
    command = [sys.executable, "-m", "ctcdro", "prepare", "huggingface", "nowhere/nothing", "--out", tmp_path / "out"]
    offline = {**os.environ, "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=offline)
    assert done.returncode == 2
    assert "nowhere/nothing" in done.stderr
    assert "cannot be loaded" in done.stderr
    assert "Traceback" not in done.stderr


def test_ml_superb_can_be_read_from_the_hub(tmp_path):
    HuggingFace().write(tmp_path / "copy", SPOKEN)
    done = run("prepare", "ml-superb", "--from-hub", tmp_path / "copy", "--pairs", "all", "--out", tmp_path / "out")
    assert "no column id" in done.stderr


def test_synthetic_speech_is_the_same_with_any_number_of_workers(tmp_path):
    options = ["--languages", "ces,kor", "--minutes", "0.2:0.1:0.1"]
    options += ["--duration", "kor=1.5:0.3", "--noise", "ces=10:20"]
    contents = []
    for name, workers in (("one", 1), ("two", 2)):
        done = run("prepare", "synthetic", "--out", tmp_path / name, *options, "--workers", workers)
        assert done.returncode == 0, done.stderr
        files = sorted(path for path in (tmp_path / name).rglob("*") if path.is_file())
        contents.append({str(path.relative_to(tmp_path / name)): path.read_bytes() for path in files})
    assert contents[0] == contents[1]
    assert len(contents[0]) > 20
    assert run("check", tmp_path / "one").returncode == 0
