"""The job file of the recipes: it trains on two nodes, and queues itself again before its time limit."""

import time

from commands import ended

from ctcdro.recipes import copy_recipe

SECONDS = 300


def wait_until(condition):
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_job_that_reaches_its_time_limit_is_queued_again_and_ends_like_an_uninterrupted_run(cluster, local, tmp_path):
    whole, out, log = local / "runs" / "erm-seed0", tmp_path / "run", tmp_path / "job.log"
    options = ["--partition=debug", "--nodes=2", "--ntasks-per-node=1", "--gpus-per-node=1", "--cpus-per-task=1"]
    file = copy_recipe("slurm", tmp_path)
    submitted = ["sbatch", "--parsable", f"--output={log}", *options, str(file), str(whole / "config.yaml")]
    job = cluster.run(*submitted, "--out", str(out)).strip()
    steps = out / "group_weights.jsonl"
    wait_until(lambda: steps.exists() and len(steps.read_text().splitlines()) >= 4)
    cluster.run("scancel", "--batch", "--signal=USR2", job)  # what Slurm sends before the time limit
    wait_until(lambda: job not in cluster.states("squeue", "%A %T"))
    about = cluster.run("scontrol", "show", "job", job)
    assert "JobState=COMPLETED" in about, log.read_text()
    assert "Restarts=1" in about
    scored = ended(whole)
    assert ended(out) == {name: scored[name] for name in scored if not name.startswith(("scores", "predictions"))}
