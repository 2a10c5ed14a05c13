"""`ctcdro groups`, run as users run it: noise is found, train alone decides, and training takes the groups."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
import soundfile
from in_process import run
from page_commands import SMALL
from tones import RATE, write_dataset

from ctcdro import Manifest
from ctcdro.speech.noise import add_noise

OPTIONS = ("--encoder", "mel-small")


def write_noisy(folder, languages=("aaa", "bbb")):
    """Tones; every second utterance has noise, which no field says except `channel`."""
    write_dataset(folder, languages, num_train=24, num_dev=6)
    rng = np.random.default_rng(0)
    for split in ("train", "dev", "test"):
        changed = []
        for index, one in enumerate(Manifest.read(folder / f"{split}.jsonl")):
            if index % 2:
                samples, _ = soundfile.read(one.audio_filepath)
                soundfile.write(one.audio_filepath, 0.5 * add_noise(samples, 0.0, rng), RATE)
            changed.append(replace(one, extra={"channel": ["clean", "noisy"][index % 2]}))
        Manifest(changed).write(folder / f"{split}.jsonl")
    return folder


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    return write_noisy(tmp_path_factory.mktemp("data") / "noisy")


@pytest.fixture(scope="module")
def grouped(dataset, one_thread):
    """The output of the command, and the dataset that it wrote."""
    out = dataset.parent / "grouped"
    done = run("groups", dataset, *OPTIONS, "--num-groups", 2, "--out", out)
    assert done.returncode == 0, done.stderr
    return done.stdout, out


def groups_of(folder, split):
    return [one.value("group") for one in Manifest.read(folder / f"{split}.jsonl")]


def test_groups_of_all_splits_are_those_of_the_noise(grouped):
    shown, out = grouped
    for split in ("train", "dev", "test"):
        pairs = {(one.value("channel"), one.value("group")) for one in Manifest.read(out / f"{split}.jsonl")}
        assert len(pairs) == 2, split
        assert {group for _, group in pairs} == {"group-1", "group-2"}
    assert "adjusted Rand index): languages -0.02, channel 1.00." in shown
    assert re.search(r"group-1\s+Ghotuo 50%, Barai 50%\s+(clean|noisy) 100%", shown)


def test_everything_else_stays_the_same(dataset, grouped):
    for split in ("train", "dev", "test"):
        before = Manifest.read(dataset / f"{split}.jsonl")
        after = Manifest.read(grouped[1] / f"{split}.jsonl")
        assert [replace(one, extra={"channel": one.extra["channel"]}) for one in after] == list(before)


def test_groups_do_not_depend_on_dev_and_test(dataset, grouped, tmp_path):
    for name in ("audio-of", "other"):
        (tmp_path / name).mkdir()
    for split, kept in {"train": slice(None), "dev": slice(3), "test": slice(1)}.items():
        Manifest(Manifest.read(dataset / f"{split}.jsonl")[kept]).write(tmp_path / "other" / f"{split}.jsonl")
    out = tmp_path / "grouped"
    assert run("groups", tmp_path / "other", *OPTIONS, "--num-groups", 2, "--out", out).returncode == 0
    assert groups_of(out, "train") == groups_of(grouped[1], "train")
    assert groups_of(out, "dev") == groups_of(grouped[1], "dev")[:3]


def test_the_same_command_can_be_run_again_but_not_with_other_options(dataset, grouped):
    out = grouped[1]
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    assert run("groups", dataset, *OPTIONS, "--num-groups", 2, "--out", out).returncode == 0
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    done = run("groups", dataset, *OPTIONS, "--num-groups", 3, "--out", out)
    assert done.returncode == 2
    assert "built with other options (num_groups: 2 → 3). Choose another --out" in done.stderr


def test_check_accepts_the_groups(grouped):
    done = run("check", grouped[1], "--group-by", "group", "--batch-duration", 4)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("soft", [[], ["--soft"]])
def test_training_takes_the_groups(dataset, tmp_path, soft, one_thread):
    out = tmp_path / "grouped"
    assert run("groups", dataset, *OPTIONS, "--num-groups", 3, *soft, "--no-audio", "--out", out).returncode == 0
    (tmp_path / "run.yaml").write_text(json.dumps({"dataset": str(out), "data": {"group_by": ["group"]}}))
    values = {**SMALL, "objective.name": "error-weighted"}
    options = [word for key, value in values.items() for word in ("--set", f"{key}={value}")]
    done = run("train", tmp_path / "run.yaml", "--out", tmp_path / "run", "--device", "cpu", *options)
    assert done.returncode == 0, done.stderr
    last = json.loads((tmp_path / "run/group_weights.jsonl").read_text().splitlines()[-1])
    assert list(last["weights"]) == ["group-1", "group-2", "group-3"]


def test_the_losses_of_a_run_are_shown(dataset, tmp_path, one_thread):
    (tmp_path / "run.yaml").write_text(json.dumps({"dataset": str(dataset)}))
    options = [word for key, value in SMALL.items() for word in ("--set", f"{key}={value}")]
    assert run("train", tmp_path / "run.yaml", "--out", tmp_path / "run", *options).returncode == 0
    done = run("groups", dataset, "--run", tmp_path / "run", "--out", tmp_path / "grouped")
    assert done.returncode == 0, done.stderr
    assert "loss per character" in done.stdout
    assert "groups have the highest silhouette (2: " in done.stdout


ERRORS = {
    "no features": ([], "Specify --encoder, a checkpoint or mel-small, or --run"),
    "no such encoder": (["--encoder", "no/such"], "Cannot load encoder 'no/such'"),
    "too many groups": ([*OPTIONS, "--num-groups", 25], "between 2 and half of the 48 training utterances; got 25."),
    "no such layer": ([*OPTIONS, "--layer", 1], "--layer (`layers` in Python) must be between -1 and 0"),
    "not a run": (["--run", "{dataset}"], "config.json"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_say_what_to_do_and_write_nothing(name, dataset, tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)  # its variable is read at import
    options, message = ERRORS[name]
    options = [str(option).format(dataset=dataset) for option in options]
    done = run("groups", dataset, *options, "--out", tmp_path / "out")
    assert done.returncode == 2
    assert message in done.stderr
    assert not (tmp_path / "out/train.jsonl").exists()


def test_the_dataset_itself_is_not_overwritten(dataset):
    before = (dataset / "train.jsonl").read_bytes()
    done = run("groups", dataset, *OPTIONS, "--overwrite", "--out", dataset)
    assert (done.returncode, "is the dataset itself. Choose another folder." in done.stderr) == (2, True)
    assert (dataset / "train.jsonl").read_bytes() == before


def test_missing_audio_is_named_before_features_are_computed(dataset, tmp_path):
    one = Manifest.read(dataset / "train.jsonl")[0]
    Manifest([replace(one, audio_filepath="missing.wav")]).write(tmp_path / "train.jsonl")
    done = run("groups", tmp_path, *OPTIONS, "--out", tmp_path / "out")
    assert (done.returncode, "missing.wav: no such file" in done.stderr) == (2, True)
