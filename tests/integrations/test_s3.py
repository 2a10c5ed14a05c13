"""Audio on an S3 store: a server on this machine gives the bytes of local files, and every fault is one line."""

import json
import shutil
import socket
import time
from dataclasses import replace
from pathlib import Path

import boto3
import in_process
import pytest
import s3fs
from commands import write_run
from moto.server import ThreadedMotoServer
from shards import write_shar
from tones import write_dataset

from ctcdro.runs.folder import RunFolder
from ctcdro.speech.manifest import Manifest
from ctcdro.storage import remote

BUCKET = "corpora"
SECONDS_TO_FAIL = 300  # with the defaults of s3fs, a silent server takes ten minutes


@pytest.fixture(scope="module")
def endpoint():
    server = ThreadedMotoServer("127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture(autouse=True)
def store(endpoint, monkeypatch, tmp_path):
    """The settings of a user, and a client."""
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    s3fs.S3FileSystem.clear_instance_cache()
    client = boto3.client("s3")
    client.create_bucket(Bucket=BUCKET)
    return client


def upload(store, path: Path) -> str:
    store.put_object(Bucket=BUCKET, Key=path.name, Body=path.read_bytes())
    return f"s3://{BUCKET}/{path.name}"


def move_audio(store, dataset: Path) -> None:
    """Moves the audio of the manifests to the store."""
    for path in dataset.glob("*.jsonl"):
        manifest = Manifest.read(path)
        moved = [replace(one, audio_filepath=upload(store, Path(one.audio_filepath))) for one in manifest]
        Manifest(moved).write(path)
    for path in dataset.glob("*.wav"):
        path.unlink()


def move_shards(store, dataset: Path) -> None:
    """Moves the audio of Shar to the store."""
    folder = dataset / "train"
    urls = []
    for path in sorted(folder.glob("recording.*")):
        urls.append(upload(store, path))
        path.unlink()
    cuts = sorted(path.name for path in folder.glob("cuts.*"))
    (dataset / "train.json").write_text(json.dumps({"cuts": cuts, "recording": urls}))


def train(folder: Path, dataset: Path, **changes) -> dict[str, bytes]:
    """The weights of the model and of the groups."""
    training = {"num_batches": 8, "validate_every_batches": 4, "checkpoint_every_steps": 2, "trackers": []}
    config = write_run(folder, dataset, training=training, **changes)
    done = in_process.run("train", config, "--out", folder / "run")
    assert done.returncode == 0, done.stderr
    run = RunFolder(folder / "run")
    return {path.name: path.read_bytes() for path in [*run.model.glob("*.safetensors"), run.group_weights]}


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("form", ["manifest", "Shar"])
def test_training_on_a_store_ends_with_the_bytes_of_training_on_files(form, num_workers, store, tmp_path):
    dataset = write_dataset(tmp_path / "dataset", num_train=8, num_dev=2)
    if form == "Shar":
        write_shar(dataset, shard_size=5)
    changes = {"data": {"num_workers": num_workers}}
    for name in ("local", "remote"):
        (tmp_path / name).mkdir()
    expected = train(tmp_path / "local", dataset, **changes)
    shutil.rmtree(dataset / "train-index", ignore_errors=True)
    move_audio(store, dataset) if form == "manifest" else move_shards(store, dataset)
    if form == "manifest":
        done = in_process.run("check", dataset)
        assert done.returncode == 0, done.stdout
    assert train(tmp_path / "remote", dataset, **changes) == expected


def without_key(store, monkeypatch):
    store.delete_object(Bucket=BUCKET, Key="aaa-train-0.wav")
    store.delete_object(Bucket=BUCKET, Key="recording.000000.tar")


def without_bucket(store, monkeypatch):
    for found in store.list_objects_v2(Bucket=BUCKET)["Contents"]:
        store.delete_object(Bucket=BUCKET, Key=found["Key"])
    store.delete_bucket(Bucket=BUCKET)


def without_credentials(store, monkeypatch):
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")


def with_an_empty_object(store, monkeypatch):
    for name in ("aaa-train-0.wav", "recording.000000.tar"):
        store.put_object(Bucket=BUCKET, Key=name, Body=b"")


def without_server(store, monkeypatch):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")


def with_a_silent_server(store, monkeypatch):
    """It accepts connections, and never answers."""
    server = socket.create_server(("127.0.0.1", 0))
    monkeypatch.setattr(remote, "SECONDS_PER_REQUEST", 3.0)
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.getsockname()[1]}")
    return server


FAULTS = {
    "missing key": (without_key, "no such object or bucket. Has it been moved?"),
    "missing bucket": (without_bucket, "no such object or bucket. Has it been moved?"),
    "no credentials": (without_credentials, "cannot be read (NoCredentialsError: Unable to locate credentials)."),
    "empty object": (with_an_empty_object, ("not audio that libsndfile can read", "truncated tar file")),
    "no server": (without_server, "cannot be read (EndpointConnectionError: Could not connect"),
    "silent server": (with_a_silent_server, "cannot be read (no answer within 3 s)."),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("form", ["manifest", "Shar"])
def test_a_fault_of_the_store_is_one_line_in_bounded_time(form, fault, store, monkeypatch, tmp_path):
    dataset = write_dataset(tmp_path / "dataset", num_train=8, num_dev=2)
    config = write_run(tmp_path, dataset, data={"num_workers": 1})
    if form == "manifest":
        move_audio(store, dataset)
    else:
        write_shar(dataset, shard_size=5)
        move_shards(store, dataset)
    change, expected = FAULTS[fault]
    kept = change(store, monkeypatch)
    s3fs.S3FileSystem.clear_instance_cache()
    started = time.monotonic()
    done = in_process.run("train", config, "--out", tmp_path / "run")
    assert time.monotonic() - started < SECONDS_TO_FAIL
    assert done.returncode == 2
    message = done.stderr.strip().splitlines()[-1]
    assert f"s3://{BUCKET}/" in message
    assert any(one in message for one in ([expected] if isinstance(expected, str) else expected))
    assert "Traceback" not in done.stderr
    del kept
