"""lhotse manifests: segments of cuts, and recordings that are not plain files."""

import json

import pytest
from layouts import Spoken, lhotse_recording, lhotse_supervision, write_audio, write_lines

from ctcdro.prepare.prepare import prepare
from ctcdro.prepare.readers.lhotse import read_lhotse

ONE = Spoken("train", "ces", "u1", "ahoj", seconds=5.0)


def prepared(tmp_path, *records, **options):
    write_audio(tmp_path / "a.wav", 5.0)
    write_lines(tmp_path / "cuts.jsonl", map(json.dumps, records))
    return prepare(read_lhotse({"train": [tmp_path / "cuts.jsonl"]}, **options), tmp_path / "out", {})


def cut(*supervisions, start=0.0, recording=None):
    recording = recording or lhotse_recording("a.wav", ONE)
    return {"id": "cut", "start": start, "duration": 4.0, "supervisions": supervisions, "recording": recording}


def test_supervisions_count_from_the_start_of_their_cut(tmp_path):
    first = lhotse_supervision(ONE) | {"start": 0.25, "duration": 1.5}
    second = lhotse_supervision(ONE) | {"id": "u2", "start": 2.0, "duration": 1.0}
    done = prepared(tmp_path, cut(first, second, start=0.5))
    assert [(one.id, one.offset, one.duration) for one in done.manifests["train"]] == [
        ("u1", 0.75, 1.5),
        ("u2", 2.5, 1.0),
    ]


def test_audio_that_is_not_a_file_is_rejected(tmp_path):
    recording = lhotse_recording("a.wav", ONE)
    for kind in ("command", "url", "memory", "shar"):
        recording["sources"][0] |= {"type": kind, "source": f"touch {tmp_path / 'ran'}"}
        expected = rf"cuts\.jsonl:1: the audio of recording 'rec-u1' must be a file; .*; got '{kind}'"
        with pytest.raises(ValueError, match=expected):
            prepared(tmp_path, cut(lhotse_supervision(ONE), recording=recording))
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("change", [{"transforms": [{"name": "Speed"}]}, {"channels": [0, 1]}])
def test_recordings_with_transforms_or_channels_are_dropped(tmp_path, change):
    recording = lhotse_recording("a.wav", ONE)
    recording["sources"][0] |= {key: value for key, value in change.items() if key == "channels"}
    recording |= {key: value for key, value in change.items() if key == "transforms"}
    other = lhotse_supervision(ONE) | {"id": "u2"}
    done = prepared(tmp_path, cut(other), cut(lhotse_supervision(ONE), recording=recording))
    assert [(one.id, one.reason) for one in done.dropped] == [("u1", "unusable recording")]


def test_cuts_without_recording_or_supervision_are_dropped_and_named(tmp_path):
    mixed = {"id": "mixed", "tracks": [], "type": "MixedCut"}
    late = lhotse_supervision(ONE) | {"id": "u3", "start": -2.0}
    silent = lhotse_supervision(ONE) | {"id": "u4", "language": None}
    done = prepared(tmp_path, cut(lhotse_supervision(ONE)), cut(), mixed, cut(late), cut(silent))
    assert [(one.id, one.reason, one.where.rpartition(":")[2]) for one in done.dropped] == [
        ("cut", "malformed line", "2"),
        ("mixed", "malformed line", "3"),
        ("u3", "malformed line", "4"),
        ("u4", "malformed line", "5"),
    ]


def test_supervisions_without_id_are_not_one_and_the_same(tmp_path):
    nameless = {key: value for key, value in lhotse_supervision(ONE).items() if key != "id"}
    done = prepared(tmp_path, cut(nameless, nameless | {"start": 1.0, "duration": 1.0}))
    assert [one.id for one in done.manifests["train"]] == [None, None]


def test_supervisions_without_a_language_may_get_one_for_all(tmp_path):
    done = prepared(tmp_path, cut(lhotse_supervision(ONE) | {"language": None}), lang="slk", corpus="mine")
    assert [(one.lang, one.corpus) for one in done.manifests["train"]] == [("slk", "mine")]
