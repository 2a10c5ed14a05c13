"""`ctcdro sweep`: its plan, its options, and its progress."""

import io
from types import SimpleNamespace

import pytest
import yaml
from in_process import run
from rich.console import Console

from ctcdro.cli import console
from ctcdro.cli.run_progress import JobProgress
from ctcdro.cli.sweep import _parse_options
from ctcdro.cli.sweep_results import print_result
from ctcdro.sweeps.config import SweepSetting, parse_sweep
from ctcdro.sweeps.jobs import Failure, LaunchState
from ctcdro.sweeps.selection import Row
from ctcdro.sweeps.sweep import SweepFolder, SweepResult
from ctcdro.training import progress_text


def task(name, fraction=0.0):
    words = "dev: worst CER 5.0%" if fraction == 1 else f"step {fraction:.0%}"
    return SimpleNamespace(name=name, progress=lambda: (fraction, words), is_done=lambda: fraction == 1)


class Screen(io.StringIO):
    def __init__(self, is_terminal):
        super().__init__()
        self.isatty = lambda: is_terminal


@pytest.mark.parametrize("is_terminal", [True, False])
def test_phases_and_runs_that_start_or_end_are_named_and_those_at_work_are_shown(monkeypatch, is_terminal):
    monkeypatch.setenv("FORCE_COLOR", "1")  # makes no terminal of a file
    monkeypatch.setenv("TERM", "xterm")
    screen = Screen(is_terminal)
    monkeypatch.setattr(progress_text, "LINE_SECONDS", 0.0)
    monkeypatch.setattr(console, "messages", Console(file=screen, width=120))
    with JobProgress("3 runs") as progress:
        assert screen.getvalue() == ""  # an error before the first run stands alone
        state = LaunchState("Training", waiting=[task("c")], running=[task("b")], done=[task("a", 1.0)])
        progress(state)
        state.waiting, state.running = [], [task("c", 0.5)]
        state.failures.append(Failure("b", "b.log", ["no disk"]))
        progress(state)
        progress._bar.refresh()
        state.running, state.done = [], [*state.done, task("c", 1.0)]
        progress(state)
        state.is_stopping = True
        progress(state)
    shown = screen.getvalue()
    lines = (
        "3 runs",
        "Training: 3 jobs, of which 1 are already finished",
        "b started",
        "b failed (2 of 3)",
        "c started",
        "c: dev: worst CER 5.0% (3 of 3)",
        "Stopping; runs are writing their checkpoints",
    )
    for line in lines:
        assert shown.count(line) == 1, line
    assert "step 50%" in shown
    assert ("c: step 50%\n" in shown) == (not is_terminal)


@pytest.fixture
def config(tmp_path):
    settings = {
        "run": {"dataset": "nowhere", "model": {"encoder": "mel-small"}, "training": {"num_batches": 100}},
        "settings": [
            {"objective": "erm"},
            {"objective": "ctc-dro", "step_size": 0.001, "smoothing": [0.1, 0.5], "training.num_batches": [100, 50]},
        ],
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
    assert ["CTC-DRO", "0.001", "0.5", "num", "batches", "50", "3,", "4", "50"] in rows
    plan = (
        "10 runs (5 settings, 2 seeds): 800 batches; 2 runs at a time on the CPU (PyTorch finds no GPU), 3 threads each"
    )
    assert plan in done.stdout
    assert f"First run folder: {tmp_path / 'out' / 'runs' / 'erm-seed3'}" in done.stdout
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "where"),
    [
        ([], "2 runs at a time on GPUs 4, 5, 1 thread each"),
        (["--cpu", "--jobs", 2], "2 runs at a time on the CPU, 1 thread each"),
        (["--cluster", "slurm"], "10 runs at a time on Slurm, one GPU each, 4 threads each"),
        (["--cluster", "slurm", "--cpu"], "10 runs at a time on Slurm, no GPU each, 4 threads each"),
        (["--gpus-per-run", 2], "1 run at a time on GPUs 4, 5, 2 GPUs on 1 node each, 1 thread per process"),
        (
            ["--cluster", "slurm", "--gpus-per-run", 4, "--nodes-per-run", 2],
            "10 runs at a time on Slurm, 8 GPUs on 2 nodes each, 4 threads per process",
        ),
        (
            ["--cluster", "slurm", "--cpu", "--processes-per-run", 2],
            "10 runs at a time on Slurm, 2 processes on 1 node each, 4 threads per process",
        ),
    ],
)
def test_gpus_are_used_unless_the_cpu_is_asked_for(config, tmp_path, monkeypatch, options, where):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1}, raising=False)
    monkeypatch.setattr("ctcdro.sweeps.submission.visible_gpus", lambda: ["4", "5"])
    assert where in run("sweep", config, "--out", tmp_path / "out", "--dry-run", *options).stdout


def test_processes_that_cannot_share_a_step_are_rejected_before_anything_is_submitted(config, tmp_path):
    for options in (["--dry-run"], []):
        done = run("sweep", config, "--out", tmp_path / "out", "--cluster", "slurm", "--gpus-per-run", 3, *options)
        problem = "erm: optimizer.batches_per_step must be a multiple of the number of processes, 3; got 16."
        assert (done.returncode, problem in done.stderr) == (2, True), done.stderr
        assert not (tmp_path / "out").exists()


def test_finished_runs_are_counted_in_the_plan(config, tmp_path):
    (tmp_path / "out" / "runs" / "erm-seed4" / "model").mkdir(parents=True)
    assert "Already finished: 1 run\n" in run("sweep", config, "--out", tmp_path / "out", "--dry-run", "--cpu").stdout


def test_options_of_sbatch_are_keys_and_values():
    assert _parse_options(["account=speech", "qos=a=b"]) == {"account": "speech", "qos": "a=b"}


def test_values_of_the_run_that_the_sweep_replaces_are_named(tmp_path):
    values = {"dataset": "nowhere", "objective": {"step_size": 0.01}}
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(values))
    done = run("sweep", tmp_path / "run.yaml", "--out", tmp_path / "out", "--dry-run", "--cpu")
    note = "Note: the sweep has its own values of objective.step_size; those of the run have no effect.\n"
    assert done.stderr == note


def test_models_that_predict_only_blanks_are_named(capsys):
    config = parse_sweep({"run": {"dataset": "a"}, "settings": [{"objective": "erm"}]})

    def show(*rows):
        rows = [
            Row(SweepSetting("erm"), "runs/erm", seed, cer, "ces", cer, lid, 1.0)
            for seed, (cer, lid) in enumerate(rows)
        ]
        print_result(SweepResult(config, SweepFolder("sweep"), rows, [], []))
        return capsys.readouterr().out

    assert "The model may predict only blanks, so train longer: Baseline (ERM)\n" in show((1.0, 0.0))
    assert "only blanks" not in show((1.0, 0.1), (23.5, 0.0))
