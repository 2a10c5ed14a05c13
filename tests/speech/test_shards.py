"""Shards: the same utterances as a manifest, an index that is built once, and an error for every damaged shard."""

import asyncio
import errno
import json
import os
import pickle
import re
import shutil
import tarfile
from dataclasses import replace
from pathlib import Path

import fsspec
import numpy as np
import pytest
import torch
from fsspec.asyn import AsyncFileSystem
from shards import add, change_cuts, write_shar, write_webdataset
from tones import write_dataset

from ctcdro.speech.audio import AudioError, header, read_audio
from ctcdro.speech.batch import Skipped
from ctcdro.speech.dataset import SpeechDataset, check_audio_exists
from ctcdro.speech.loader import load_batches
from ctcdro.speech.manifest import Manifest
from ctcdro.speech.shards import build
from ctcdro.speech.shards.build import open_index
from ctcdro.speech.shards.dataset import ShardDataset
from ctcdro.storage import remote
from ctcdro.storage.remote import download, open_binary, read_range

WRITERS = {"Shar": write_shar, "webdataset": write_webdataset}


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    return write_dataset(tmp_path_factory.mktemp("original"))


@pytest.fixture(scope="module", params=WRITERS.values(), ids=WRITERS.keys())
def folder(request, original, tmp_path_factory):
    dataset = tmp_path_factory.mktemp("shards") / "dataset"
    shutil.copytree(original, dataset)
    return request.param(dataset)


@pytest.fixture
def shar(original, tmp_path):
    """A folder to damage."""
    shutil.copytree(original, tmp_path / "dataset")
    return write_shar(tmp_path / "dataset")


def test_the_index_has_the_utterances_of_the_manifest(original, folder):
    manifest = {one.id: one for one in Manifest.read(original / "train.jsonl")}
    index = open_index(folder.parent)
    assert {one.id: (one.text, one.lang) for one in index} == {
        one.id: (one.text, one.lang) for one in manifest.values()
    }
    assert index.vocabulary() == Manifest(manifest.values()).vocabulary()
    assert index.vocabulary().characters_by_language == Manifest(manifest.values()).vocabulary().characters_by_language
    assert index.longest_duration == pytest.approx(Manifest(manifest.values()).longest_duration)
    assert index.group_names == ["aaa", "bbb"]
    assert index.group_sizes == [24, 24]
    assert [one.lang for one in index] == ["aaa"] * 24 + ["bbb"] * 24
    assert index.languages_of_groups() == ["aaa", "bbb"]
    durations = [manifest[one.id].duration for one in index]
    assert index.durations_between(0, 48) == pytest.approx(durations)
    assert index.durations_of(torch.tensor([47, 3])).tolist() == pytest.approx([durations[47], durations[3]])


def test_audio_and_labels_are_those_of_the_manifest(original, folder):
    manifest = {one.id: one for one in Manifest.read(original / "train.jsonl")}
    index = open_index(folder.parent)
    vocabulary = index.vocabulary()
    dataset = pickle.loads(pickle.dumps(ShardDataset(index, vocabulary)))  # as for workers that are not forked
    for number, one in enumerate(index):
        loaded = dataset[number]
        assert np.array_equal(loaded.inputs, read_audio(manifest[one.id].audio_filepath))
        assert loaded.labels == vocabulary.encode(one.text, one.lang)
        assert (loaded.group, loaded.index) == (number // 24, number)


def test_a_sample_is_found_by_places_within_languages(folder):
    index = open_index(folder.parent)
    numbers = index.find({"bbb": [23, 0], "aaa": [5]})
    assert numbers == [5, 24, 47]
    sample = index.select(numbers)
    assert [one.id for one in sample] == [index[number].id for number in numbers]
    assert sample.where(0) == index.where(5)
    dataset = ShardDataset(index, index.vocabulary(), numbers=numbers)
    assert [(dataset[place].index, dataset[place].group) for place in range(3)] == [(0, 0), (1, 1), (2, 1)]


def test_the_index_is_built_once_and_again_when_a_shard_changes(shar, monkeypatch):
    num_built = 0

    def counted(*arguments, **options):
        nonlocal num_built
        num_built += 1
        return write_index(*arguments, **options)

    write_index = build.write_index
    monkeypatch.setattr(build, "write_index", counted)
    digests = [open_index(shar.parent).digest for _ in range(2)]
    assert num_built == 1
    change_cuts(shar / "cuts.000001.jsonl.gz", lambda cut: {**cut, "duration": cut["duration"] + 0.01})
    digests.append(open_index(shar.parent).digest)
    assert num_built == 2
    assert digests[0] == digests[1] != digests[2]


@pytest.mark.parametrize("name", ["index.json", "shards.jsonl", "records.bin", "texts.bin"])
def test_a_truncated_index_is_built_again(shar, name):
    digest = open_index(shar.parent).digest
    path = shar.parent / "train-index/lang" / name
    path.write_bytes(path.read_bytes()[:-5])
    index = open_index(shar.parent)
    assert index.digest == digest
    assert len(list(index)) == 48


@pytest.mark.parametrize("key", ["groups", "languages", "text_size", "digest"])
def test_an_index_that_lacks_a_key_is_built_again(shar, key):
    path = open_index(shar.parent).folder / "index.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps({name: value for name, value in content.items() if name != key}))
    open_index(shar.parent)
    assert json.loads(path.read_text()) == content


def test_the_digest_depends_on_the_content_and_not_on_the_place(shar, tmp_path):
    digest = open_index(shar.parent).digest
    shutil.copytree(shar, tmp_path / "elsewhere/train")
    assert open_index(tmp_path / "elsewhere").digest == digest


def test_groups_may_be_other_fields(shar):
    for number in range(5):
        path = shar / f"cuts.{number:06d}.jsonl.gz"
        change_cuts(path, lambda cut: {**cut, "custom": {"corpus": "even" if int(cut["id"][-1]) % 2 == 0 else "odd"}})
    index = open_index(shar.parent, ["corpus"])
    assert index.group_names == ["even", "odd"]
    assert index.languages_of_groups() == []
    found = [index[number] for number in index.find({"bbb": range(24)})]
    assert [one.lang for one in found] == ["bbb"] * 24
    assert open_index(shar.parent, ["lang", "corpus"]).group_names == ["aaa/even", "aaa/odd", "bbb/even", "bbb/odd"]
    with pytest.raises(ValueError, match=r"cuts\.000000\.jsonl\.gz:1: cannot group by `gender`: it must be text"):
        open_index(shar.parent, ["gender"])


def test_listed_files_may_be_elsewhere_but_not_commands(shar, tmp_path):
    expected = open_index(shar.parent).digest
    names = {field: sorted(path.name for path in shar.glob(f"{field}.0*")) for field in ("cuts", "recording")}
    (tmp_path / "audio").mkdir()
    for name in names["recording"]:
        (shar / name).rename(tmp_path / "audio" / name)
    fields = {"cuts": names["cuts"], "recording": [str(tmp_path / "audio" / name) for name in names["recording"]]}
    (shar.parent / "train.json").write_text(json.dumps(fields))
    assert open_index(shar.parent).digest == expected
    for bad, message in [
        ({"cuts": fields["cuts"]}, r'expected lists of files in "cuts" and "recording"'),
        ({**fields, "recording": fields["recording"][1:]}, "5 files of cuts, but 4 of recordings"),
        ({**fields, "cuts": ["pipe:cat x"] * 5}, "commands are not executed"),
        ({**fields, "cuts": ["s3://bucket/cuts"] * 5}, "cuts must be local files"),
        ({**fields, "recording": ["gone.tar"] * 5}, r"gone\.tar: no such file"),
    ]:
        (shar.parent / "train.json").write_text(json.dumps(bad))
        with pytest.raises(ValueError, match=message):
            open_index(shar.parent)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_audio_is_read_by_url(shar, num_workers):
    """By fsspec, as from an object store."""
    index = open_index(shar.parent)
    before = ShardDataset(index, index.vocabulary())
    fields = {
        "cuts": sorted(path.name for path in shar.glob("cuts.*")),
        "recording": sorted(path.as_uri() for path in shar.glob("recording.*")),
    }
    (shar.parent / "train.json").write_text(json.dumps(fields))
    index = open_index(shar.parent)
    assert index.digest == open_index(shar.parent).digest
    assert index.location(0).path.startswith("file://")
    dataset = ShardDataset(index, index.vocabulary())
    for batch in load_batches(dataset, [[0, 47], [3]], num_workers):
        for number, inputs, length in zip(batch.indices.tolist(), batch.inputs, batch.lengths, strict=True):
            assert np.array_equal(inputs[:length], before[number].inputs)
    (shar / "recording.000000.tar").unlink()
    with pytest.raises(AudioError, match=r"file://.*recording\.000000\.tar: no such object or bucket"):
        dataset[0]
    with pytest.raises(FileNotFoundError, match=r"file://.*recording\.000000\.tar: no such object or bucket"):
        build.write_index(shar.parent, index.shards, [])
    (shar.parent / "train.json").write_text(json.dumps({**fields, "recording": ["nowhere://bucket/a.tar"] * 5}))
    with pytest.raises(OSError, match=r"nowhere://bucket/a\.tar: cannot be opened"):
        open_index(shar.parent)
    chain = "reference://a::file:///references.json"  # fsspec would evaluate the templates in that file
    (shar.parent / "train.json").write_text(json.dumps({**fields, "recording": [chain] * 5}))
    with pytest.raises(OSError, match=r"references\.json: chains of URLs are not supported"):
        open_index(shar.parent)


class Faulty(AsyncFileSystem):
    """An object store that ignores ranges, is overloaded, or does not answer."""

    protocol = "faulty"

    async def _cat_file(self, path, start=None, end=None, **options):
        if "overloaded" in path:
            raise RuntimeError("503 Slow Down")
        if "slow" in path:
            await asyncio.sleep(600)
        if "denied" in path or "empty" in path:  # errors of s3fs: a wrong region, a range of an empty object
            raise OSError(errno.EINVAL, "the region 'us-east-1' is wrong")
        return bytes(100)

    async def _info(self, path, **options):
        return {"size": {"empty.tar": 0, "endless.tar": None}.get(path, 100), "type": "file", "name": path}


FAULTS = {
    "a.tar": "20 bytes were requested, but 100 received: the server ignores ranges",
    "overloaded.tar": "RuntimeError: 503 Slow Down",
    "denied.tar": "the region 'us-east-1' is wrong",
    "slow.tar": "no answer within 0.1 s",
}


@pytest.mark.parametrize("name", FAULTS)
def test_faults_of_an_object_store_are_errors_that_name_the_url(name, monkeypatch):
    monkeypatch.setattr(remote, "SECONDS_PER_REQUEST", 0.1)
    fsspec.register_implementation("faulty", Faulty)
    message = rf"faulty://{name}: cannot be read \({FAULTS[name]}\)\. Check the address"
    for start in (0, 10):
        with pytest.raises(OSError, match=message):
            read_range(f"faulty://{name}", start, 20)


def test_an_empty_object_is_empty_and_one_without_size_is_an_error():
    fsspec.register_implementation("faulty", Faulty)
    assert read_range("faulty://empty.tar", 0, 20) == b""
    with pytest.raises(OSError, match=r"endless\.tar: cannot be read \(the server does not send its size\)"):
        open_binary("faulty://endless.tar")


def test_a_url_of_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(AudioError, match=r"pipe: is a folder, pipe or device; expected a file\."):
        read_audio((tmp_path / "pipe").as_uri())


def test_bad_audio_is_skipped_but_not_a_store_that_cannot_be_reached(original):
    fsspec.register_implementation("faulty", Faulty)
    [one, *_] = Manifest.read(original / "train.jsonl")
    urls = ["file:///missing.flac", "faulty://overloaded.flac"]
    manifest = Manifest([replace(one, audio_filepath=url) for url in urls])
    dataset = SpeechDataset(manifest, manifest.vocabulary(), on_bad_audio="skip")
    assert "file:///missing.flac: no such object or bucket" in dataset[0].error
    for num_workers in (0, 1):
        with pytest.raises(
            AudioError, match=r"faulty://overloaded\.flac: cannot be read \(RuntimeError: 503"
        ) as caught:
            list(load_batches(dataset, [[0, 1]], num_workers))
        assert "\n" not in str(caught.value)


def test_a_manifest_may_have_urls(original, tmp_path):
    manifest = Manifest.read(original / "train.jsonl")
    urls = Manifest([replace(one, audio_filepath=Path(one.audio_filepath).as_uri()) for one in manifest])
    urls.write(tmp_path / "train.jsonl")
    read = Manifest.read(tmp_path / "train.jsonl")
    assert list(read) == list(urls)
    check_audio_exists([read])
    assert np.array_equal(read_audio(read[0].audio_filepath), read_audio(manifest[0].audio_filepath))
    assert header(read[0].audio_filepath) == header(manifest[0].audio_filepath)


def test_large_files_are_downloaded_in_parts(tmp_path, monkeypatch):
    monkeypatch.setattr(remote, "BYTES_PER_REQUEST", 1000)
    content = np.random.default_rng(0).bytes(2500)
    (tmp_path / "a").write_bytes(content)
    url = (tmp_path / "a").as_uri()
    assert download(url) == content
    monkeypatch.setattr(remote, "MAX_BYTES", 2000)
    with pytest.raises(OSError, match=r"/a: 2,500 bytes, more than the limit of 2,000"):
        download(url)
    with open_binary(url) as file:
        for start, size in [(0, 2500), (2400, 200), (10, 5), (999, 2), (2500, 1), (3000, 1)]:
            assert file.seek(start) == start
            assert file.read(size) == content[start : start + size]


def test_fields_with_hyphens_have_their_own_index(shar):
    def set_fields(cut):
        return {**cut, "custom": {"corpus": "radio", "lang-corpus": "x"}}

    for path in shar.glob("cuts.*"):
        change_cuts(path, set_fields)
    assert len(open_index(shar.parent, ["lang", "corpus"]).group_names) == 2
    assert open_index(shar.parent, ["lang-corpus"]).group_names == ["x"]


def remove_audio(shar):
    (shar / "recording.000002.tar").unlink()


def remove_cuts(shar):
    (shar / "cuts.000002.jsonl.gz").unlink()


def remove_all(shar):
    for path in shar.iterdir():
        path.unlink()


def truncate_audio(shar):
    path = shar / "recording.000002.tar"
    path.write_bytes(path.read_bytes()[:20_000])


def truncate_cuts(shar):
    path = shar / "cuts.000002.jsonl.gz"
    path.write_bytes(path.read_bytes()[:-40])


def drop_cut(shar):
    dropped = []
    change_cuts(shar / "cuts.000002.jsonl.gz", lambda cut: {**cut, "id": dropped.append(cut["id"]) or dropped[0]})


def drop_members(shar):
    with tarfile.open(shar / "recording.000002.tar", "w") as tar:
        add(tar, "aaa-train-10.wav", b"")


def add_member(shar):
    with tarfile.open(shar / "recording.000002.tar", "a") as tar:
        add(tar, "extra.wav", b"RIFF")


def no_audio(shar):
    with tarfile.open(shar / "recording.000002.tar", "w") as tar:
        add(tar, "aaa-train-10.nodata", b"")


def changed(change):
    return lambda shar: change_cuts(shar / "cuts.000002.jsonl.gz", change)


DAMAGES = {
    "missing tar": (
        remove_audio,
        r"train: recording\.000002\.tar: no such file\. This shard is missing. Copy it, or remove",
    ),
    "missing cuts": (remove_cuts, r"recording\.000002\.tar: no cuts\.000002\.jsonl\.gz for this shard"),
    "empty folder": (remove_all, r"train: no shards\. Expected lhotse Shar"),
    "truncated tar": (truncate_audio, r"recording\.000002\.tar: truncated tar file: .* Copy or write it again"),
    "truncated cuts": (truncate_cuts, r"cuts\.000002\.jsonl\.gz:\d+: damaged gzip data"),
    "other order": (drop_cut, r"gz:2: cut 'aaa-train-10' is at the place of 'bbb-train-10\.wav' in"),
    "fewer members": (drop_members, r"000002\.tar: no audio of .*gz:2, cut 'bbb-train-10'"),
    "more members": (add_member, r"000002\.jsonl\.gz: no cut for 'extra\.wav' in"),
    "no audio": (no_audio, r"000002\.jsonl\.gz:1: cut 'aaa-train-10' has no audio"),
    "two supervisions": (
        changed(lambda cut: {**cut, "supervisions": cut["supervisions"] * 2}),
        r"gz:1: expected a cut with one supervision; it has 2\. Use `cuts\.trim_to_supervisions\(\)`",
    ),
    "no language": (
        changed(lambda cut: {**cut, "supervisions": [{"text": "a"}]}),
        "gz:1: `language` of the supervision is missing",
    ),
    "no duration": (changed(lambda cut: {**cut, "duration": None}), "gz:1: `duration` must be"),
    "later start": (changed(lambda cut: {**cut, "start": 1.5}), "gz:1: expected a cut that starts at 0, as in Shar"),
    "tab in text": (
        changed(lambda cut: {**cut, "supervisions": [{**cut["supervisions"][0], "text": "a\tb"}]}),
        r"gz:1: the text has '\\t', which cannot be a label. Normalize the texts",
    ),
}


@pytest.mark.parametrize(("damage", "message"), DAMAGES.values(), ids=DAMAGES.keys())
def test_a_damaged_shard_is_found_before_training_and_named(shar, damage, message):
    damage(shar)
    with pytest.raises(ValueError, match=message):
        open_index(shar.parent)
    assert not list(shar.parent.glob("train-index/*"))


def test_audio_that_disappears_or_shrinks_later_is_an_audio_error(shar):
    index = open_index(shar.parent)
    vocabulary = index.vocabulary()
    path = shar / "recording.000000.tar"
    path.write_bytes(path.read_bytes()[:1000])
    number = next(number for number, one in enumerate(index) if one.id == "aaa-train-0")
    message = r"cuts\.000000\.jsonl\.gz:1: .*recording\.000000\.tar: ends before byte [\d,]+\. Copy this shard again"
    with pytest.raises(AudioError, match=message):
        ShardDataset(index, vocabulary)[number]
    path.unlink()
    with pytest.raises(AudioError, match=r"recording\.000000\.tar: cannot be read .* Has it been moved"):
        ShardDataset(index, vocabulary)[number]
    skipped = ShardDataset(index, vocabulary, on_bad_audio="skip")[number]
    assert isinstance(skipped, Skipped)
    assert re.match(r".*cuts\.000000\.jsonl\.gz:1: ", skipped.error)


def in_train(dataset):
    (dataset / "train").mkdir(exist_ok=True)
    return dataset / "train"


WEBDATASET_DAMAGES = {
    "no JSON": ([("a.wav", b"RIFF")], r"0\.tar: utterance 'a': expected a JSON file and one audio file; found a\.wav"),
    "two audio files": ([("a.json", b"{}"), ("a.wav", b""), ("a.flac", b"")], "expected a JSON file and one audio"),
    "same names": ([("a.json", b"{}"), ("a.wav", b"")] * 2, r"found a\.json, a\.wav, a\.json, a\.wav"),
    "no object": ([("a.json", b"[]"), ("a.wav", b"")], r"'a\.json' must contain a JSON object"),
    "no language": ([("a.json", b'{"text": "a", "duration": 1}'), ("a.wav", b"")], "`lang` is missing"),
    "not audio": ([("a.json", b'{"text": "a", "lang": "aaa"}'), ("a.wav", b"RIFF")], r"a\.wav: not audio that"),
}


@pytest.mark.parametrize(("members", "message"), WEBDATASET_DAMAGES.values(), ids=WEBDATASET_DAMAGES.keys())
def test_a_damaged_utterance_of_webdataset_is_named(tmp_path, members, message):
    with tarfile.open(in_train(tmp_path) / "0.tar", "w") as tar:
        for name, content in members:
            add(tar, name, content)
    with pytest.raises(ValueError, match=message):
        open_index(tmp_path)


def test_text_files_replace_the_text_of_the_json(tmp_path):
    with tarfile.open(in_train(tmp_path) / "0.tar", "w") as tar:
        add(tar, "folder/a.b.json", b'{"text": "x", "lang": "aaa", "duration": 1.5}')
        add(tar, "folder/c.json", b'{"lang": "aaa", "duration": 1.5}')
        add(tar, "folder/c.txt", "dobrý den\n".encode())
        add(tar, "folder/c.flac", b"audio")
    with pytest.raises(ValueError, match="utterance 'folder/a': expected a JSON file"):
        open_index(tmp_path)
    with tarfile.open(in_train(tmp_path) / "0.tar", "w") as tar:
        add(tar, "folder/c.json", b'{"lang": "aaa", "duration": 1.5}')
        add(tar, "folder/c.txt", "dobrý den\n".encode())
        add(tar, "folder/c.flac", b"audio")
    [utterance] = open_index(tmp_path)
    assert (utterance.id, utterance.text, utterance.duration) == ("folder/c", "dobrý den", 1.5)
