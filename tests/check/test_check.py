"""Every kind of problem is found, with file and line; a valid dataset has none."""

import json
import os
import tracemalloc
from collections import Counter

import numpy as np
import pytest
import soundfile
from cases import case
from checking_oracle import find_all, read
from hypothesis import given
from hypothesis import strategies as st
from layouts import tone, write_audio, write_lines

from ctcdro.check import audio
from ctcdro.check.check import check_dataset
from ctcdro.check.findings import MAX_KEPT
from ctcdro.check.texts import num_frames
from ctcdro.prepare import statistics
from ctcdro.speech import audio as speech_audio


def record(name, text="ahoj", lang="ces", duration=1.0, **others):
    return {"audio_filepath": f"{name}.wav", "duration": duration, "text": text, "lang": lang, **others}


def dataset(folder, train, dev=(), test=()):
    """Writes manifests, and missing audio of one second."""
    for split, records in {"train": train, "dev": dev, "test": test}.items():
        if records:
            write_lines(
                folder / f"{split}.jsonl", [one if isinstance(one, str) else json.dumps(one) for one in records]
            )
        for one in records:
            if (
                isinstance(one, dict)
                and not (folder / one["audio_filepath"]).exists()
                and "gone" not in one["audio_filepath"]
            ):
                write_audio(folder / one["audio_filepath"], 1.0)
    return folder


def found(folder, **options):
    report = check_dataset(folder, **options)
    return {(one.kind, one.severity, one.where.removeprefix(f"{folder}/")) for one in report.findings}


VALID = {
    "train": [record("t1", "ahoj"), record("t2", "hola", "spa")],
    "dev": [record("d1", "haj"), record("d2", "la", "spa")],
    "test": [record("e1", "jo"), record("e2", "al", "spa")],
}


def test_a_valid_dataset_has_no_findings(tmp_path):
    report = check_dataset(dataset(tmp_path, **VALID), batch_duration=1.0)
    assert report.findings == []
    assert report.statistics["train"]["ces"].num_utterances == 1
    assert {name: list(seconds) for name, seconds in report.durations.items()} == {"ces": [1.0], "spa": [1.0]}


def test_statistics_are_means_and_deviations_by_language(tmp_path):
    write_audio(tmp_path / "long.wav", 2.0)
    dataset(tmp_path, [record("t1", "ahoj"), record("long", "ahoj ahoj", duration=2.0)])
    one = check_dataset(tmp_path).statistics["train"]["ces"]
    assert (one.duration_mean, one.duration_deviation) == (1.5, 0.5)
    assert (one.characters_mean, one.characters_deviation) == (6.5, 2.5)
    assert one.hours == pytest.approx(3 / 3600)


def broken_body(path):
    """A file with an intact header and a damaged body."""
    soundfile.write(path, tone(1.0), 16_000, format="FLAC")
    content = bytearray(path.read_bytes())
    content[len(content) // 3 :] = bytes(len(content) - len(content) // 3)
    path.write_bytes(content)


def cut_off(path):
    write_audio(path, 1.0)
    path.write_bytes(path.read_bytes()[:12_000])


def test_one_fault_of_each_kind_is_found_with_file_and_line(tmp_path):
    soundfile.write(tmp_path / "short.wav", tone(0.01), 16_000)
    soundfile.write(tmp_path / "silent.wav", np.zeros(16_000), 16_000)
    (tmp_path / "text.wav").write_text("no audio")
    write_audio(tmp_path / "longer.wav", 1.5)
    write_audio(tmp_path / "stretches.wav", 3.0)
    broken_body(tmp_path / "body.wav")
    cut_off(tmp_path / "cut.wav")
    soundfile.write(tmp_path / "nan.wav", np.full(16_000, np.nan), 16_000, subtype="FLOAT")
    soundfile.write(tmp_path / "loud.wav", np.append(tone(1.0)[1:], 1e30), 16_000, subtype="FLOAT")
    train = [
        record("t1", "ahoj", id="a"),
        record("t2", "hola", "spa", id="a"),
        "{not json",
        record("t4", lang="") | {"lang": ""},
        record("gone"),
        record("text"),
        record("body"),
        record("cut"),
        record("nan"),
        record("longer"),
        record("stretches", offset=0.5),
        record("stretches", offset=2.5),
        record("short", duration=0.01, text=""),
        record("silent"),
        record("t15", "aa" * 8, duration=1.0),
        record("t16", "dobrý|den"),
        record("t17", "dobrý\u00a0den"),
        record("t18", lang="a b"),
        record("half", "x\ud83dy"),
        record("t20", duration=5.0),
        record("loud"),
        record("t22", "\u200fahoj"),
        record("t23", "bom dia", "por"),
    ]
    dev = [record("d1", "ahoj"), record("d2", "xylo"), record("d3", "hej", "swe"), record("t1", "oj", id="a")]
    report = check_dataset(dataset(tmp_path, train, dev))
    found = {(one.kind, one.severity, one.where.removeprefix(f"{tmp_path}/")) for one in report.findings}
    assert found >= {
        ("duplicate id", "warning", "train.jsonl:2"),
        ("malformed line", "error", "train.jsonl:3"),
        ("malformed line", "error", "train.jsonl:4"),
        ("missing audio", "error", "train.jsonl:5"),
        ("unreadable audio", "error", "train.jsonl:6"),
        ("unreadable audio", "error", "train.jsonl:7"),
        ("unreadable audio", "error", "train.jsonl:9"),
        ("duration disagrees with the audio", "warning", "train.jsonl:10"),
        ("duration disagrees with the audio", "error", "train.jsonl:12"),
        ("audio too short", "error", "train.jsonl:13"),
        ("empty transcript", "error", "train.jsonl:13"),
        ("silent audio", "warning", "train.jsonl:14"),
        ("transcript too long for CTC", "error", "train.jsonl:15"),
        ("unusable character", "error", "train.jsonl:16"),
        ("unusable character", "error", "train.jsonl:17"),
        ("malformed line", "error", "train.jsonl:18"),
        ("malformed line", "error", "train.jsonl:19"),
        ("duration disagrees with the audio", "error", "train.jsonl:20"),
        ("unreadable audio", "error", "train.jsonl:21"),
        ("bidirectional control character", "warning", "train.jsonl:22"),
        ("language without dev or test data", "warning", "train.jsonl:23"),
        ("same text in two splits", "warning", "dev.jsonl:1"),
        ("characters unseen in training", "warning", "dev.jsonl:2"),
        ("same audio in two splits", "warning", "dev.jsonl:4"),
        ("duplicate id", "warning", "dev.jsonl:4"),
        ("language without training data", "error", "dev.jsonl:3"),
        ("no test data", "warning", "test.jsonl"),
    }
    cut = [one for one in report.findings if one.where.endswith("train.jsonl:8")]
    assert [one.severity for one in cut] == ["error"]
    assert {kind for kind, _, where in found if where in ("train.jsonl:1", "train.jsonl:11")} == {
        "less than one batch of audio"
    }
    assert len(report.errors) == sum(severity == "error" for _, severity, _ in found)
    assert json.loads(report.to_json())["errors"] == len(report.errors)


def test_a_body_that_cannot_be_read_needs_decoding_to_be_found(tmp_path):
    broken_body(tmp_path / "body.wav")
    folder = dataset(tmp_path, [record("t1"), record("body")])
    assert ("unreadable audio", "error", "train.jsonl:2") in found(folder)
    assert not any(kind == "unreadable audio" for kind, _, _ in found(folder, decode=False))


@pytest.mark.parametrize(
    ("text", "fits"), [("abcdefghi", True), ("abcdefghij", False), ("aabcdefg", True), ("aabbcdef", False)]
)
def test_ctc_needs_a_frame_for_each_label_and_one_between_equal_ones(tmp_path, text, fits):
    folder = dataset(tmp_path, [record("t1", text)])
    assert any(kind == "transcript too long for CTC" for kind, _, _ in found(folder, frame_rate=10.0)) is not fits


def test_groups_of_other_fields_must_be_given_and_be_in_training(tmp_path):
    train = [record("t1", corpus="cv"), record("t2")]
    folder = dataset(tmp_path, train, [record("d1", corpus="cv"), record("d2", corpus="x")])
    faults = {one for one in found(folder, group_by="lang, corpus") if one[0] == "no group"}
    assert faults == {("no group", "error", "train.jsonl:2"), ("no group", "error", "dev.jsonl:2")}
    assert list(check_dataset(folder, group_by="lang,corpus").durations) == ["ces/cv"]


def test_language_codes_that_stand_for_one_language_are_found_at_the_rarer_one(tmp_path):
    train = [record(f"t{number}", lang=lang) for number, lang in enumerate(["ces", "cs", "ces", "spa", "Czech", "SPA"])]
    dev = [record("d1", "hoj", "ces-CZ"), record("d2", "hola", "swe")]
    near = {one for one in found(dataset(tmp_path, train, dev)) if one[0] == "near-duplicate language codes"}
    places = ["train.jsonl:2", "train.jsonl:5", "dev.jsonl:1"]
    assert {where for _, _, where in near} - {"train.jsonl:4", "train.jsonl:6"} == set(places)
    assert len(near) == 4, "either of spa and SPA"
    assert {severity for _, severity, _ in near} == {"warning"}


@pytest.mark.parametrize(("batch_duration", "is_less"), [(2.0, False), (2.1, True)])
def test_a_group_with_less_than_a_batch_is_found(tmp_path, batch_duration, is_less):
    train = [record("t1", corpus="a"), record("t2", corpus="b"), record("t3", corpus="b")]
    report = check_dataset(dataset(tmp_path, train), group_by="lang,corpus", batch_duration=batch_duration)
    where = {one.where.rpartition(":")[2] for one in report.findings if one.kind == "less than one batch of audio"}
    assert where == ({"1", "2"} if is_less else {"1"})


def test_clips_with_more_or_less_text_than_can_be_said_are_found(tmp_path):
    """200 clips with half a second of silence and about 12 characters per second."""
    generator = np.random.default_rng(0)
    train = []
    for number in range(200):
        length = int(generator.integers(2, 100))
        seconds = round((0.5 + length / 12) * generator.uniform(0.8, 1.25), 3)
        train.append(record("long", "a" * length, duration=seconds, offset=float(number)))
    train += [
        record("long", "b" * 11, duration=0.6, offset=250.0),
        record("long", "c" * 11, duration=5.0, offset=251.0),
        record("long", "d" * 11, duration=1.0, offset=252.0),
    ]
    write_audio(tmp_path / "long.wav", 300.0)
    faults = [
        one for one in check_dataset(dataset(tmp_path, train)).findings if one.kind == "implausible character rate"
    ]
    assert [one.where for one in faults] == [f"{tmp_path}/train.jsonl:{line}" for line in (201, 202)]
    assert faults[0].detail.startswith(
        "11 characters in 0.60 s, 18.3 per second; the typical duration in Czech (ces) is 1."
    )
    assert {one.severity for one in faults} == {"warning"}


def test_a_script_that_few_utterances_of_a_language_have_is_found_at_the_first(tmp_path):
    texts = ["ahoj", "ahoj ²ªʼ"] * 100  # signs and modifiers have no script
    texts[6] = texts[150] = "ahoj и привет"
    write_audio(tmp_path / "a.wav", 300.0)
    train = [record("a", text, offset=float(number)) for number, text in enumerate(texts)]
    train += [
        record("a", "カラオケ 漢字 ok" if number else "ひらがな", "jpn", offset=200.0 + number) for number in range(3)
    ]
    train += [record("a", "hi 你好", {"eng": 0.5, "cmn": 0.5}, offset=250.0)]
    [rare] = [one for one in check_dataset(dataset(tmp_path, train)).findings if one.kind == "rare script"]
    assert (rare.severity, rare.where) == ("warning", f"{tmp_path}/train.jsonl:7")
    assert rare.detail == "Czech (ces): CYRILLIC letters in 2 of 200 utterances in train, the first on this line"


def test_a_truncated_file_is_unreadable_even_if_its_duration_is_that_of_its_rest(tmp_path):
    for name in ("t1", "t2"):
        cut_off(tmp_path / f"{name}.wav")
    seconds = (12_000 - 44) / 2 / 16_000
    folder = dataset(tmp_path, [record("t1", "oj", duration=seconds), record("t2", "oj", duration=0.1)])
    for decode in (True, False):
        errors = [one for one in check_dataset(folder, decode=decode).errors if one.kind == "unreadable audio"]
        assert [one.where for one in errors] == [f"{folder}/train.jsonl:{line}" for line in (1, 2)]
        assert "damaged: truncated after 0.374 s" in errors[0].detail


def test_stretches_of_one_file_are_no_fault(tmp_path):
    write_audio(tmp_path / "a.wav", 3.0)
    records = [record("a", "ahoj"), record("./a", "hej", offset=1.0), record("a", "hoj", offset=2.0)]
    assert {kind for kind, *_ in found(dataset(tmp_path, records), batch_duration=1.0)} == {
        "no dev data",
        "no test data",
    }


def test_a_line_that_is_not_text_does_not_end_the_check(tmp_path):
    folder = dataset(tmp_path, [record("t1"), record("t2")])
    content = (folder / "train.jsonl").read_bytes()
    (folder / "train.jsonl").write_bytes(b"\xff\xfe\n" + content)
    assert ("malformed line", "error", "train.jsonl:1") in found(folder)
    (folder / "train.jsonl").write_bytes(b"\xff\xfe\n")
    with pytest.raises(ValueError, match=r"no valid utterances. The first error is at .*train\.jsonl:1: not UTF-8"):
        check_dataset(folder)


def test_an_empty_split_is_reported(tmp_path):
    folder = dataset(tmp_path, [record("t1")])
    (folder / "dev.jsonl").write_text("")
    assert ("no dev data", "warning", "dev.jsonl") in found(folder)


def test_pipes_are_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.wav")
    assert ("unreadable audio", "error", "train.jsonl:1") in found(dataset(tmp_path, [record("pipe")]))


def test_near_silence_is_silence(tmp_path):
    soundfile.write(tmp_path / "t1.wav", np.full(16_000, 2e-5), 16_000, subtype="FLOAT")
    assert ("silent audio", "warning", "train.jsonl:1") in found(dataset(tmp_path, [record("t1")]))


def test_frames_are_those_of_a_window_of_25_ms():
    for seconds, rate, frames in ((1.0, 50, 49), (1.16, 25, 29), (0.025, 50, 1), (0.02, 50, 0)):
        with case(seconds):
            assert num_frames(seconds, rate) == frames
            assert num_frames(1e300, rate) > frames


def test_resampled_and_stereo_audio_is_no_fault(tmp_path):
    soundfile.write(tmp_path / "t1.wav", np.stack([tone(1.0, 44_100)] * 2, axis=1), 44_100)
    kinds = {kind for kind, *_ in found(dataset(tmp_path, [record("t1")]), batch_duration=1.0)}
    assert kinds == {"no dev data", "no test data"}


@pytest.mark.parametrize("name", ["frame_rate", "batch_duration"])
def test_rates_and_durations_must_be_positive_and_finite(tmp_path, name):
    for value in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match=rf"^--[a-z-]+ \(`{name}` in Python\) must be positive and finite"):
            check_dataset(dataset(tmp_path, **VALID), **{name: value})


def test_a_folder_without_dataset_is_rejected(tmp_path):
    with pytest.raises(ValueError, match=r"no train\.jsonl in this folder"):
        check_dataset(tmp_path)
    (tmp_path / "train.jsonl").write_text("")
    with pytest.raises(ValueError, match=r"train\.jsonl: no valid utterances"):
        check_dataset(tmp_path)


# Few values per field, so that there are many duplicates; some values are invalid.
RECORDS = st.fixed_dictionaries(
    {
        "audio_filepath": st.sampled_from(["1.wav", "./1.wav", "2.wav", "3.wav", "4.wav", "gone.wav", "text.wav", ""]),
        "duration": st.sampled_from([1.0, 1, 0.5, 0.01, 2.04, 3.0, -1.0]),
        "text": st.one_of(st.sampled_from(["ahoj", "hoj", ""]), st.text("aáb |\t\u00a0\u200f😀", max_size=30)),
        "lang": st.sampled_from(["ces", "ces", "cs", "Czech", "spa", "swe", "a b"]),
    },
    optional={
        "id": st.sampled_from(["a", "b", "c", "d"]),
        "offset": st.sampled_from([0.0, -0.0, 0, 0.5]),
        "corpus": st.sampled_from(["cv", "x/y", 7]),
    },
)
LINES = st.one_of(RECORDS.map(json.dumps), st.sampled_from(["", "{not json", "[]"]))
MANIFESTS = st.fixed_dictionaries(
    {"train": st.lists(LINES, max_size=12)},
    optional={"dev": st.lists(LINES, max_size=6), "test": st.lists(LINES, max_size=6)},
)


@pytest.fixture(scope="module")
def with_audio(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dataset")
    for seconds in (1, 2, 3, 4):
        write_audio(folder / f"{seconds}.wav", float(seconds))
    (folder / "text.wav").write_text("no audio")
    return folder


@pytest.mark.parametrize("group_by", ["lang", "lang,corpus"])
@given(manifests=MANIFESTS)
def test_a_line_at_a_time_finds_the_same_as_all_lines_at_once(with_audio, group_by, manifests):
    for split in ("train", "dev", "test"):
        (with_audio / f"{split}.jsonl").unlink(missing_ok=True)
    for split, lines in manifests.items():
        write_lines(with_audio / f"{split}.jsonl", lines)
    expected = find_all(with_audio, 25.0, group_by.split(","), batch_duration=4.0, min_for_pace=4)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(statistics, "MIN_UTTERANCES_FOR_PACE", 4)
        if expected is None:
            with pytest.raises(ValueError, match="no valid utterances"):
                check_dataset(with_audio, group_by=group_by, decode=False, num_threads=1)
            return
        report = check_dataset(with_audio, group_by=group_by, decode=False, num_threads=1, batch_duration=4.0)
    assert report.findings == expected
    assert report.counts == Counter((one.kind, one.severity) for one in expected)
    for split, languages in report.statistics.items():
        rows, _ = read(with_audio / f"{split}.jsonl", split)
        for language, one in languages.items():
            own = [utterance for _, _, utterance in rows if utterance.lang == language]
            assert one.num_utterances == len(own)
            assert one.duration_mean == pytest.approx(np.mean([utterance.duration for utterance in own]))
            assert one.characters_deviation == pytest.approx(np.std([len(utterance.text) for utterance in own]))


def test_a_fault_of_every_line_is_counted_and_the_first_are_kept(tmp_path):
    write_audio(tmp_path / "a.wav", 1.0)
    lines = [json.dumps(record("a", "")), json.dumps(record("a", "|"))] * (MAX_KEPT + 5)
    for split in ("train", "dev"):
        write_lines(tmp_path / f"{split}.jsonl", lines)
    report = check_dataset(tmp_path, decode=False)
    assert report.counts["empty transcript", "error"] == report.counts["empty transcript", "warning"] == MAX_KEPT + 5
    assert report.counts["unusable character", "error"] == 2 * (MAX_KEPT + 5)
    assert report.counts["same text in two splits", "warning"] == 2 * (MAX_KEPT + 5)
    kept = Counter((one.kind, one.severity) for one in report.findings)
    assert max(kept.values()) == MAX_KEPT
    assert [one.where for one in report.findings if one.kind == "unusable character"][:2] == [
        f"{tmp_path / 'train.jsonl'}:2",
        f"{tmp_path / 'train.jsonl'}:4",
    ]
    reported = json.loads(report.to_json())
    assert (reported["errors"], reported["warnings"]) == (report.count("error"), report.count("warning"))
    assert reported["errors"] + reported["warnings"] == sum(report.counts.values()) == sum(reported["counts"].values())
    assert reported["counts"]["empty transcript"] == 2 * (MAX_KEPT + 5)
    assert len(reported["findings"]) == sum(kept.values())


def test_headers_of_files_with_several_utterances_are_read_once(tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr(audio, "header", lambda path, header=audio.header: opened.append(path) or header(path))
    dataset(tmp_path, [record("a")] * 50 + [record("b")])
    check_dataset(tmp_path, decode=False, num_threads=1)
    assert Counter(os.path.basename(path) for path in opened) == {"a.wav": 1, "b.wav": 1}


def test_a_file_of_one_utterance_is_opened_once(tmp_path, monkeypatch):
    """From a store, it is downloaded each time."""
    opened = []
    original = speech_audio.open_audio
    monkeypatch.setattr(speech_audio, "open_audio", lambda path: opened.append(path) or original(path))
    dataset(tmp_path, [record("a"), record("b")])
    check_dataset(tmp_path, num_threads=1)
    assert Counter(os.path.basename(path) for path in opened) == {"a.wav": 1, "b.wav": 1}


def test_a_manifest_that_changes_meanwhile_is_rejected(tmp_path):
    folder = dataset(tmp_path, [record("t1")], [record("d1")])

    def track(sequence, description, total=None):
        write_lines(folder / "dev.jsonl", [json.dumps(record("d1", lang="swe"))] * 2)
        return sequence

    with pytest.raises(ValueError, match=r"dev\.jsonl: changed during the check"):
        check_dataset(folder, decode=False, track=track)


def test_a_line_takes_some_bytes(tmp_path):
    write_audio(tmp_path / "a.wav", 9.0)

    def held(num_lines):
        for split, number in {"train": num_lines, "dev": num_lines // 10}.items():
            start = 0.0 if split == "train" else 5.0
            records = (record("a", f"{split} {n}", id=f"{split}-{n}", offset=start + n / 1e6) for n in range(number))
            write_lines(tmp_path / f"{split}.jsonl", map(json.dumps, records))
        tracemalloc.start()
        try:
            check_dataset(tmp_path, decode=False, num_threads=1)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    few, many = 2_000, 8_000
    assert held(many) - held(few) < 400 * (many - few)
