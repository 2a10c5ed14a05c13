"""Datasets of the library `datasets`: columns, splits, and where audio is put."""

import io
from pathlib import Path

import numpy as np
import pytest
import soundfile
from layouts import SPLITS, HuggingFace, Spoken, write_audio

from ctcdro.prepare.prepare import prepare
from ctcdro.prepare.readers.huggingface import Columns, read_huggingface
from ctcdro.speech.audio import header

SPOKEN = [Spoken(split, "ces", f"u_{split}", "ahoj") for split in SPLITS]


def test_a_missing_column_is_named_with_those_that_are_there(tmp_path):
    HuggingFace().write(tmp_path / "hub", SPOKEN)
    with pytest.raises(
        ValueError, match=r"\[train\]: no column sentence \(found: audio, text, language, key, reader\)"
    ):
        list(read_huggingface(str(tmp_path / "hub"), tmp_path, Columns(text="sentence")))


def test_a_missing_split_is_named_with_those_that_are_there(tmp_path):
    HuggingFace().write(tmp_path / "hub", SPOKEN)
    with pytest.raises(ValueError, match=r"no split tests \(found: train, validation, test\)"):
        list(read_huggingface(str(tmp_path / "hub"), tmp_path, splits={"train": "train", "test": "tests"}))
    found = read_huggingface(str(tmp_path / "hub"), tmp_path, splits={"train": "test"})
    assert [one.split for one in found] == ["train"]


def test_ids_that_differ_in_what_file_names_cannot_have_stay_two_files(tmp_path):
    ids = ["a/b", "a_b", "../../a", "a\\b"]
    spoken = [Spoken("train", "ces", id, "ahoj", seconds=0.1 * (number + 1)) for number, id in enumerate(ids)]
    HuggingFace().write(tmp_path / "hub", spoken)
    out = tmp_path / "deep" / "out"
    done = prepare(read_huggingface(str(tmp_path / "hub"), out, Columns(id="key")), out, {})
    assert [one.duration for one in done.manifests["train"]] == pytest.approx([0.1, 0.2, 0.3, 0.4])
    assert len(list(out.rglob("*.flac"))) == 4
    assert len(list(tmp_path.rglob("*.flac"))) == 4, "nothing is written outside"


def test_a_duplicate_id_keeps_the_audio_of_the_first(tmp_path):
    spoken = [Spoken("train", "ces", "x", "sto", seconds=1.0), Spoken("train", "ces", "x", "dvě stě", seconds=2.0)]
    HuggingFace().write(tmp_path / "hub", spoken)
    done = prepare(read_huggingface(str(tmp_path / "hub"), tmp_path / "out", Columns(id="key")), tmp_path / "out", {})
    assert [(one.text, one.duration) for one in done.manifests["train"]] == [("sto", 1.0)]
    assert header(done.manifests["train"][0].audio_filepath).duration == 1.0


def test_another_dataset_does_not_get_the_audio_of_the_one_before(tmp_path):
    for name, seed in (("one", 0), ("two", 1)):
        rows = [{"audio": noise(seed), "text": name, "language": "ces"}]
        save_rows(tmp_path / name, rows)
        found = read_huggingface(str(tmp_path / name), tmp_path / "out")
        done = prepare(found, tmp_path / "out", {}, overwrite=True)
        assert Path(done.manifests["train"][0].audio_filepath).read_bytes() == rows[0]["audio"]["bytes"]


def test_audio_that_a_power_cut_shortened_is_written_again_and_leftovers_are_removed(tmp_path):
    rows = [{"audio": noise(0), "text": "ahoj", "language": "ces"}]
    save_rows(tmp_path / "hub", rows)
    audio = []
    for _ in range(2):
        done = prepare(read_huggingface(str(tmp_path / "hub"), tmp_path / "out"), tmp_path / "out", {})
        audio.append(Path(done.manifests["train"][0].audio_filepath))
        assert [path.read_bytes() for path in audio[0].parent.iterdir()] == [rows[0]["audio"]["bytes"]]
        audio[0].write_bytes(b"")
        audio[0].with_name(f".a.wav.{'0' * 32}.ctcdro-new").touch()
    assert audio[0] == audio[1]


def test_a_dataset_without_splits_is_for_training(tmp_path):
    import datasets

    rows = [{"audio": noise(0), "text": "ahoj", "language": "ces"}]
    datasets.Dataset.from_list(rows).cast_column("audio", datasets.Audio()).save_to_disk(str(tmp_path / "hub"))
    assert [one.split for one in read_huggingface(str(tmp_path / "hub"), tmp_path / "out")] == ["train"]


def test_rows_without_text_language_or_audio_are_dropped(tmp_path):
    rows = [{"audio": noise(0), "text": 7, "language": "ces"}, {"audio": noise(0), "text": 7, "language": ""}]
    save_rows(tmp_path / "hub", rows)
    found = list(read_huggingface(str(tmp_path / "hub"), tmp_path / "out"))
    assert [(one.reason, one.detail) for one in found] == [
        ("malformed line", "no text: 7"),
        ("malformed line", "no language: ''"),
    ]
    save_rows(tmp_path / "silent", [{"audio": None, "text": "ahoj", "language": "ces"}])
    [dropped] = read_huggingface(str(tmp_path / "silent"), tmp_path / "out")
    assert (dropped.reason, dropped.where) == ("missing audio", f"{tmp_path / 'silent'}[train]:0")


def noise(seed):
    file = io.BytesIO()
    soundfile.write(file, np.random.default_rng(seed).uniform(-0.5, 0.5, 16_000), 16_000, format="WAV")
    return {"bytes": file.getvalue(), "path": None}


def save_rows(folder, rows):
    import datasets

    part = datasets.Dataset.from_list(rows).cast_column("audio", datasets.Audio())
    datasets.DatasetDict(train=part).save_to_disk(str(folder))


def test_one_language_can_be_given_to_all(tmp_path):
    HuggingFace().write(tmp_path / "hub", SPOKEN)
    found = list(
        read_huggingface(str(tmp_path / "hub"), tmp_path, Columns(language="none such"), lang="slk", corpus="mine")
    )
    assert {(one.lang, one.corpus, one.id) for one in found} == {("slk", "mine", "0000000")}


def test_a_folder_of_tables_is_read_and_audio_in_files_stays_where_it_lies(tmp_path):
    import datasets

    write_audio(tmp_path / "elsewhere" / "a.wav", 1.0)
    (tmp_path / "hub").mkdir()
    for split in ("train", "test"):
        row = {"audio": str(tmp_path / "elsewhere" / "a.wav"), "text": "dobrý den", "language": "ces"}
        datasets.Dataset.from_list([row]).to_parquet(tmp_path / "hub" / f"{split}-0.parquet")
    done = prepare(read_huggingface(str(tmp_path / "hub"), tmp_path / "out"), tmp_path / "out", {})
    assert [one.text for one in done.manifests["train"]] == ["dobrý den"]
    assert done.manifests["train"][0].audio_filepath == str(tmp_path / "elsewhere" / "a.wav")
    assert not (tmp_path / "out" / "audio").exists()


def test_what_the_library_cannot_load_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"nowhere: cannot be loaded"):
        list(read_huggingface(str(tmp_path / "nowhere"), tmp_path / "out"))
