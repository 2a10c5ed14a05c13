"""Preparation of a dataset, apart from the tests of each reader."""

import errno
import json
import multiprocessing
import tracemalloc
from collections import Counter

import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st
from layouts import tone, write_audio

from ctcdro import Manifest, Utterance
from ctcdro.prepare import dataset_folder
from ctcdro.prepare import prepare as preparing
from ctcdro.prepare.dataset_folder import MAX_DROPPED_KEPT
from ctcdro.prepare.entries import CorpusEntry, Dropped
from ctcdro.prepare.prepare import prepare
from ctcdro.prepare.statistics import statistics_by_language
from ctcdro.speech.audio import header


def listed(tmp_path, number, **changes):
    return CorpusEntry(
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


def test_progress_is_reported(tmp_path):
    reported = []

    def track(sequence, description, total=None):
        reported.append((description, total))
        return sequence

    write_audio(tmp_path / "1.wav", 1.0)
    prepare([listed(tmp_path, 1)], tmp_path / "out", {}, track=track)
    assert reported == [("reading audio headers", None)]  # of how many is not known before all are listed


def test_a_corpus_without_training_data_is_rejected_with_the_reason(tmp_path):
    with pytest.raises(ValueError, match=r"no training data\. The reader found no utterances"):
        prepare([], tmp_path / "out", {})
    with pytest.raises(ValueError, match=r"1 entries were dropped, the first at list:1: missing audio: .*no such file"):
        prepare([listed(tmp_path, 1)], tmp_path / "out", {})


def test_unreadable_and_missing_audio_are_distinguished(tmp_path):
    write_audio(tmp_path / "1.wav", 1.0)
    (tmp_path / "2.wav").write_text("no audio")
    done = prepare([listed(tmp_path, number) for number in (1, 2, 3)], tmp_path / "out", {})
    assert [(one.where, one.reason) for one in done.dropped] == [
        ("list:2", "unreadable audio"),
        ("list:3", "missing audio"),
    ]


def test_reader_options_and_text_normalization_are_noted(tmp_path):
    write_audio(tmp_path / "1.wav", 1.0)
    prepare([listed(tmp_path, 1)], tmp_path / "out", {"reader": "mine"}, text_norm="paper")
    note = json.loads((tmp_path / "out" / "dataset.json").read_text())
    assert note == {"reader": "mine", "text_norm": "paper"}


def test_what_is_there_stays_until_all_is_read(tmp_path):
    write_audio(tmp_path / "1.wav", 1.0)
    items = [listed(tmp_path, 1), listed(tmp_path, 1, split="dev")]
    prepare(items, tmp_path / "out", {})
    before = (tmp_path / "out" / "train.jsonl").read_bytes()
    (tmp_path / "1.wav").rename(tmp_path / "away.wav")
    with pytest.raises(ValueError, match="no training data"):
        prepare(items, tmp_path / "out", {})
    assert (tmp_path / "out" / "train.jsonl").read_bytes() == before
    (tmp_path / "away.wav").rename(tmp_path / "1.wav")
    (tmp_path / "out" / f".train.jsonl.{'0' * 32}.ctcdro-new").write_text("left by a run that was killed")
    (tmp_path / "out" / ".train.jsonl.mine").write_text("of somebody else")
    prepare(items[:1], tmp_path / "out", {})
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        ".lock",
        ".train.jsonl.mine",
        "dataset.json",
        "dropped.jsonl",
        "train.jsonl",
    ]


def test_a_dropped_entry_does_not_take_the_id_of_a_good_one(tmp_path):
    write_audio(tmp_path / "2.wav", 1.0)
    done = prepare([listed(tmp_path, 1, id="a"), listed(tmp_path, 2, id="a")], tmp_path / "out", {})
    assert [one.reason for one in done.dropped] == ["missing audio"]
    assert len(done.manifests["train"]) == 1


def test_languages_that_no_vocabulary_can_hold_are_dropped(tmp_path):
    write_audio(tmp_path / "1.wav", 1.0)
    unusable = [listed(tmp_path, 1, lang=lang) for lang in ("zh CN", "[x]", "")]
    done = prepare([listed(tmp_path, 1), *unusable], tmp_path / "out", {})
    assert [one.reason for one in done.dropped] == ["unusable language"] * 3


def test_strict_stops_at_the_first_problem(tmp_path):
    write_audio(tmp_path / "1.wav", 1.0)
    entries = [listed(tmp_path, 1), listed(tmp_path, 2)]
    with pytest.raises(ValueError, match="list:2: missing audio"):
        prepare(entries, tmp_path / "out", {}, strict=True)
    assert not (tmp_path / "out" / "train.jsonl").exists()


def test_a_dataset_made_with_other_options_is_not_overwritten(tmp_path):
    write_audio(tmp_path / "1.wav", 1.0)
    entries = [listed(tmp_path, 1)]
    prepare(entries, tmp_path / "out", {"reader": "mine"})
    before = (tmp_path / "out" / "train.jsonl").read_bytes()
    changes = "reader: 'mine' → 'another'; text_norm: 'clean' → 'paper'"
    with pytest.raises(ValueError, match=f"out already contains a dataset .*{changes}"):
        prepare(entries, tmp_path / "out", {"reader": "another"}, text_norm="paper")
    assert (tmp_path / "out" / "train.jsonl").read_bytes() == before
    prepare(entries, tmp_path / "out", {}, text_norm="paper", overwrite=True)
    assert (tmp_path / "out" / "train.jsonl").read_bytes() != before
    (tmp_path / "out" / "dataset.json").unlink()
    with pytest.raises(ValueError, match=r"dataset\.json is missing or damaged"):
        prepare(entries, tmp_path / "out", {}, text_norm="paper")


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


ITEMS = st.lists(
    st.tuples(
        st.sampled_from(["train", "train", "dev", "test"]),
        st.sampled_from(["1.wav", "2.wav", "gone.wav", "text.wav"]),
        st.sampled_from(["Ahoj!", "dobrý den", "…", ""]),
        st.sampled_from(["ces", "spa", "a b"]),
        st.sampled_from([None, "a", "b", "c", "d"]),
        st.sampled_from([None, 0.5, 1.5]),
    ),
    max_size=30,
)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    for seconds in (1, 2):
        write_audio(folder / f"{seconds}.wav", float(seconds))
    (folder / "text.wav").write_text("no audio")
    (folder / "expected").mkdir()
    return folder


@given(ITEMS)
def test_what_is_written_as_it_comes_is_what_is_written_at_once(corpus, items):
    """Compares with an independent implementation that keeps everything in memory."""
    texts = {"Ahoj!": "ahoj", "dobrý den": "dobrý den"}
    lengths = {"1.wav": 1.0, "2.wav": 2.0}
    kept = {"train": [], "dev": [], "test": []}
    reasons = []
    for split, audio, text, lang, id, duration in items:
        there = lengths.get(audio, 0.0)
        if id is not None and any(one.id == id for one in kept[split]):
            reasons.append("duplicate id")
        elif lang == "a b":
            reasons.append("unusable language")
        elif text not in texts:
            reasons.append("empty transcript")
        elif not there:
            reasons.append("missing audio" if audio == "gone.wav" else "unreadable audio")
        elif (duration or 0.0) > there:
            reasons.append("outside its audio")
        else:
            kept[split].append(Utterance(str(corpus / audio), duration or there, texts[text], lang, id=id))
    listed = [
        CorpusEntry(split, str(corpus / audio), text, lang, f"list:{number}", id=id, duration=duration)
        for number, (split, audio, text, lang, id, duration) in enumerate(items)
    ]
    if not kept["train"]:
        with pytest.raises(ValueError, match="no training data"):
            prepare(iter(listed), corpus / "out", {}, num_threads=2)
        return
    done = prepare(iter(listed), corpus / "out", {}, num_threads=2)
    assert [one.reason for one in done.dropped] == reasons
    assert done.num_dropped == Counter(reasons)
    for split, utterances in kept.items():
        path = corpus / "out" / f"{split}.jsonl"
        if utterances:
            Manifest(utterances).write(corpus / "expected" / "expected.jsonl")
            assert path.read_bytes() == (corpus / "expected" / "expected.jsonl").read_bytes()
            assert done.statistics[split] == statistics_by_language(utterances)
            assert list(done.manifests[split]) == utterances
        else:
            assert not path.exists()
            assert split not in done.statistics


def test_headers_are_read_once_a_file(tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr(preparing, "header", lambda path: opened.append(path) or header(path))
    for number in (1, 2):
        write_audio(tmp_path / f"{number}.wav", 1.0)
    items = [listed(tmp_path, number) for number in (1, 2)] * 200
    prepare(iter(items), tmp_path / "out", {}, num_threads=1)
    assert len(opened) == 2


def test_the_first_dropped_entries_are_kept_and_all_are_counted(tmp_path):
    write_audio(tmp_path / "1.wav", 1.0)
    faults = (Dropped("train", "ces", f"list:{n}", "malformed line", "no text") for n in range(MAX_DROPPED_KEPT + 7))
    done = prepare([listed(tmp_path, 1), *faults], tmp_path / "out", {})
    assert done.num_dropped == {"malformed line": MAX_DROPPED_KEPT + 7}
    assert [one.where for one in done.dropped] == [f"list:{n}" for n in range(MAX_DROPPED_KEPT)]
    lines = (tmp_path / "out" / "dropped.jsonl").read_text().splitlines()
    assert [json.loads(line)["where"] for line in lines] == [f"list:{n}" for n in range(MAX_DROPPED_KEPT + 7)]


def fail_to_write(tmp_path, monkeypatch):
    def full(utterance, folder):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(dataset_folder, "manifest_line", full)
    return [listed(tmp_path, 1)]


def fail_to_list(tmp_path, monkeypatch):
    def broken():
        yield listed(tmp_path, 1)
        raise ValueError("list:2: a command")

    return broken()


def be_interrupted(tmp_path, monkeypatch):
    def interrupted():
        yield from [listed(tmp_path, 1)] * 5000  # more than are read ahead
        raise KeyboardInterrupt

    return interrupted()


@pytest.mark.parametrize(
    ("fail", "kind"), [(fail_to_write, OSError), (fail_to_list, ValueError), (be_interrupted, KeyboardInterrupt)]
)
def test_nothing_is_changed_where_something_fails(tmp_path, monkeypatch, fail, kind):
    write_audio(tmp_path / "1.wav", 1.0)
    prepare([listed(tmp_path, 1), listed(tmp_path, 1, split="dev")], tmp_path / "there", {})
    before = {path.name: path.read_bytes() for path in (tmp_path / "there").iterdir()}
    for out in ("there", "not/there/yet"):
        with pytest.raises(kind), monkeypatch.context() as patch:
            prepare(fail(tmp_path, patch), tmp_path / out, {}, num_threads=1)
    assert {path.name: path.read_bytes() for path in (tmp_path / "there").iterdir()} == before
    assert not (tmp_path / "not").exists()


def test_a_line_takes_some_bytes(tmp_path):
    write_audio(tmp_path / "1.wav", 1.0)

    def held(num_lines):
        items = (listed(tmp_path, 1, id=f"cv_ces_{number}", where=f"list:{number}") for number in range(num_lines))
        tracemalloc.start()
        try:
            prepare(items, tmp_path / "out", {}, num_threads=1)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    few, many = 2_000, 10_000
    assert held(many) - held(few) < 250 * (many - few)


def test_of_two_processes_that_prepare_one_folder_one_is_rejected_and_no_split_is_lost(tmp_path):
    """Two processes with different splits and options, as if started by mistake."""
    processes = multiprocessing.get_context("fork")
    for number in range(3):
        write_audio(tmp_path / f"{number}.wav", 1.0)
    for attempt in range(20):
        out, start, reported = tmp_path / f"out{attempt}", processes.Barrier(2), processes.SimpleQueue()

        def work(other, out=out, start=start, reported=reported):
            items = [listed(tmp_path, 0), *(listed(tmp_path, n % 3, split=other) for n in range(50))]
            start.wait()
            try:
                prepare(items, out, {"other": other}, text_norm="none")
                reported.put((other, "done"))
            except (ValueError, OSError) as error:
                reported.put((other, str(error)))

        both = [processes.Process(target=work, args=(other,)) for other in ("dev", "test")]
        for process in both:
            process.start()
        for process in both:
            process.join()
        ends = dict(reported.get() for _ in both)
        [winner] = [other for other, end in ends.items() if end == "done"]
        [refused] = [end for end in ends.values() if end != "done"]
        assert "another process is writing to this folder" in refused or "built with other options" in refused
        names = {path.name for path in out.iterdir()}
        assert names == {".lock", "dataset.json", "dropped.jsonl", "train.jsonl", f"{winner}.jsonl"}
        assert json.loads((out / "dataset.json").read_text())["other"] == winner
        assert len(Manifest.read(out / f"{winner}.jsonl")) == 50
