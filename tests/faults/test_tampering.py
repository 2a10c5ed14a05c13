"""Files that change between restarts: damaged checkpoints cost steps, other data are rejected, clocks are ignored."""

import os
import random
import shutil

import pytest
import tones
from commands import Command, ended, write_run

NUM_DAMAGES = 12


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    return tones.write_dataset(tmp_path_factory.mktemp("dataset"))


@pytest.fixture(scope="module")
def whole(dataset, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    command = Command("train", ("train", str(write_run(folder, dataset)), "--out", str(folder / "run")), folder / "run")
    command.finish()
    return ended(command.out)


@pytest.fixture(scope="module")
def half(dataset, tmp_path_factory):
    """A run that was stopped in the middle, with its checkpoints."""
    folder = tmp_path_factory.mktemp("half")
    short = write_run(folder, dataset)
    command = Command("train", ("train", str(short), "--out", str(folder / "run")), folder / "run")
    process = command.start()
    checkpoints = command.out / "checkpoints"
    while process.poll() is None and not (checkpoints.exists() and len(list(checkpoints.glob("[0-9]*"))) >= 2):
        pass
    process.terminate()
    told, _ = process.communicate()
    assert process.returncode == 130, told
    return folder


def copied(half, tmp_path):
    shutil.copytree(half, tmp_path / "copy")
    out = tmp_path / "copy" / "run"
    return Command("train", ("train", str(tmp_path / "copy" / "run.yaml"), "--out", str(out)), out)


def truncate(content: bytes, rng: random.Random) -> bytes:
    return content[: rng.randrange(len(content))]


def flip(content: bytes, rng: random.Random) -> bytes:
    place = rng.randrange(len(content))
    return content[:place] + bytes([content[place] ^ (1 << rng.randrange(8))]) + content[place + 1 :]


@pytest.mark.parametrize("damage", [truncate, flip])
@pytest.mark.parametrize("number", range(NUM_DAMAGES // 2))
def test_a_damaged_checkpoint_costs_steps_and_nothing_else(damage, number, half, whole, tmp_path):
    command = copied(half, tmp_path)
    rng = random.Random(f"{damage.__name__} {number}")
    newest = max(path for path in (command.out / "checkpoints").iterdir() if path.name.isdigit())
    path = rng.choice(sorted(path for path in newest.rglob("*") if path.is_file()))
    path.write_bytes(damage(path.read_bytes(), rng))
    done = command.run()
    assert done.returncode == 0, done.stdout
    assert newest.name.lstrip("0") in done.stdout, "the message must name the skipped checkpoint"
    assert ended(command.out) == whole


def test_a_manifest_that_changed_is_refused(half, dataset, tmp_path):
    changed = tmp_path / "changed"
    shutil.copytree(dataset, changed)
    command = copied(half, tmp_path)
    config = tmp_path / "copy" / "run.yaml"
    train = dataset / "train.jsonl"
    before = train.read_text()
    try:
        train.write_text("".join(before.splitlines(keepends=True)[1:]))
        done = command.run()
    finally:
        train.write_text(before)
    assert config.exists()
    assert done.returncode == 2
    assert "train.jsonl" in done.stdout
    assert "Traceback" not in done.stdout
    command.finish()


@pytest.mark.parametrize("years", [-30, 30])
def test_files_that_seem_to_come_from_another_time_change_nothing(years, half, whole, tmp_path):
    """Changes file times, like a jump of the clock."""
    command = copied(half, tmp_path)
    for path in command.out.rglob("*"):
        then = path.stat().st_mtime + years * 365 * 86_400
        os.utime(path, (then, then))
    command.finish()
    assert ended(command.out) == whole


# Python runs it at startup: the clock is then wrong by up to thirty years.
JUMPING_CLOCK = """
import random, time
now, years = time.time, random.Random(0)
time.time = lambda: now() + years.uniform(-30, 30) * 365 * 86_400
time.time_ns = lambda: int(time.time() * 1e9)
"""


def test_a_clock_that_jumps_at_every_look_changes_nothing(half, whole, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(JUMPING_CLOCK)
    command = copied(half, tmp_path)
    done = command.run(also={"PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"})
    assert done.returncode == 0, done.stdout
    assert ended(command.out) == whole


def plant_photos(folder):
    """Foreign folders with names of checkpoints."""
    for name in ("1", "2019", "000000001", "999999999"):
        (folder / name).mkdir(parents=True)
        (folder / name / "photo.jpg").write_text(name)
    return sorted(folder.rglob("*.jpg"))


def test_folders_of_others_among_the_checkpoints_stay(half, whole, tmp_path):
    command = copied(half, tmp_path)
    photos = plant_photos(command.out / "checkpoints")
    command.finish()
    assert [path.read_text() for path in photos] == [path.parent.name for path in photos]
    assert ended(command.out) == whole


@pytest.mark.parametrize("name", ["checkpoints", ".lock"])
def test_nothing_is_read_or_written_through_a_link_in_a_run_folder(name, half, tmp_path):
    """An untrusted run folder must not affect other folders."""
    command = copied(half, tmp_path)
    photos = plant_photos(tmp_path / "photos")
    if name == "checkpoints":
        shutil.rmtree(command.out / name)
    (command.out / name).unlink(missing_ok=True)
    (command.out / name).symlink_to(tmp_path / "photos" if name == "checkpoints" else photos[0])
    before = {path: path.read_bytes() for path in command.out.rglob("*") if path.is_file()}
    done = command.run()
    assert done.returncode == 2, done.stdout
    assert f"{name} is a symbolic link" in done.stdout
    assert "Traceback" not in done.stdout
    assert [path.read_text() for path in photos] == [path.parent.name for path in photos]
    assert {path: path.read_bytes() for path in before} == before


def test_what_a_killed_run_left_unfinished_is_removed(half, whole, tmp_path):
    command = copied(half, tmp_path)
    for name in (".best", ".run.json"):
        (command.out / f"{name}.{'0' * 32}.ctcdro-new").mkdir()
    (command.out / ".best.mine").touch()
    command.finish()
    assert {path.name for path in command.out.glob(".*")} == {".lock", ".best.mine"}
    assert ended(command.out) == whole
