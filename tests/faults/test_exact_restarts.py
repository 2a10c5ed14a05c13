"""kill -9 again and again, on what the paper trains: every restart ends with the bytes of a run that was never killed.

Half of the kills come at random moments of the whole run, the other half while something is being written, or within a
step, a validation or the filling of the feature cache. Of two processes, sometimes only one is killed, and the other
must end by itself.
"""

import itertools
import random
import shutil
import time
from dataclasses import dataclass

import pytest
import tiny_encoders
from exact_runs import CONTEXT, SKIPPING, Launch, make_config, outcome, write_junk
from tones import write_dataset

NUM_KILLS = 20
SECONDS_TO_SEE = 120
SECONDS_TO_STOP = 60


@dataclass(frozen=True)
class Case:
    """A kind of training.

    Attributes:
        model: one of `exact_runs.MODELS`.
        cache: whether the feature cache is "filled" or "empty" at the start, if there is one.
    """

    model: str
    cache: str | None = None
    num_processes: int = 1
    overrides: tuple[str, ...] = ()


ALL_OPTIONS = ("data.speed_perturbation=[0.9, 1.0, 1.1]", "data.noise_snr_db=[5, 30]", "data.num_workers=1")
ALL_OPTIONS += ("training.average_last_fraction=0.6", "optimizer.freeze_encoder_batches=5", *SKIPPING)

CASES = {
    "fine-tuning": Case("fine-tuning"),
    "fine-tuning, two workers": Case("fine-tuning", overrides=("data.num_workers=2",)),
    "LoRA": Case("LoRA"),
    "frozen, empty feature cache": Case("frozen", cache="empty"),
    "frozen, filled feature cache": Case("frozen", cache="filled"),
    "two processes, all options": Case("linear head", num_processes=2, overrides=ALL_OPTIONS),
    "two processes, sharded": Case("LoRA", num_processes=2, overrides=("training.sharding=full", *SKIPPING)),
    "two processes, unreadable audio": Case("fine-tuning", num_processes=2, overrides=SKIPPING),
}


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return tiny_encoders.write_with_dropout(tmp_path_factory.mktemp("encoder"))


@pytest.fixture(scope="module", autouse=True)
def everything_is_imported():
    """Makes the first launch as fast as the others."""
    process = CONTEXT.Process(target=int)
    process.start()
    process.join()


@pytest.mark.parametrize("name", CASES)
def test_a_run_that_is_killed_again_and_again_ends_with_the_same_bytes(name, encoder, tmp_path):
    case, moments = CASES[name], random.Random(name)
    write = write_junk if case.num_processes > 1 else write_dataset
    dataset, cache, out = write(tmp_path / "dataset"), tmp_path / "cache", tmp_path / "run"
    overrides = [*case.overrides, *([f"model.feature_cache_dir={cache}"] if case.cache else [])]
    config = tmp_path / "config.yaml"
    make_config(dataset, encoder, case.model, *overrides).write(config)

    def launch():
        return Launch(config, out, case.num_processes)

    started = time.monotonic()
    launch().finish()
    seconds = time.monotonic() - started
    expected = outcome(out)

    def begin_again():
        shutil.rmtree(out)
        if case.cache == "empty":
            shutil.rmtree(cache)

    begin_again()
    killed_at: list[int] = []  # lines of the log
    sights = itertools.cycle([until_seen(out / "checkpoints", ".[0-9]*"), until_seen(out, ".best*")])
    if case.cache == "empty":
        sights = itertools.cycle([next(sights), next(sights), until_more(cache, "**/*.npy", moments)])
    while len(killed_at) < NUM_KILLS:
        run = launch()
        if moments.random() < 0.5:
            time.sleep(moments.uniform(0, 0.7) * seconds)
        else:
            next(sights)(run)
            time.sleep(moments.uniform(0, 0.01))
        was_running = run.is_running
        if case.num_processes > 1 and moments.random() < 0.5 and run.have_joined:
            run.kill_rank(moments.randrange(case.num_processes))
            assert None not in run.wait_for_each(SECONDS_TO_STOP), "a process waits for one that was killed"
        codes = run.kill()
        if was_running:
            killed_at.append((out / "log.jsonl").read_text().count("\n") if (out / "log.jsonl").exists() else 0)
        else:
            assert codes == [0] * case.num_processes, run.errors
        if (out / "model").exists():  # it may have been killed after it finished
            assert outcome(out) == expected
            begin_again()
    launch().finish()
    assert outcome(out) == expected
    assert len(set(killed_at)) > 3, f"all kills came in the same places: {killed_at}"


def until_seen(folder, pattern):
    """Waits until a file of that name is being written, or the run has ended."""

    def wait(run):
        before = set(folder.glob(pattern))  # left over from an earlier kill
        deadline = time.monotonic() + SECONDS_TO_SEE
        while run.is_running and set(folder.glob(pattern)) <= before and time.monotonic() < deadline:
            time.sleep(0.0005)

    return wait


def until_more(folder, pattern, moments):
    """Waits until a few more files are there, or the run has ended."""

    def wait(run):
        number = len(list(folder.glob(pattern))) + moments.randrange(1, 15)
        deadline = time.monotonic() + SECONDS_TO_SEE
        while run.is_running and len(list(folder.glob(pattern))) < number and time.monotonic() < deadline:
            time.sleep(0.0005)

    return wait
