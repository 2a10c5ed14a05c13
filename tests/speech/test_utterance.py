"""Manifests: in and out unchanged, the order of groups, and errors that say where."""

import json
from pathlib import Path

import numpy as np
import pytest
from cases import case
from hypothesis import given
from hypothesis import strategies as st

from ctcdro import Manifest, Utterance
from ctcdro.speech.manifest import manifest_line, read_utterances
from ctcdro.storage.paths import escapes_folder

RECORD = {"audio_filepath": "clips/a.flac", "duration": 3.5, "text": "dobrý den", "lang": "ces"}

texts = st.text(st.characters(codec="utf-8"), min_size=1)
utterances = st.builds(
    Utterance,
    audio_filepath=st.just("/corpus/a.wav"),
    duration=st.floats(0, 1e6, exclude_min=True),
    text=st.text(st.characters(codec="utf-8")),
    lang=texts,
    id=st.none() | texts,
    offset=st.floats(0, 1e6),
    corpus=st.none() | texts,
    speaker=st.none() | texts,
    extra=st.dictionaries(texts.map(lambda name: f"x-{name}"), st.integers() | texts | st.booleans() | st.lists(texts)),
)


def write_lines(path, *records):
    path.write_text("".join(f"{record if isinstance(record, str) else json.dumps(record)}\n" for record in records))
    return path


@given(st.lists(utterances, min_size=1, max_size=5))
def test_what_is_written_is_read(tmp_path_factory, given):
    path = tmp_path_factory.mktemp("manifest") / "train.jsonl"
    Manifest(given).write(path)
    assert list(Manifest.read(path)) == given


def test_fields_are_read_and_unknown_ones_are_kept(tmp_path):
    record = RECORD | {"id": "a1", "offset": 1.5, "corpus": "cv", "speaker": "s", "accent": "moravian"}
    (utterance,) = Manifest.read(write_lines(tmp_path / "train.jsonl", record))
    assert utterance.extra == {"accent": "moravian"}
    assert utterance.to_record() == record | {"audio_filepath": str(tmp_path / "clips/a.flac")}


def test_audio_is_named_relative_to_the_manifest_where_it_can_be(tmp_path, monkeypatch):
    (tmp_path / "data").mkdir()
    path = write_lines(tmp_path / "data/train.jsonl", RECORD, RECORD | {"audio_filepath": "/elsewhere/b.wav"})
    manifest = Manifest.read(path)
    assert [u.audio_filepath for u in manifest] == [str(tmp_path / "data/clips/a.flac"), "/elsewhere/b.wav"]
    monkeypatch.chdir(tmp_path)
    relative = Manifest.read("data/train.jsonl")
    assert relative[0].audio_filepath == "data/clips/a.flac"
    for copy in ("data/copy.jsonl", "copy.jsonl"):
        relative.write(copy)
        written = [json.loads(line)["audio_filepath"] for line in (tmp_path / copy).read_text().splitlines()]
        assert written == ["clips/a.flac" if copy.startswith("data") else "data/clips/a.flac", "/elsewhere/b.wav"]


def test_windows_line_ends_byte_order_marks_and_blank_lines_are_taken(tmp_path):
    path = tmp_path / "train.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(RECORD).encode() + b"\r\n\r\n" + json.dumps(RECORD).encode())
    assert len(Manifest.read(path)) == 2
    assert [line for line, _ in read_utterances(path)] == [1, 3]


@given(
    st.sampled_from(["", "/", "//", "///", "/d/", "/d/e/", "./", "../"]),
    st.lists(st.sampled_from(["d", "e", "f.wav", "..", ".", ""]), min_size=1, max_size=6),
    st.sampled_from(["/", "/d", "/d/e", "/nowhere"]),
)
def test_audio_is_named_as_pathlib_would(start, parts, folder):
    path, folder = start + "/".join(parts), Path(folder)
    audio = Path.cwd() / path
    if path and audio != folder:
        if audio.is_relative_to(folder) and not escapes_folder(str(audio.relative_to(folder))):
            audio = audio.relative_to(folder)
        line = json.loads(manifest_line(Utterance(path, duration=1.0, text="", lang="ces"), folder))
        assert line["audio_filepath"] == audio.as_posix()


def test_writing_replaces_the_file_whole(tmp_path):
    path = tmp_path / "train.jsonl"
    path.write_text("before")

    unwritable = Manifest(
        [Utterance("a.wav", 1.0, "", "ces"), Utterance("b.wav", 1.0, "", "ces", extra={"x": object()})]
    )
    with pytest.raises(TypeError):
        unwritable.write(path)
    assert path.read_text() == "before"
    assert [file.name for file in tmp_path.iterdir()] == ["train.jsonl"]
    Manifest([Utterance("a.wav", 1.0, "", "ces")]).write(path)
    assert [file.name for file in tmp_path.iterdir()] == ["train.jsonl"]


def test_a_manifest_is_a_sequence():
    manifest = Manifest([Utterance("a.wav", 1.0, "x", "ces"), Utterance("b.wav", 2.5, "y", "cmn")])
    assert len(manifest) == 2
    assert manifest[1].lang == "cmn"
    assert manifest[:1] == [manifest[0]]
    assert manifest.durations.tolist() == [1.0, 2.5]


def test_groups_are_numbered_by_their_sorted_names_whatever_the_order():
    spoken = [("nan", "cv"), ("ces", "fleurs"), ("ces", "cv"), ("nan", "cv")]
    manifest = Manifest([Utterance("a.wav", 1.0, "", lang, corpus=corpus) for lang, corpus in spoken])
    by_language = manifest.groups()
    assert by_language.names == ["ces", "nan"]
    assert by_language.numbers.tolist() == [1, 0, 0, 1]
    for by in ("lang,corpus", ["lang", "corpus"]):
        assert manifest.groups(by).names == ["ces/cv", "ces/fleurs", "nan/cv"]
        assert manifest.groups(by).numbers.tolist() == [2, 1, 0, 2]


def test_groups_may_come_from_fields_we_do_not_know():
    manifest = Manifest([Utterance("a.wav", 1.0, "", "eng", extra={"accent": accent}) for accent in ("scots", "cork")])
    assert manifest.groups("accent").names == ["cork", "scots"]


def test_groups_settled_before_keep_their_numbers():
    manifest = Manifest([Utterance("a.wav", 1.0, "", "pol")])
    assert manifest.groups(names=["ces", "nan", "pol"]).numbers.tolist() == [2]


def test_a_group_not_settled_before_is_named_with_its_line(tmp_path):
    manifest = Manifest.read(write_lines(tmp_path / "dev.jsonl", RECORD, "", RECORD | {"lang": "khm"}))
    with pytest.raises(ValueError, match=r"dev\.jsonl:3: group 'khm' is not in `names` \(ces, cmn\)"):
        manifest.groups(names=["ces", "cmn"])


def test_a_field_to_group_by_that_is_missing_is_named_with_its_line(tmp_path):
    manifest = Manifest.read(write_lines(tmp_path / "train.jsonl", RECORD | {"corpus": "cv"}, RECORD))
    with pytest.raises(ValueError, match=r"train\.jsonl:2: cannot group by `corpus`: it must be text; got None"):
        manifest.groups("lang,corpus")
    with pytest.raises(ValueError, match="utterance 0: cannot group by `corpus`"):
        Manifest([Utterance("a.wav", 1.0, "", "ces")]).groups("corpus")


def test_numbers_of_numpy_and_paths_are_taken(tmp_path):
    utterance = Utterance(tmp_path / "a.wav", np.float32(1.5), "", "ces", offset=np.int64(2))
    Manifest([utterance]).write(tmp_path / "train.jsonl")
    assert list(Manifest.read(tmp_path / "train.jsonl")) == [utterance]


def test_calls_that_make_no_sense_are_named():
    for call, message in (
        (lambda manifest: manifest.groups(""), "`by` must name at least one field"),
        (
            lambda manifest: manifest.groups(names=["ces", "ces"]),
            "`names` must not contain duplicates; got ces, ces",
        ),
        (lambda manifest: Utterance("a\udcff.wav", 1.0, "", "ces"), "`audio_filepath` must be text that UTF-8 can"),
        (lambda manifest: Manifest("train.jsonl"), r"read a file with `Manifest.read\('train.jsonl'\)`"),
        (
            lambda manifest: Utterance("a", 1.0, "", "ces", extra={"lang": "deu"}),
            "`extra` must not contain fields .* lang",
        ),
    ):
        with case(message), pytest.raises(ValueError, match=message):
            call(Manifest([Utterance("a.wav", 1.0, "", "ces", corpus="cv")]))


def test_spaces_around_the_fields_to_group_by_do_not_matter():
    manifest = Manifest([Utterance("a.wav", 1.0, "", "ces", corpus="cv")])
    assert manifest.groups("lang, corpus").names == ["ces/cv"]


def test_names_that_would_run_together_are_rejected():
    manifest = Manifest([Utterance("a.wav", 1.0, "", "ces", corpus="a/b")])
    with pytest.raises(ValueError, match="cannot group by `corpus`: it must not contain '/'; got 'a/b'"):
        manifest.groups("lang,corpus")


def test_what_is_wrong_is_named_with_file_and_line(tmp_path):
    for line, message in (
        ("[1, 2]", r"not a JSON object on one line \(got \[1, 2\]\)"),
        ("{}", r"`audio_filepath` is missing \(found: no fields\)"),
        ({"audio_filepath": "a.wav", "duration": 1, "text": ""}, r"`lang` is missing \(found: audio_filepath, dur"),
        (RECORD | {"duration": "3.5"}, "`duration` must be a positive number of seconds below 1e.09, got '3.5'"),
        (RECORD | {"duration": True}, "`duration` must be a positive number of seconds below 1e.09, got True"),
        (RECORD | {"duration": float("nan")}, "`duration` must be a positive number of seconds below 1e.09, got nan"),
        (RECORD | {"duration": 10**400}, "`duration` must be a positive number of seconds below 1e.09, got 1000"),
        (RECORD | {"offset": -1}, "`offset` must be a non-negative number of seconds below 1e.09, got -1"),
        (RECORD | {"audio_filepath": 7}, "`audio_filepath` must be non-empty text, got 7"),
        (RECORD | {"lang": ""}, "`lang` must be non-empty text, got ''"),
        (RECORD | {"text": None}, "`text` must be text, got None"),
        (RECORD | {"id": 12}, "`id` must be non-empty text, got 12"),
    ):
        with case(line):
            path = write_lines(tmp_path / "train.jsonl", RECORD, line)
            with pytest.raises(ValueError, match=rf"train\.jsonl:2: .*{message}"):
                Manifest.read(path)


def test_an_empty_manifest_is_rejected(tmp_path):
    with pytest.raises(ValueError, match=r"train\.jsonl: no utterances"):
        Manifest.read(write_lines(tmp_path / "train.jsonl", ""))
