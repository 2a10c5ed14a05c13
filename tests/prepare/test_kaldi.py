"""Kaldi folders: segments, languages, and what is rejected in wav.scp."""

import pytest
from layouts import write_audio, write_lines

from ctcdro.prepare.prepare import prepare
from ctcdro.prepare.readers.kaldi import read_kaldi


def write(folder, **files):
    for name, lines in files.items():
        write_lines(folder / name.replace("wav_scp", "wav.scp"), lines)
    write_audio(folder / "a.wav", 3.0)


def test_commands_are_rejected_and_not_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for command in ("sox a.mp3 -t wav - |", "touch ran |", "| touch ran", "cat a.wav|"):
        write(tmp_path, wav_scp=["u1 a.wav", f"u2 {command}"], text=["u1 ahoj", "u2 ahoj"])
        with pytest.raises(ValueError, match=r"wav\.scp:2: a command, which is not run"):
            list(read_kaldi({"train": [tmp_path]}, lang="ces"))
    assert not (tmp_path / "ran").exists()


def test_archives_and_streams_are_rejected(tmp_path):
    for location in ("raw.ark:1234", "raw.ark", "-", "", "http://host/a.wav"):
        write(tmp_path, wav_scp=[f"u1 {location}"], text=["u1 ahoj"])
        with pytest.raises(ValueError, match=r"wav\.scp:1: expected the path of an audio file"):
            list(read_kaldi({"train": [tmp_path]}, lang="ces"))


def test_segments_are_stretches_of_recordings(tmp_path):
    write(
        tmp_path,
        wav_scp=["rec a.wav"],
        segments=["u1 rec 0.5 1.75 0", "u2 rec 2 -1", "u3 rec 2.5 3.75", "u4 nowhere 0 1"],
        text=["u1 ahoj", "u2 ahoj ahoj", "u3 beyond", "u4 nowhere"],
    )
    done = prepare(read_kaldi({"train": [tmp_path]}, lang="ces"), tmp_path / "out", {})
    assert [(one.id, one.offset, one.duration) for one in done.manifests["train"]] == [("u1", 0.5, 1.25), ("u2", 2, 1)]
    assert [(one.id, one.reason) for one in done.dropped] == [("u3", "outside its audio"), ("u4", "missing audio")]


def test_segments_that_cannot_be_are_named(tmp_path):
    for line in ["u1 rec 2 1", "u1 rec a b", "u1 rec 1", "u1 rec -1 2", "u1 rec nan nan"]:
        write(tmp_path, wav_scp=["rec a.wav"], segments=[line], text=["u1 ahoj"])
        with pytest.raises(ValueError, match="segments:1: expected"):
            list(read_kaldi({"train": [tmp_path]}, lang="ces"))


def test_languages_come_from_utt2lang_or_a_map_by_utterance_or_speaker_or_are_one(tmp_path):
    write(tmp_path, wav_scp=["u1 a.wav", "u2 a.wav", "u3 a.wav", "u4 a.wav"], text=["u1 a", "u2 b", "u3 c", "u4 d"])
    write_lines(tmp_path / "utt2spk", ["u1 s1", "u2 s2", "u3 s3", "u4 s4"])
    write_lines(tmp_path / "utt2lang", ["u1 ces"])
    write_lines(tmp_path / "map", ["u1 deu", "u2 slk", "s3 pol"])
    found = read_kaldi({"train": [tmp_path]}, lang="eng", lang_map=tmp_path / "map")
    assert [one.lang for one in found] == ["ces", "slk", "pol", "eng"]


def test_an_utterance_without_language_is_named_with_what_to_do(tmp_path):
    write(tmp_path, wav_scp=["u1 a.wav"], text=["u1 ahoj"])
    with pytest.raises(ValueError, match=r"text:1: no language for u1. Add it to .*utt2lang, or pass --language"):
        list(read_kaldi({"train": [tmp_path]}))


def test_recordings_without_transcript_are_reported(tmp_path):
    write(tmp_path, wav_scp=["u1 a.wav", "u2 a.wav"], text=["u1 ahoj"])
    done = prepare(read_kaldi({"train": [tmp_path]}, lang="ces"), tmp_path / "out", {})
    assert [(one.id, one.reason) for one in done.dropped] == [("u2", "no transcript")]


def test_paths_are_relative_to_the_list_or_the_working_directory(tmp_path, monkeypatch):
    write(tmp_path / "data", wav_scp=["u1 a.wav", "u2 other/with space.wav"], text=["u1 ahoj", "u2 ahoj"])
    write_audio(tmp_path / "other" / "with space.wav", 1.0)
    monkeypatch.chdir(tmp_path)
    done = prepare(read_kaldi({"train": ["data"]}, lang="ces"), "out", {})
    assert [one.duration for one in done.manifests["train"]] == [3.0, 1.0]


@pytest.mark.parametrize("missing", ["wav.scp", "text"])
def test_a_folder_that_is_no_kaldi_data_folder_is_rejected(tmp_path, missing):
    write(tmp_path, wav_scp=["u1 a.wav"], text=["u1 ahoj"])
    (tmp_path / missing).unlink()
    with pytest.raises(ValueError, match=rf"{missing}: no such file"):
        list(read_kaldi({"train": [tmp_path]}, lang="ces"))
