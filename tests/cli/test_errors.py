"""Errors of users: one line on stderr that names the remedy, and exit status 2."""

import logging
import os
import signal
import subprocess
import sys
import time

import pytest
import yaml
from cases import case
from in_process import run
from tones import write_dataset

from ctcdro.cli.errors import describe


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A working directory with a dataset, a configuration, references and an empty folder."""
    folder = tmp_path_factory.mktemp("errors")
    write_dataset(folder / "data", num_train=2, num_dev=2)
    (folder / "run.yaml").write_text(yaml.safe_dump({"dataset": "data", "model": {"encoder": "mel-small"}}))
    (folder / "tagged").write_text("a1 [ces] ahoj\na2 [ces] den\n")
    (folder / "plain").write_text("a1 ahoj\n")
    (folder / "empty").mkdir()
    return folder


TRAIN = "train run.yaml --out new"
SWEEP = "sweep run.yaml --out new"

# Commands that are wrong, and what the message says to do.
WRONG = {
    "trian run.yaml": "No such command 'trian'. Did you mean 'train'?",
    "--verson": "No such option: --verson. Did you mean --version?",
    "train": "Missing argument 'CONFIG'. See 'ctcdro train --help'.",
    "train run.yaml": "Missing option '--out' / '-o'. See 'ctcdro train --help'.",
    "train run.yaml --out": "Option '--out' requires an argument.",
    "train nowhere.yaml --out new": "nowhere.yaml does not exist. Write one with 'ctcdro config init', or copy",
    "train data --out new": "data is a folder; expected a file. Write one with 'ctcdro config init'",
    "train run.yaml --ouy new": "No such option: --ouy. Did you mean --out?",
    "train run.yaml --out run.yaml": "run.yaml is a file. Choose the name of a folder to write.",
    f"{TRAIN} seed=1": "Override configuration keys with --set KEY=VALUE.",
    f"{TRAIN} --set seed": "--set requires KEY=VALUE, such as objective.step_size=1e-3; got 'seed'.",
    f"{TRAIN} --set objective.nam=erm": "Did you mean objective.name?",
    f"{TRAIN} --set dataset=nowhere": "nowhere/train.jsonl: no such file. Create the dataset with `ctcdro prepare`",
    f"{TRAIN} --device gpu": "--device (`device` in Python) must be auto, cpu, cuda or cuda:N; got 'gpu'.",
    f"{TRAIN} --device cuda:99": "--device cuda:99: PyTorch finds no GPU. Use --device cpu",
    f"{SWEEP} --gpu": "No such option: --gpu. Did you mean --cpu?",
    f"{SWEEP} --jobs 0": "--jobs must be greater than or equal to 1.",
    f"{SWEEP} --jobs many": "--jobs must be a valid integer",
    f"{SWEEP} --sbatch account": "--sbatch requires KEY=VALUE, e.g. account=speech; got 'account'.",
    f"{SWEEP} --set dataset=empty": "empty has no train.jsonl. Create the dataset with `ctcdro prepare`.",
    f"{SWEEP} --set run.dataset=empty": "empty has no train.jsonl. Create the dataset with `ctcdro prepare`.",
    "check nowhere": "nowhere does not exist. Create a dataset with 'ctcdro prepare'.",
    "check run.yaml": "run.yaml is a file; expected a folder. Create a dataset with 'ctcdro prepare'.",
    "check empty": "empty: no train.jsonl in this folder; expected a dataset from `ctcdro prepare`.",
    "check data --figure no/a.png": "no/a.png: the folder no does not exist. Create it first.",
    "check data --frame-rate 0": "--frame-rate (`frame_rate` in Python) must be positive and finite; got 0.0.",
    "evaluate nowhere": "nowhere does not exist. Create it with 'ctcdro train'.",
    "evaluate empty": "empty: not the folder of a run: no config.yaml in it. Specify a folder that",
    "evaluate empty --scoring strict": "--scoring: 'strict' is not one of 'plain', 'ml-superb2', 'paper'.",
    "evaluate empty --lm-weight 1": "--lm-weight requires --lm",
    "transcribe empty": "Nothing to transcribe: name files or folders, or a list with --list.",
    "transcribe empty nowhere.wav": "empty is neither a run nor a model: no config.yaml or config.json in it.",
    "transcribe empty --list nowhere": "nowhere does not exist.",
    "tune-lm empty": "Missing option '--lm'.",
    "export empty --out new": "empty: not the folder of a run",
    "export empty": "Missing option '--out' / '-o'.",
    "score plain nowhere": "nowhere does not exist.",
    "score plain plain": "or pass one language for all with --language",
    "score tagged plain": "id 'a2' has no hypothesis. Pass --on-missing empty",
    "score plain tagged --language ces": "tagged:2: id 'a2' is not in the reference file. Both files must have",
    "report nowhere --out page.html": "nowhere does not exist. Create it with 'ctcdro train' or 'ctcdro sweep'.",
    "report data --out empty": "empty is a folder. Choose the name of a file to write.",
    "report data --out page.html": "data: not the folder of a run or a sweep",
    "report empty --out no/page.html": "no/page.html: the folder no does not exist. Create it first.",
    "config check nowhere.yaml": "nowhere.yaml does not exist.",
    "config init --out run.yaml": "run.yaml already exists. Choose another --out, or remove it.",
    "config shwo run.yaml": "No such command 'shwo'. Did you mean 'show'?",
    "recipes copy mel-smal": "Unknown recipe 'mel-smal'. Did you mean mel-small?",
    "recipes copy set2": "Unknown recipe 'set2'. Did you mean paper/set2?",
    "prepare fleur empty --out new": "No such command 'fleur'. Did you mean 'fleurs'?",
    "prepare fleurs empty --out new --text-norm upper": "--text-norm: 'upper' is not one of 'clean', 'paper', 'none'.",
    "prepare kaldi --train nowhere --out new": "nowhere does not exist.",
    "prepare kaldi --train empty --out new": "wav.scp: no such file; expected a Kaldi data folder",
    "prepare common-voice empty --out new": "no train.tsv in this folder",
    "prepare ml-superb --language-set set1 --out new": "Specify either CORPUS, the folder of the corpora, or",
    "prepare ml-superb empty --out new": "Specify either --language-set or --pairs",
    "prepare ml-superb empty --language-set set9 --out new": "--language-set must be one of set1",
    "prepare ml-superb empty --language-set set1 --out new": "no corpora found; expected folders such as",
    "prepare ml-superb empty --pairs ces --out new": "--pairs must look like ces:commonvoice,cmn:fleurs; got 'ces'.",
    "prepare synthetic --languages heb --out new": "Cannot synthesize speech for 'heb': eSpeak NG does not",
    "prepare synthetic --languages cs,ko --out new": "Did you mean ces, kor? Supported",
    "prepare synthetic --languages ces --duration 4 --out new": "--duration must be 2 numbers separated by colons",
    "prepare synthetic --languages ces --words few --out new": "--words must be a whole number",
    "prepare synthetic --languages ces --room cmn=1 --out new": "--room cmn=1: no language cmn (expected one of ces)",
    "prepare synthetic --languages ces --noise 20:10 --out new": "--noise must be two numbers from -30 to 100",
}


@pytest.mark.parametrize("name", sorted({command.split()[0] for command in WRONG}))
def test_a_wrong_command_gets_one_line_with_the_remedy(name, folder, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    for command in WRONG:
        if command.split()[0] == name:
            with case(f"ctcdro {command}"):
                assert_one_line(run(*command.split(), cwd=folder), remedy=WRONG[command])
                assert not list(folder.glob("new/*.jsonl"))


def assert_one_line(done, remedy):
    assert done.returncode == 2
    assert done.stdout == ""
    [line] = done.stderr.splitlines()
    assert line.startswith("ctcdro: ")
    assert remedy in line
    assert "Errno" not in line


def test_several_problems_of_a_configuration_get_a_line_each(folder):
    done = run(*TRAIN.split(), "--set", "seed=-1", "--set", "training.precision=fp8", cwd=folder)
    assert done.returncode == 2
    sources = [line.split(": ")[1] for line in done.stderr.splitlines()]
    assert sources == ["--set seed=-1", "--set training.precision=fp8"]


def test_errors_of_the_system_name_the_file_and_no_number(tmp_path):
    with pytest.raises(OSError, match="Errno") as raised:
        (tmp_path / "nowhere").read_bytes()
    assert describe(raised.value) == f"{tmp_path / 'nowhere'}: no such file or directory."
    assert describe(OSError("the disk is gone")) == "the disk is gone"


def test_verbose_adds_the_traceback_before_the_message(folder):
    plain, verbose = (run("check", "empty", *options, cwd=folder) for options in ([], ["--verbose"]))
    assert "Traceback" in verbose.stderr
    assert verbose.stderr.endswith(plain.stderr)


@pytest.mark.parametrize("verbose", [True, False])
def test_warnings_are_always_printed_and_other_log_messages_if_verbose(folder, monkeypatch, verbose):
    def check(*arguments):
        logging.getLogger("ctcdro.check").info("five files")
        logging.getLogger("ctcdro.check").warning("half a\x1b[2J file")
        raise ValueError("stop")

    monkeypatch.setattr("ctcdro.check.check.check_dataset", check)
    lines = run("check", "data", *(["--verbose"] if verbose else []), cwd=folder).stderr.splitlines()
    assert "ctcdro: warning: half a\\x1b[2J file" in lines
    assert ("ctcdro: info: five files" in lines) == verbose
    assert logging.getLogger("ctcdro").handlers == []


@pytest.mark.parametrize(
    ("environment", "is_printed"),
    [
        ({"RANK": "0", "WORLD_SIZE": "2"}, True),
        ({"RANK": "1", "WORLD_SIZE": "2"}, False),
        ({"RANK": ""}, True),
        ({"OMPI_COMM_WORLD_RANK": "1"}, True),  # possibly another command than that of rank 0
    ],
)
def test_warnings_are_printed_by_one_process_of_a_run(environment, is_printed, folder, monkeypatch):
    def warn(*arguments):
        logging.getLogger("ctcdro").warning("five")
        raise ValueError("stop")

    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("ctcdro.check.check.check_dataset", warn)
    assert ("ctcdro: warning: five" in run("check", "data", cwd=folder).stderr) == is_printed


def test_a_terminal_without_accents_shows_what_it_can(tmp_path):
    """Output with `±` or texts of corpora must not fail after the work is done."""
    dataset = write_dataset(tmp_path / "data", num_train=2, num_dev=2)
    ascii_only = {**os.environ, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C", "PYTHONIOENCODING": ""}
    command = [sys.executable, "-m", "ctcdro", "check", str(dataset)]
    done = subprocess.run(command, env=ascii_only, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "\\xb1" in done.stdout


def test_ctrl_c_says_how_to_resume(tmp_path):
    out = tmp_path / "out"
    command = [sys.executable, "-m", "ctcdro", "prepare", "synthetic", "--languages", "ces", "--out", str(out)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        deadline = time.monotonic() + 60
        while not list(out.glob("audio/*/*.wav")) and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, printed = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "ctcdro: stopped. Run the same command again to resume." in printed
    assert "Traceback" not in printed
