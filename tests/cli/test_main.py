"""The command line, run as users run it."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from in_process import run
from layouts import LAYOUTS, SPLITS, HuggingFace, Spoken

import ctcdro
from ctcdro import Manifest

SPOKEN = [
    Spoken(split, lang, f"{lang}_{split}_{number}", f"ahoj {split} {number}")
    for split in SPLITS
    for lang in ("ces", "deu")
    for number in range(2)
]


def run_process(*arguments, **options):
    command = [sys.executable, "-m", "ctcdro", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, **options)


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
def test_prepare_makes_a_dataset_that_check_finds_sound(layout, tmp_path):
    layout.write(tmp_path / "corpus", SPOKEN)
    done = run("prepare", *ARGUMENTS[layout.name](tmp_path / "corpus"), "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert f"Dataset: {tmp_path / 'out'}" in done.stdout.replace("\n", "")
    assert [len(Manifest.read(tmp_path / "out" / f"{split}.jsonl")) for split in SPLITS] == [4, 4, 4]
    checked = run("check", tmp_path / "out", "--json", "--figure", tmp_path / "lengths.png")
    report = json.loads(checked.stdout)
    assert (checked.returncode, report["errors"]) == (0, 0), report["findings"]
    assert (tmp_path / "lengths.png").read_bytes()[1:4] == b"PNG"


def test_check_ends_with_one_and_shows_the_place_of_what_is_wrong(tmp_path):
    layout = LAYOUTS[0]
    layout.write(tmp_path / "corpus", SPOKEN)
    assert run("prepare", *ARGUMENTS[layout.name](tmp_path / "corpus"), "-o", tmp_path / "out").returncode == 0
    Path(Manifest.read(tmp_path / "out" / "train.jsonl")[1].audio_filepath).unlink()
    done = run("check", tmp_path / "out")
    assert done.returncode == 1
    assert f"{tmp_path / 'out' / 'train.jsonl'}:2: " in done.stdout
    assert "error: missing audio (1)" in done.stdout


def test_check_counts_a_fault_that_all_lines_have(tmp_path):
    line = json.dumps({"audio_filepath": "a.wav", "duration": 1.0, "text": "ahoj", "lang": "ces"})
    (tmp_path / "train.jsonl").write_text(f"{line}\n" * 1234)
    done = run("check", tmp_path, "--headers-only")
    assert done.returncode == 1
    assert "error: missing audio (1234)" in done.stdout
    assert "… and 1224 more; --json has 1000 of them" in done.stdout
    assert "1234 errors, 2 warnings in" in done.stdout


def test_what_is_wrong_comes_in_one_line_without_traceback(tmp_path):
    done = run("check", tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("ctcdro: ")
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["ml-superb", "--set", "set1", "--out", "o"], "specify either the folder of the corpora, or --copy"),
        (["ml-superb", ".", "--out", "o"], "specify either --set or --pairs"),
        (["ml-superb", ".", "--set", "set9", "--out", "o"], "--set must be one of set1"),
        (
            ["ml-superb", ".", "--set", "set1", "--out", "o"],
            "no corpora in it; expected folders such as",
        ),
        (["common-voice", ".", "--out", "o"], "no train.tsv in this folder"),
    ],
)
def test_wrong_use_says_what_to_do(arguments, message, tmp_path):
    done = run("prepare", *arguments, cwd=tmp_path)
    assert done.returncode != 0
    assert message in " ".join(done.stderr.replace("│", " ").split())
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "o" / "train.jsonl").exists()


def test_a_dataset_that_the_hub_does_not_have_is_named(tmp_path):
    offline = {**os.environ, "HF_HUB_OFFLINE": "1"}
    done = run_process("prepare", "huggingface", "nowhere/nothing", "--out", tmp_path / "out", env=offline)
    assert done.returncode == 2
    assert "nowhere/nothing" in done.stderr
    assert "cannot be loaded" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_terminal_without_accents_shows_what_it_can(tmp_path):
    """`±` and the texts of corpora are no reason to fail after the work is done."""
    LAYOUTS[0].write(tmp_path / "corpus", SPOKEN)
    ascii_only = {**os.environ, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C", "PYTHONIOENCODING": ""}
    arguments = ARGUMENTS[LAYOUTS[0].name](tmp_path / "corpus")
    done = run_process("prepare", *arguments, "--out", tmp_path / "out", env=ascii_only)
    assert done.returncode == 0, done.stderr
    assert "\\xb1" in done.stdout
    Path(Manifest.read(tmp_path / "out" / "train.jsonl")[0].audio_filepath).unlink()
    done = run_process("check", tmp_path / "out", env=ascii_only)
    assert done.returncode == 1, done.stderr


def test_the_copy_of_ml_superb_is_an_option(tmp_path):
    HuggingFace().write(tmp_path / "copy", SPOKEN)
    done = run("prepare", "ml-superb", "--copy", tmp_path / "copy", "--pairs", "all", "--out", tmp_path / "out")
    assert "no column id" in done.stderr


def test_synthetic_speech_is_made_again_to_the_byte_and_checked_sound(tmp_path):
    options = [
        "--languages",
        "ces,kor",
        "--minutes",
        "0.2:0.1:0.1",
        "--duration",
        "kor=1.5:0.3",
        "--noise",
        "ces=10:20",
    ]
    contents = []
    for name, workers in (("one", 1), ("two", 2)):
        done = run("prepare", "synthetic", "--out", tmp_path / name, *options, "--num-workers", workers)
        assert done.returncode == 0, done.stderr
        files = sorted(path for path in (tmp_path / name).rglob("*") if path.is_file())
        contents.append({str(path.relative_to(tmp_path / name)): path.read_bytes() for path in files})
    assert contents[0] == contents[1]
    assert len(contents[0]) > 20
    assert run("check", tmp_path / "one").returncode == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--languages", "heb"], "Cannot synthesize speech for 'heb': eSpeak NG reads Hebrew"),
        (["--languages", "cs,fra,ko"], "Cannot synthesize speech for 'cs', 'ko'. Did you mean ces, kor? Supported"),
        (["--languages", "ces", "--duration", "4"], "--duration must be 2 numbers separated by colons, such as 4:1.5"),
        (["--languages", "ces", "--words", "few"], "--words must be a whole number"),
        (["--languages", "ces", "--room", "cmn=1"], "--room cmn=1: no language cmn (expected one of ces)"),
        (["--languages", "ces", "--noise", "20:10"], "--noise must be two numbers from -30 to 100 in increasing order"),
    ],
)
def test_wrong_options_of_synthetic_speech_say_what_to_do(options, message, tmp_path):
    done = run("prepare", "synthetic", "--out", tmp_path / "out", *options)
    assert done.returncode == 2
    assert message in done.stderr


def test_ctrl_c_says_how_to_resume(tmp_path):
    command = [
        sys.executable,
        "-m",
        "ctcdro",
        "prepare",
        "synthetic",
        "--languages",
        "ces",
        "--out",
        str(tmp_path / "out"),
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        deadline = time.monotonic() + 60
        while not list((tmp_path / "out").glob("audio/*/*.wav")) and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "ctcdro: stopped. Run the same command again to resume." in said
    assert "Traceback" not in said


def test_commands_to_the_terminal_are_shown_not_sent(tmp_path):
    record = {"audio_filepath": "a\x1b[2J.wav", "duration": 1.0, "text": "[red]ahoj :fire:", "lang": "ces"}
    (tmp_path / "train.jsonl").write_text(json.dumps(record) + "\n")
    done = run("check", tmp_path)
    assert "\x1b" not in done.stdout
    assert "a\\x1b[2J.wav" in done.stdout


def test_a_figure_that_cannot_be_drawn_is_refused_before_anything_is_read(tmp_path):
    (tmp_path / "train.jsonl").write_text("{}\n")
    done = run("check", tmp_path, "--figure", tmp_path / "nowhere" / "a.png")
    assert done.returncode == 2
    assert "the folder does not exist" in " ".join(done.stderr.replace("│", " ").split())


def test_what_was_not_there_is_told_and_noted(tmp_path):
    LAYOUTS[0].write(tmp_path / "corpus", SPOKEN)
    arguments = [
        "ml-superb",
        tmp_path / "corpus",
        "--pairs",
        "ces:commonvoice,cmn:fleurs",
        "--skip-missing",
        "--strict",
    ]
    done = run("prepare", *arguments, "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert "1 missing corpus" in done.stdout
    assert json.loads((tmp_path / "out" / "dataset.json").read_text())["pairs"] == "ces:commonvoice,cmn:fleurs"


def test_the_version_is_that_of_the_package():
    assert run("--version").stdout.strip() == ctcdro.__version__


def test_help_needs_neither_torch_nor_numpy():
    program = "import sys; from ctcdro import cli; assert not {'torch', 'numpy', 'soundfile'} & set(sys.modules)"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0
