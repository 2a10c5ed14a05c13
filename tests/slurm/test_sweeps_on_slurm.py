"""Runs with two processes each that are preempted, killed or canceled end with the same bytes as on this machine."""

import os
import signal
import time
from pathlib import Path

import pytest
from commands import Command, ended

ERM, DRO = "erm-seed0", "ctc-dro-0.001-0.5-seed0"
SECONDS_TO_NOTICE = 150


def kill_second_process(cluster, job):
    """As the system does when memory is short."""
    [process] = [path.parent.name for path in Path("/proc").glob("[0-9]*/environ") if is_second_process(path, job)]
    os.kill(int(process), signal.SIGKILL)


def is_second_process(environment, job):
    try:
        variables = environment.read_bytes().split(b"\0")
        is_python = b"submitit.core._submit" in environment.with_name("cmdline").read_bytes().split(b"\0")
    except OSError:  # it has ended
        return False
    return is_python and {b"SLURM_PROCID=1", f"SLURM_JOB_ID={job}".encode()} <= set(variables)


def cancel(cluster, job):
    cluster.run("scancel", job)


def wait_for_steps(out, number, process):
    """Waits until both runs have taken so many steps."""
    logs = [out / "runs" / name / "group_weights.jsonl" for name in (ERM, DRO)]
    while not all(log.exists() and len(log.read_text().splitlines()) >= number for log in logs):
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("options", "disturb"),
    [(("--gpus-per-run", "2"), kill_second_process), (("--cpu", "--nodes-per-run", "2"), cancel)],
    ids=["one node, killed", "two nodes, canceled"],
)
def test_disturbed_runs_end_like_undisturbed_local_ones(options, disturb, cluster, sweep_file, local, tmp_path):
    out = tmp_path / "sweep"
    options = ("--cluster", "slurm", "--partition", "debug", "--threads", "1", "--time-limit", "1", *options)
    command = Command("sweep", ("sweep", str(sweep_file), "--out", str(out), *options), out)
    with command.start(also=cluster.environment) as process:
        wait_for_steps(out, 4, process)
        jobs = {name: job for job, name in cluster.states("squeue", "%A %j").items()}
        cluster.run("scancel", "--signal=USR2", jobs[ERM])  # what Slurm sends before it takes a job away
        disturbed = time.monotonic()
        disturb(cluster, jobs[DRO])
        while f"{DRO} failed" not in (line := process.stdout.readline()):
            assert line, "the command ended without noticing"
        seconds = time.monotonic() - disturbed
        print(f"The failure was reported after {seconds:.1f} s.")
        assert seconds < SECONDS_TO_NOTICE
        told = line + process.stdout.read()
    assert process.returncode == 1, told
    assert f"{DRO} failed: " in told
    assert "1 failed. Run the same command again to retry" in told
    assert "Restarts=1" in cluster.run("scontrol", "show", "job", jobs[ERM])
    assert not (out / "selected.json").exists()
    again = command.run(also=cluster.environment)
    assert again.returncode == 0, again.stdout
    assert ended(out) == ended(local)
