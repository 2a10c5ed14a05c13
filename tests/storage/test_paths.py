"""Paths in manifests and tables: untrusted ones must not point to other files."""

import json

import pytest
from cases import case
from layouts import write_audio

from ctcdro import Manifest, Utterance
from ctcdro.check.check import check_dataset
from ctcdro.prepare.entries import SPLITS, CorpusEntry
from ctcdro.prepare.readers.common_voice import read_common_voice
from ctcdro.prepare.readers.fleurs import read_fleurs
from ctcdro.prepare.readers.kaldi import read_kaldi
from ctcdro.prepare.readers.lhotse import read_lhotse
from ctcdro.prepare.readers.ml_superb import read_ml_superb
from ctcdro.prepare.readers.nemo import read_nemo
from ctcdro.storage.paths import escapes_folder, find_listed_audio, is_empty, refuse_link

RECORD = {"duration": 1.0, "text": "ahoj", "lang": "ces"}
LEADS_OUT = ["../a.wav", "clips/..//../a.wav", ".."]


@pytest.fixture
def folder(tmp_path):
    """A dataset folder next to a file that it must not name."""
    write_audio(tmp_path / "a.wav", 1.0)
    write_audio(tmp_path / "set" / "clips" / "a.wav", 1.0)
    return tmp_path / "set"


def manifest(folder, *paths):
    lines = [json.dumps(RECORD | {"audio_filepath": str(path), "id": str(place)}) for place, path in enumerate(paths)]
    (folder / "train.jsonl").write_text("\n".join(lines))
    return folder / "train.jsonl"


@pytest.mark.parametrize("path", LEADS_OUT)
def test_relative_paths_do_not_lead_out_of_the_folder(folder, path):
    with pytest.raises(ValueError, match=r"train\.jsonl:2: `audio_filepath`: .* points outside the folder"):
        Manifest.read(manifest(folder, "clips/a.wav", path))
    [finding] = check_dataset(folder).errors
    assert (finding.kind, finding.where) == ("malformed line", f"{folder / 'train.jsonl'}:2")


def test_paths_below_the_folder_are_read(folder):
    for path in ("clips/a.wav", "clips/../clips/a.wav", "clips/..a.wav", "a..b"):
        with case(path):
            assert Manifest.read(manifest(folder, path))[0].audio_filepath == str(folder) + "/" + path


def test_absolute_paths_are_read_as_prepare_writes_them(folder, tmp_path):
    assert Manifest.read(manifest(folder, tmp_path / "a.wav"))[0].audio_filepath == str(tmp_path / "a.wav")


def test_what_is_written_can_be_read_wherever_the_audio_is(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for path in ("a.wav", "set/../a.wav", "set/clips/../../a.wav", "set/clips/a.wav"):
        Manifest([Utterance(path, 1.0, "ahoj", "ces")]).write(folder / "dev.jsonl")
        assert not json.loads((folder / "dev.jsonl").read_text())["audio_filepath"].startswith("..")
        Manifest.read(folder / "dev.jsonl")


def test_a_listed_file_is_looked_for_in_the_working_directory_too(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert find_listed_audio("clips/a.wav", folder) == str(folder / "clips" / "a.wav")
    assert find_listed_audio("a.wav", folder) == "a.wav"
    assert find_listed_audio("missing.wav", folder) == str(folder / "missing.wav")


def test_a_path_leads_out_of_a_folder_if_it_ends_above_it():
    assert [escapes_folder(path) for path in ("a/../b.wav", "a/../../b.wav", "/b.wav")] == [False, True, True]


def faults(listed):
    """Problems of the utterances of a reader; the audio of the others must be below the folder."""
    return [item.detail for item in listed if not isinstance(item, CorpusEntry)]


@pytest.mark.parametrize("path", LEADS_OUT[:2])
def test_lists_of_other_programs_do_not_lead_out_either(folder, path, monkeypatch):
    monkeypatch.chdir(folder)
    (folder / "nemo.json").write_text(json.dumps(RECORD | {"audio_filepath": path}))
    assert "points outside the folder" in faults(read_nemo({"train": [folder / "nemo.json"]}))[0]
    recording = {"id": "r", "sources": [{"type": "file", "channels": [0], "source": path}]}
    supervision = {"id": "s", "start": 0, "duration": 1, "text": "ahoj", "language": "ces"}
    (folder / "cuts.jsonl").write_text(json.dumps({"id": "c", "recording": recording, "supervisions": [supervision]}))
    assert "points outside the folder" in faults(read_lhotse({"train": [folder / "cuts.jsonl"]}))[0]
    (folder / "wav.scp").write_text(f"u1 {path}\n")
    (folder / "text").write_text("u1 ahoj\n")
    with pytest.raises(ValueError, match=r"wav\.scp:1: .*points outside the folder"):
        list(read_kaldi({"train": [folder]}, lang="ces"))


@pytest.mark.parametrize("name", ["/etc/a", "x/../../../a"])
def test_names_in_tables_of_corpora_stay_where_their_audio_is(tmp_path, name):
    voice, fleurs, superb = tmp_path / "cs", tmp_path / "cs_cz", tmp_path / "superb" / "commonvoice" / "ces"
    superb.mkdir(parents=True)
    for split in SPLITS:
        (fleurs / "audio" / split).mkdir(parents=True)
        (fleurs / f"{split}.tsv").write_text(f"1\t{name}.wav\tA\ta\ta\t1\tF\n")
        voice.mkdir(exist_ok=True)
        (voice / f"{split}.tsv").write_text(f"path\tsentence\n{name}.mp3\tahoj\n")
        kind = "1h" if split == "train" else "10min"
        (superb / f"transcript_{kind}_{split}.txt").write_text(f"{name} x ahoj\n")
    for listed in (
        list(read_common_voice(voice)),
        list(read_fleurs(fleurs)),
        list(read_ml_superb(tmp_path / "superb", [("ces", "commonvoice")])),
    ):
        assert len(faults(listed)) == len(listed) == 3
        assert all("points outside" in fault for fault in faults(listed))


def test_what_is_empty(tmp_path):
    assert is_empty(tmp_path)
    assert is_empty(tmp_path / "nowhere")
    (tmp_path / "file").write_text("")
    assert not is_empty(tmp_path)


def test_links_are_rejected_with_where_they_lead(tmp_path):
    (tmp_path / "checkpoints").symlink_to(tmp_path / "photos")
    with pytest.raises(ValueError, match=r"checkpoints is a symbolic link to .*photos"):
        refuse_link(tmp_path / "checkpoints")
