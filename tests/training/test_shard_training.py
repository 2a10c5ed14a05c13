"""Training on shards: exact restarts, an even split over processes, and an end with a message if a shard is damaged."""

import shutil
import signal

import in_process
import pytest
from exact_runs import Launch, interrupt, make_config, outcome
from shards import write_shar
from tones import write_dataset

from ctcdro.runs.folder import RunFolder
from ctcdro.speech.manifest import Manifest
from ctcdro.speech.shards.build import open_index
from ctcdro.storage.json_files import read_json, read_log
from ctcdro.training.loop import train

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def manifests(tmp_path_factory):
    return write_dataset(tmp_path_factory.mktemp("manifests"), num_train=10, num_dev=2)


@pytest.fixture(scope="module")
def dataset(manifests, tmp_path_factory):
    folder = tmp_path_factory.mktemp("shards") / "dataset"
    shutil.copytree(manifests, folder)
    write_shar(folder, shard_size=7)
    return folder


def on_shards(dataset, *overrides):
    """Chunks of four utterances, so that the passes of a run have several."""
    return make_config(dataset, "mel-small", None, "sampling.chunk_size=4", *overrides)


METHODS = {
    "CTC-DRO": (),
    "limited passes": ("sampling.max_passes=8", "data.speed_perturbation=[0.9, 1.1]"),
    "error-weighted": ("objective.name=error-weighted", "objective.signal=error_rate"),
}


@pytest.mark.parametrize("method", METHODS)
def test_a_run_on_shards_resumes_exactly_with_and_without_workers(dataset, tmp_path, method):
    def config(num_workers):
        return on_shards(dataset, f"data.num_workers={num_workers}", *METHODS[method])

    whole = outcome(train(config(0), tmp_path / "whole").path)
    for num_workers in (0, 2):
        out = tmp_path / f"{num_workers} workers"
        interrupt(config(num_workers), out, 1)
        interrupt(config(num_workers), out, 5)
        interrupt(config(num_workers), out, 6, after="validation")
        shutil.rmtree(dataset / "train-index")  # an index that is built again changes nothing
        found = outcome(train(config(num_workers), out).path)
        if method == "error-weighted" and num_workers:  # workers request batches before the weights change
            assert found["log"][0] == whole["log"][0]
        else:
            assert found == whole


def test_commands_that_need_a_manifest_say_that_shards_are_not_supported(dataset, tmp_path):
    folder = RunFolder(tmp_path / "run")
    folder.model.mkdir(parents=True)
    on_shards(dataset).write(folder.config)
    out = ["--out", tmp_path / "out"]
    for command in (
        ["check", dataset],
        ["prepare", "joined", dataset, *out],
        ["groups", dataset, "--encoder", "mel-small", *out],
        ["evaluate", folder.path, "--split", "train"],
    ):
        done = in_process.run(*command)
        assert done.returncode == 2
        assert f"the training data are shards, which `ctcdro {command[0]}" in done.stderr


@pytest.fixture(scope="module")
def one_shard(manifests, tmp_path_factory):
    folder = tmp_path_factory.mktemp("one shard") / "dataset"
    shutil.copytree(manifests, folder)
    write_shar(folder, shard_size=1000)
    return folder


def test_two_processes_share_one_shard_evenly_and_resume_exactly(one_shard, tmp_path):
    config = on_shards(one_shard)
    config.write(tmp_path / "config.yaml")
    Launch(tmp_path / "config.yaml", tmp_path / "whole", num_processes=2).finish()
    killed = Launch(tmp_path / "config.yaml", tmp_path / "run", num_processes=2, killed_at=5)
    assert killed.wait()[0] == -signal.SIGKILL, killed.errors
    Launch(tmp_path / "config.yaml", tmp_path / "run", num_processes=2).finish()
    assert outcome(tmp_path / "run") == outcome(tmp_path / "whole")
    single = train(on_shards(one_shard), tmp_path / "single")
    amounts = [
        [record["durations"] for record in read_log(RunFolder(path).group_weights)]
        for path in (tmp_path / "whole", single.path)
    ]
    assert amounts[0] == amounts[1]  # the same batches, whether one process takes them or two


def test_the_diagnosis_is_that_of_the_same_data_in_a_manifest(manifests, dataset, tmp_path):
    folders = [train(on_shards(data, "training.num_batches=6"), tmp_path / data.name) for data in (manifests, dataset)]
    first, second = (read_json(folder.diagnosis)["languages"] for folder in folders)
    for language in ("aaa", "bbb"):
        for key in ("minutes", "characters_per_second", "num_sampled"):
            assert second[language][key] == pytest.approx(first[language][key])
        assert second[language]["passes"] == pytest.approx(first[language]["passes"], rel=0.5)


def test_a_changed_shard_cannot_be_resumed(dataset, tmp_path):
    shutil.copytree(dataset, tmp_path / "dataset")
    config = on_shards(tmp_path / "dataset")
    interrupt(config, tmp_path / "run", 3)
    (tmp_path / "dataset/train/cuts.000002.jsonl.gz").unlink()
    (tmp_path / "dataset/train/recording.000002.tar").unlink()
    with pytest.raises(ValueError, match=r"Cannot resume .*dataset/train-index/lang"):
        train(config, tmp_path / "run")


def test_impossible_combinations_are_rejected(dataset, manifests, tmp_path):
    for sampler in ("similar-length", "group-uniform"):
        config = make_config(dataset, "mel-small", None, f"sampling.sampler={sampler}", "sampling.batch_duration=50")
        with pytest.raises(ValueError, match=rf"sampling\.sampler: {sampler} needs train\.jsonl, .* are shards"):
            train(config, tmp_path / "run")
    with pytest.raises(ValueError, match=r"`max_passes`: 1 passes over all groups are \d+ batches, fewer than the 18"):
        train(make_config(manifests, "mel-small", None, "sampling.max_passes=1"), tmp_path / "run")


def test_a_manifest_has_precedence_over_a_folder_named_train(dataset, manifests, tmp_path):
    shutil.copytree(dataset, tmp_path / "both")
    Manifest(Manifest.read(manifests / "train.jsonl")).write(tmp_path / "both/train.jsonl")
    folder = train(make_config(tmp_path / "both", "mel-small", None, "training.num_batches=2"), tmp_path / "run")
    expected = train(make_config(manifests, "mel-small", None, "training.num_batches=2"), tmp_path / "expected")
    assert outcome(folder.path)["log"] == outcome(expected.path)["log"]


def truncate(dataset):
    path = dataset / "train/recording.000001.tar"
    path.write_bytes(path.read_bytes()[:10_000])


def remove(dataset):
    (dataset / "train/recording.000001.tar").unlink()


def truncate_indexed(dataset):
    """After the index was built, and with the time of before, as by a damaged disk."""
    open_index(dataset)
    path = dataset / "train/recording.000001.tar"
    path.write_bytes(path.read_bytes()[:10_000])


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (truncate, r"recording.000001.tar: truncated tar file"),
        (remove, "This shard is missing. Copy it, or remove the shard's other file, cuts.000001.jsonl.gz."),
        (truncate_indexed, r"recording.000001.tar: truncated tar file"),
    ],
)
def test_both_processes_end_with_a_message_if_a_shard_is_damaged(dataset, tmp_path, damage, message):
    shutil.copytree(dataset, tmp_path / "dataset")
    damage(tmp_path / "dataset")
    on_shards(tmp_path / "dataset").write(tmp_path / "config.yaml")
    launch = Launch(tmp_path / "config.yaml", tmp_path / "run", num_processes=2)
    assert launch.wait_for_each(seconds=300) == [1, 1]
    assert message in launch.errors
