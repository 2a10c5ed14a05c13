"""A real Slurm cluster, and what runs on it must end with: `make test-slurm`."""

from pathlib import Path

import pytest
from cluster import Cluster, missing
from commands import Command, write_sweep
from tones import write_dataset


def pytest_collection_modifyitems(items):
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.slurm)


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    if reason := missing():
        pytest.skip(reason)
    with Cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def sweep_file(tmp_path_factory):
    """Two runs of sixty steps, long enough to be disturbed in the middle."""
    folder = tmp_path_factory.mktemp("sweep")
    training = {"num_batches": 120, "validate_every_batches": 40}
    return write_sweep(folder, write_dataset(folder / "dataset"), training=training)


@pytest.fixture(scope="session")
def local(sweep_file, tmp_path_factory):
    """The folder of the same sweep on this machine, with two processes per run, undisturbed."""
    out = tmp_path_factory.mktemp("local") / "sweep"
    options = ("--cpu", "--gpus-per-run", "2", "--jobs", "1", "--threads", "1")
    Command("sweep", ("sweep", str(sweep_file), "--out", str(out), *options), out).finish()
    return out
