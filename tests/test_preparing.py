"""What all preparation shares, beyond what is tested for each reader."""

import json

import pytest
import soundfile

from ctcdro import Manifest
from ctcdro.data.audio import header
from ctcdro.data.preparing import Listed, prepare
from layouts import tone, write_audio


def listed(tmp_path, number, **changes):
    return Listed(
        **{
            "split": "train",
            "audio": str(tmp_path / f"{number}.wav"),
            "text": "ahoj",
            "lang": "ces",
            "where": f"list:{number}",
            **changes,
        }
    )


def test_audio_is_not_decoded(tmp_path):
    soundfile.write(tmp_path / "1.wav", tone(1.0), 16_000, format="FLAC")
    content = bytearray((tmp_path / "1.wav").read_bytes())
    content[len(content) // 3 :] = bytes(len(content) - len(content) // 3)
    (tmp_path / "1.wav").write_bytes(content)
    done = prepare([listed(tmp_path, 1)], tmp_path / "out", {})
    assert done.manifests["train"][0].duration == 1.0


def test_the_order_is_that_of_the_corpus_with_any_number_of_threads(tmp_path):
    for number in range(100):
        write_audio(tmp_path / f"{number}.wav", 0.1 + number / 1000)
    items = [listed(tmp_path, number, id=str(number)) for number in range(100)]
    one = prepare(items, tmp_path / "one", {}, num_threads=1)
    many = prepare(items, tmp_path / "many", {}, num_threads=16)
    assert list(one.manifests["train"]) == list(many.manifests["train"])
    assert [utterance.id for utterance in many.manifests["train"]] == [str(number) for number in range(100)]


def test_progress_is_told(tmp_path):
    told = []

    def track(sequence, description, total=None):
        told.append((description, total))
        return sequence

    write_audio(tmp_path / "1.wav", 1.0)
    prepare([listed(tmp_path, 1)], tmp_path / "out", {}, track=track)
    assert told == [("listing utterances", None), ("reading audio headers", 1)]


def test_what_leaves_nothing_for_training_says_what_became_of_it(tmp_path):
    with pytest.raises(ValueError, match="no utterances for training were found"):
        prepare([], tmp_path / "out", {})
    with pytest.raises(ValueError, match=r"1 were dropped, the first at list:1: missing audio: .*no such file"):
        prepare([listed(tmp_path, 1)], tmp_path / "out", {})


def test_unreadable_audio_is_told_from_missing_audio(tmp_path):
    write_audio(tmp_path / "1.wav", 1.0)
    (tmp_path / "2.wav").write_text("no audio")
    done = prepare([listed(tmp_path, number) for number in (1, 2, 3)], tmp_path / "out", {})
    assert [(one.where, one.reason) for one in done.dropped] == [
        ("list:2", "unreadable audio"),
        ("list:3", "missing audio"),
    ]


def test_reader_options_and_profile_are_noted(tmp_path):
    write_audio(tmp_path / "1.wav", 1.0)
    prepare([listed(tmp_path, 1)], tmp_path / "out", {"reader": "mine"}, profile="paper")
    note = json.loads((tmp_path / "out" / "dataset.json").read_text())
    assert note == {"reader": "mine", "profile": "paper"}


def test_what_is_there_stays_until_all_is_read(tmp_path):
    write_audio(tmp_path / "1.wav", 1.0)
    items = [listed(tmp_path, 1), listed(tmp_path, 1, split="dev")]
    prepare(items, tmp_path / "out", {})
    before = (tmp_path / "out" / "train.jsonl").read_bytes()
    (tmp_path / "1.wav").rename(tmp_path / "away.wav")
    with pytest.raises(ValueError, match="no utterances for training are left"):
        prepare(items, tmp_path / "out", {})
    assert (tmp_path / "out" / "train.jsonl").read_bytes() == before
    (tmp_path / "away.wav").rename(tmp_path / "1.wav")
    (tmp_path / "out" / ".train.jsonl.123").write_text("left by a run that was killed")
    prepare(items[:1], tmp_path / "out", {})
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "dataset.json",
        "dropped.jsonl",
        "train.jsonl",
    ]


def test_a_line_that_was_left_out_does_not_take_the_id_of_a_good_one(tmp_path):
    write_audio(tmp_path / "2.wav", 1.0)
    done = prepare([listed(tmp_path, 1, id="a"), listed(tmp_path, 2, id="a")], tmp_path / "out", {})
    assert [one.reason for one in done.dropped] == ["missing audio"]
    assert len(done.manifests["train"]) == 1


@pytest.mark.parametrize("lang", ["zh CN", "[x]", ""])
def test_languages_that_no_vocabulary_can_hold_are_left_out(tmp_path, lang):
    write_audio(tmp_path / "1.wav", 1.0)
    done = prepare([listed(tmp_path, 1), listed(tmp_path, 1, lang=lang)], tmp_path / "out", {})
    assert [one.reason for one in done.dropped] == ["unusable language"]


def test_audio_behind_a_link_is_the_audio_that_was_measured(tmp_path):
    write_audio(tmp_path / "real" / "wav" / "a.wav", 1.0)
    (tmp_path / "real" / "deep").mkdir()
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "link").symlink_to(tmp_path / "real" / "deep")
    item = listed(tmp_path, 1, audio=str(tmp_path / "project" / "link" / ".." / "wav" / "a.wav"))
    prepare([item], tmp_path / "out", {})
    [utterance] = Manifest.read(tmp_path / "out" / "train.jsonl")
    assert header(utterance.audio_filepath).duration == 1.0


def test_stopping_in_the_middle_leaves_no_manifest(tmp_path):
    def interrupted():
        yield listed(tmp_path, 1)
        raise KeyboardInterrupt

    write_audio(tmp_path / "1.wav", 1.0)
    with pytest.raises(KeyboardInterrupt):
        prepare(interrupted(), tmp_path / "out", {})
    assert not list((tmp_path / "out").glob("*.jsonl"))
    prepare([listed(tmp_path, 1)], tmp_path / "out", {})
    assert (tmp_path / "out" / "train.jsonl").exists()
