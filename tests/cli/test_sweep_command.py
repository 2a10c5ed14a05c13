"""`ctcdro sweep`: its plan, its options, and its progress."""

import io
from types import SimpleNamespace

import pytest
import yaml
from in_process import run
from rich.console import Console

from ctcdro.cli import console
from ctcdro.cli.run_progress import JobProgress
from ctcdro.cli.sweep import _parse_options, print_rows
from ctcdro.sweeps.config import SweepSetting
from ctcdro.sweeps.jobs import Failure, LaunchState
from ctcdro.sweeps.selection import Row


def task(name, fraction=0.0):
    return SimpleNamespace(name=name, progress=lambda: (fraction, f"step {fraction:.0%}"))


class Screen(io.StringIO):
    def __init__(self, is_terminal):
        super().__init__()
        self.isatty = lambda: is_terminal


@pytest.mark.parametrize("is_terminal", [True, False])
def test_every_run_that_ended_is_named_and_a_terminal_shows_those_at_work(monkeypatch, is_terminal):
    monkeypatch.setenv("FORCE_COLOR", "1")  # makes no terminal of a file
    monkeypatch.setenv("TERM", "xterm")
    screen = Screen(is_terminal)
    monkeypatch.setattr(console, "messages", Console(file=screen, width=120))
    with JobProgress("3 runs") as progress:
        assert screen.getvalue() == ""  # an error before the first run stands alone
        state = LaunchState(waiting=[task("c")], running=[task("b", 0.25)], done=[task("a")])
        progress(state)
        state.waiting, state.running = [], [task("c", 0.5)]
        state.failures.append(Failure("b", "b.log", ["no disk"]))
        progress(state)
        state.is_stopping = True
        progress(state)
    shown = screen.getvalue()
    lines = (
        "3 runs",
        "1 of 3 are already finished",
        "b failed (2 of 3)",
        "Stopping; runs are writing their checkpoints",
    )
    for line in lines:
        assert shown.count(line) == 1
    assert ("step 50%" in shown) == is_terminal


@pytest.fixture
def config(tmp_path):
    settings = {
        "run": {"dataset": "nowhere", "model": {"encoder": "mel-small"}, "training": {"num_batches": 100}},
        "objectives": ["erm", "ctc-dro"],
        "step_sizes": [0.001],
        "smoothings": [0.1, 0.5],
        "seeds": [3, 4],
    }
    (tmp_path / "sweep.yaml").write_text(yaml.safe_dump(settings))
    return tmp_path / "sweep.yaml"


def test_a_dry_run_prints_the_plan_and_writes_nothing(config, tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    done = run("sweep", config, "--out", tmp_path / "out", "--dry-run", "--jobs", 2, "--threads", 3)
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines()]
    assert ["Baseline", "(ERM)", "3,", "4", "100"] in rows
    assert ["CTC-DRO", "0.001", "0.5", "3,", "4", "100"] in rows
    plan = (
        "6 runs (3 settings, 2 seeds): 600 batches; 2 runs at a time on the CPU (PyTorch finds no GPU), 3 threads each"
    )
    assert plan in done.stdout
    assert f"First run folder: {tmp_path / 'out' / 'runs' / 'erm-seed3'}" in done.stdout
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "where"),
    [
        ([], "2 runs at a time on GPUs 4, 5, 1 thread each"),
        (["--cpu", "--jobs", 2], "2 runs at a time on the CPU, 1 thread each"),
        (["--cluster", "slurm"], "6 runs at a time on Slurm, one GPU each, 4 threads each"),
        (["--cluster", "slurm", "--cpu"], "6 runs at a time on Slurm, no GPU each, 4 threads each"),
    ],
)
def test_gpus_are_used_unless_the_cpu_is_asked_for(config, tmp_path, monkeypatch, options, where):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1}, raising=False)
    monkeypatch.setattr("ctcdro.sweeps.submission.visible_gpus", lambda: ["4", "5"])
    assert where in run("sweep", config, "--out", tmp_path / "out", "--dry-run", *options).stdout


def test_finished_runs_are_counted_in_the_plan(config, tmp_path):
    (tmp_path / "out" / "runs" / "erm-seed4" / "model").mkdir(parents=True)
    assert "Already finished: 1 run\n" in run("sweep", config, "--out", tmp_path / "out", "--dry-run", "--cpu").stdout


def test_options_of_sbatch_are_keys_and_values():
    assert _parse_options(["account=speech", "qos=a=b"]) == {"account": "speech", "qos": "a=b"}


def test_models_that_predict_only_blanks_are_named(capsys):
    def row(objective, cer, lid):
        return Row(SweepSetting(objective=objective), 0, cer, "ces", cer, lid, 1.0)

    print_rows([row("erm", 1.0, 0.0)])
    assert "The model may predict only blanks, so train longer: Baseline (ERM)\n" in capsys.readouterr().out
    print_rows([row("erm", 1.0, 0.1), row("erm", 23.5, 0.0)])
    assert "only blanks" not in capsys.readouterr().out
