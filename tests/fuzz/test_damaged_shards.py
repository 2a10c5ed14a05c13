"""Damaged shards: cuts, tar files, and the metadata of webdataset."""

import io
import json
import tarfile

from hostile import FUZZ, altered, as_json, damaged, is_reported
from hypothesis import given
from hypothesis import strategies as st
from shards import add

from ctcdro.speech.shards.build import open_index

SPOKEN = {"text": "dobrý den", "language": "ces", "speaker": "anna", "custom": {"corpus": "cv", "more": [1]}}
CUT = {"id": "a", "start": 0, "duration": 1.0, "supervisions": [SPOKEN], "custom": {"quality": 3}}
METADATA = {"text": "dobrý den", "lang": "ces", "duration": 1.0}


def tar_of(members):
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        for name, content in members.items():
            add(tar, name, content)
    return file.getvalue()


TAR = tar_of({"a.flac": b"audio", "a.json": b"{}", "folder/b.flac": b"more", "folder/b.json": b"{}"})


def read(dataset, files):
    """Indexes these files, and reads what the index has."""
    folder = dataset / "train"
    folder.mkdir(exist_ok=True)
    for path in folder.iterdir():
        path.unlink()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    index = is_reported(lambda: open_index(dataset), dataset)
    if index is not None:
        index.vocabulary()
        groups = [index.group_of(number) for number in range(len(index))]
        assert groups == sorted(groups)
        assert all(one.duration > 0 and index.where(number) for number, one in enumerate(index))


altered_supervision = altered(SPOKEN).map(lambda spoken: as_json({**CUT, "supervisions": [spoken]}))


@given(st.one_of(damaged(as_json(CUT) + b"\n"), altered(CUT).map(as_json), altered_supervision))
@FUZZ
def test_cuts(tmp_path, content):
    read(tmp_path, {"cuts.0.jsonl": content, "recording.0.tar": tar_of({"a.flac": b"audio", "a.json": b"{}"})})


@given(damaged(TAR))
@FUZZ
def test_tar_files(tmp_path, content):
    cuts = as_json(CUT) + b"\n" + as_json({**CUT, "id": "folder/b"})
    read(tmp_path, {"cuts.0.jsonl": cuts, "recording.0.tar": content})
    read(tmp_path, {"0.tar": content})


@given(st.one_of(damaged(as_json(METADATA)), altered(METADATA).map(as_json)))
@FUZZ
def test_metadata_of_webdataset(tmp_path, content):
    read(tmp_path, {"0.tar": tar_of({"a.json": content, "a.flac": b"audio"})})


@given(altered({"cuts": ["cuts.0.jsonl"], "recording": ["recording.0.tar"]}))
@FUZZ
def test_lists_of_files(tmp_path, fields):
    (tmp_path / "train.json").write_text(json.dumps(fields, ensure_ascii=True))
    read(tmp_path, {"cuts.0.jsonl": as_json(CUT), "recording.0.tar": TAR})
