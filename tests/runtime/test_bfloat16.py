"""bfloat16 on this CPU: each answer of the trial, and what runs do with it."""

import os
import platform
import signal
import subprocess
import sys

import in_process
import pytest
import torch
import yaml
from tones import write_dataset

from ctcdro.runtime import bfloat16
from ctcdro.storage.json_files import read_log

# A process that runs these dies of an illegal instruction: always; unless AMX is avoided; never.
DIES = f"import os; os.kill(os.getpid(), {signal.SIGILL:d})"
CRASHES = {
    "fails": DIES,
    "without-amx": f"import os; os.environ.get('{bfloat16.ISA_LIMIT}') == '{bfloat16.WITHOUT_AMX}' or exec({DIES!r})",
    "works": "",
}


@pytest.fixture
def unknown(monkeypatch):
    """An environment in which no trial was made."""
    for name in (bfloat16.VARIABLE, bfloat16.ISA_LIMIT):
        monkeypatch.setenv(name, "")  # restored afterwards, also if it was not set
        monkeypatch.delenv(name)


@pytest.fixture(params=CRASHES)
def answer(request, unknown, monkeypatch):
    monkeypatch.setattr(bfloat16, "TRIAL", (sys.executable, "-c", CRASHES[request.param]))
    return request.param


def test_a_process_that_dies_gives_the_answer_and_amx_is_avoided_only_where_that_helps(answer):
    assert bfloat16.prepare_cpu() == (answer != "fails")
    assert os.environ[bfloat16.VARIABLE] == answer
    assert os.environ.get(bfloat16.ISA_LIMIT) == (bfloat16.WITHOUT_AMX if answer == "without-amx" else None)


def test_one_trial_answers_for_all_child_processes(answer, monkeypatch):
    first = bfloat16.prepare_cpu()
    monkeypatch.setattr(bfloat16, "TRIAL", ("this command does not exist",))
    assert bfloat16.prepare_cpu() == first
    inherited = "from ctcdro.runtime import bfloat16; bfloat16.TRIAL = (); print(bfloat16.prepare_cpu())"
    assert subprocess.check_output([sys.executable, "-c", inherited], text=True).strip() == str(first)


def test_the_instruction_set_that_a_user_chose_is_kept(answer, monkeypatch):
    monkeypatch.setenv(bfloat16.ISA_LIMIT, "AVX2")
    assert bfloat16.prepare_cpu() == (answer == "works")
    assert os.environ[bfloat16.ISA_LIMIT] == "AVX2"


def test_an_unknown_answer_is_rejected(monkeypatch):
    monkeypatch.setenv(bfloat16.VARIABLE, "yes")
    with pytest.raises(ValueError, match="CTCDRO_CPU_BFLOAT16 must be one of works, without-amx, fails; got 'yes'"):
        bfloat16.prepare_cpu()


@pytest.mark.bfloat16
def test_the_trial_itself_survives_where_bfloat16_works():
    done = subprocess.run(bfloat16.TRIAL, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def write_config(folder, **training):
    """Two steps."""
    values = {
        "dataset": str(write_dataset(folder / "tones", num_train=6, num_dev=2)),
        "model": {"encoder": "mel-small", "head": "linear"},
        "data": {"num_workers": 0},
        "sampling": {"batch_duration": 3.0},
        "optimizer": {"batches_per_step": 1},
        "training": {"num_batches": 2, "validate_every_batches": 2, "trackers": [], **training},
    }
    path = folder / "run.yaml"
    path.write_text(yaml.safe_dump(values))
    return path


@pytest.fixture
def no_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


def run_process(program, *arguments, answer, **variables):
    """Runs a program on a CPU for which the trial gave an answer, with any GPU hidden."""
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "COLUMNS": "200", bfloat16.VARIABLE: answer, **variables}
    line = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.run(line, capture_output=True, text=True, env=environment)


@pytest.mark.parametrize("command", ["train", "sweep"])
def test_a_run_that_cannot_use_bfloat16_ends_with_a_message_before_it_starts(tmp_path, monkeypatch, no_gpu, command):
    monkeypatch.setenv(bfloat16.VARIABLE, "fails")
    config = write_config(tmp_path, precision="bf16")
    done = in_process.run(command, config, "--out", tmp_path / "out")
    assert done.returncode == 2
    assert "training.precision: bf16 does not work on this CPU" in done.stderr
    assert "Set training.precision: fp32." in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()


def first_loss(folder):
    return next(read_log(folder / "log.jsonl"))["loss"]


@pytest.mark.bfloat16
def test_a_run_in_bfloat16_trains_and_one_in_float32_does_not_ask_for_it(tmp_path, monkeypatch, no_gpu):
    config = write_config(tmp_path)
    answers = {"bf16": os.environ[bfloat16.VARIABLE], "fp32": "an answer that would be rejected"}
    for precision, answer in answers.items():
        monkeypatch.setenv(bfloat16.VARIABLE, answer)
        change = f"training.precision={precision}"
        done = in_process.run("train", config, "--out", tmp_path / precision, "--set", change)
        assert done.returncode == 0, done.stderr
    half, single = (first_loss(tmp_path / precision) for precision in answers)
    assert half != single
    assert half == pytest.approx(single, rel=0.05)


# Without AMX, the limit that avoids it changes nothing; this one does. The convolution prints the one in force.
WITH_A_LIMIT_THAT_SHOWS = """
import atexit

import torch

from ctcdro.cli import main as cli
from ctcdro.runtime import bfloat16

bfloat16.WITHOUT_AMX = "SSE41"
atexit.register(torch.nn.functional.conv1d, torch.ones(1, 256, 256), torch.ones(8, 256, 3))
cli.main()
"""


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="needs the instruction sets of x86")
def test_a_run_limits_the_instruction_set_before_it_is_first_used(tmp_path, unknown):
    config = write_config(tmp_path, precision="bf16")
    arguments = (WITH_A_LIMIT_THAT_SHOWS, "train", config, "--out", tmp_path / "out")
    done = run_process(*arguments, answer="without-amx", ONEDNN_VERBOSE="1")
    assert done.returncode == 0, done.stderr
    assert "isa:Intel SSE4.1" in done.stdout
