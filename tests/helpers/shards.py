"""Turns the training data of a dataset into shards, as lhotse's `CutSet.to_shar` and webdataset write them."""

import gzip
import io
import json
import tarfile
from pathlib import Path

from ctcdro.speech.manifest import Manifest


def write_shar(dataset, shard_size=10):
    """Replaces train.jsonl by lhotse Shar; returns its folder."""
    folder = dataset / "train"
    for number, utterances in enumerate(_take_shards(dataset, shard_size)):
        with tarfile.open(folder / f"recording.{number:06d}.tar", "w") as tar:
            for one in utterances:
                add(tar, f"{one.id}.wav", Path(one.audio_filepath).read_bytes())
                add(tar, f"{one.id}.json", json.dumps({"id": one.id, "duration": one.duration}).encode())
        lines = "".join(json.dumps(cut(one)) + "\n" for one in utterances)
        (folder / f"cuts.{number:06d}.jsonl.gz").write_bytes(gzip.compress(lines.encode(), mtime=0))
    return folder


def write_webdataset(dataset, shard_size=10):
    """Replaces train.jsonl by tar files with audio and JSON; returns their folder."""
    folder = dataset / "train"
    for number, utterances in enumerate(_take_shards(dataset, shard_size)):
        with tarfile.open(folder / f"{number:06d}.tar", "w") as tar:
            for one in utterances:
                add(tar, f"{one.id}.json", json.dumps({"text": one.text, "lang": one.lang}).encode())
                add(tar, f"{one.id}.wav", Path(one.audio_filepath).read_bytes())
    return folder


def _take_shards(dataset, shard_size):
    """The shards: the languages take turns, as in shuffled data."""
    utterances = list(Manifest.read(dataset / "train.jsonl"))
    (dataset / "train.jsonl").unlink()
    (dataset / "train").mkdir()
    utterances.sort(key=lambda one: (int(one.id.rpartition("-")[2]), one.lang))
    return [utterances[start : start + shard_size] for start in range(0, len(utterances), shard_size)]


def cut(one):
    supervision = {"id": one.id, "recording_id": one.id, "start": 0.0, "duration": one.duration, "channel": 0}
    supervision |= {"text": one.text, "language": one.lang}
    return {
        "id": one.id,
        "start": 0,
        "duration": one.duration,
        "channel": 0,
        "supervisions": [supervision],
        "type": "MonoCut",
    }


def add(tar, name, content):
    member = tarfile.TarInfo(name)
    member.size = len(content)
    tar.addfile(member, io.BytesIO(content))


def change_cuts(path, change):
    """Applies a function to every cut of a shard."""
    cuts = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
    lines = "".join(json.dumps(change(one)) + "\n" for one in cuts)
    path.write_bytes(gzip.compress(lines.encode(), mtime=0))
