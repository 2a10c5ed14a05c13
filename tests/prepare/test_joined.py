"""Pairs of utterances in training data."""

import os
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import soundfile
from layouts import write_audio

from ctcdro import Manifest, Utterance
from ctcdro.prepare.joined import choose_seconds, join_pairs
from ctcdro.speech.audio import SAMPLE_RATE, read_audio

QUANTUM = 2**-14  # FLAC has 16 bits


def utterance(path, duration, text, lang, seconds=None, **fields):
    """An utterance with its audio file, which may be longer."""
    write_audio(path, seconds or duration)
    return Utterance(str(path), duration, text, lang, **fields)


@pytest.fixture
def dataset(tmp_path):
    """Twelve training utterances in two languages and two corpora, of 0.5 to 1.6 s; one is a part of a longer file."""
    utterances = [
        utterance(
            tmp_path / f"{number}.wav",
            0.5 + number / 10,
            f"text {number}",
            ("ces", "kor")[number % 2],
            id=f"u{number}",
            corpus=("a", "b")[number // 6],
            speaker=f"speaker {number % 4}",
            extra={"devices": [number // 4]},
        )
        for number in range(11)
    ]
    utterances.append(utterance(tmp_path / "long.wav", 1.6, "text 11", "kor", seconds=5.0, offset=2.0, corpus="b"))
    (tmp_path / "data").mkdir()
    Manifest(utterances).write(tmp_path / "data" / "train.jsonl")
    Manifest(utterances[:2]).write(tmp_path / "data" / "dev.jsonl")
    return tmp_path / "data"


def pairs_of(folder):
    return [one for one in Manifest.read(folder / "train.jsonl") if one.audio_filepath.endswith(".flac")]


def test_each_utterance_occurs_alone_and_in_front_of_another_of_its_language(dataset, tmp_path):
    done = join_pairs(dataset, tmp_path / "out")
    train, written = Manifest.read(dataset / "train.jsonl"), Manifest.read(tmp_path / "out" / "train.jsonl")
    assert list(written)[: len(train)] == list(train)
    by_text = {one.text: one for one in train}
    pairs = list(written)[len(train) :]
    assert len(pairs) == len(train)
    for first, pair in zip(train, pairs, strict=True):
        assert pair.text.startswith(f"{first.text} ")
        second = by_text[pair.text.removeprefix(f"{first.text} ")]
        assert second != first
        assert pair.lang == second.lang == first.lang
        assert pair.speaker == (first.speaker if first.speaker == second.speaker else None)
        assert pair.corpus == (first.corpus if first.corpus == second.corpus else None)
        assert pair.extra == (first.extra if first.extra == second.extra else {})
        pause = pair.duration - first.duration - second.duration
        assert abs(pause) < 1e-3 or 0.1 <= pause <= 0.8
        samples = read_audio(pair.audio_filepath)
        for part, start in ((first, 0.0), (second, first.duration + pause)):
            original = read_audio(part.audio_filepath, part.offset, part.duration)
            begin = round(start * SAMPLE_RATE)
            np.testing.assert_allclose(samples[begin : begin + len(original)], original, atol=QUANTUM)
    assert len({pair.id for pair in pairs if pair.id} | {one.id for one in train if one.id}) == 2 * 11
    assert done.statistics["train"]["ces"].num_utterances == 12
    assert not (tmp_path / "out" / "test.jsonl").exists()
    assert list(Manifest.read(tmp_path / "out" / "dev.jsonl")) == list(Manifest.read(dataset / "dev.jsonl"))


def test_half_of_the_pairs_have_a_pause(tmp_path):
    Manifest([utterance(tmp_path / "data" / "a.wav", 0.1, "ahoj", "ces")] * 300).write(
        tmp_path / "data" / "train.jsonl"
    )
    join_pairs(tmp_path / "data", tmp_path / "out")
    share = np.mean([pair.duration > 0.25 for pair in pairs_of(tmp_path / "out")])
    assert 0.4 < share < 0.55  # a few pauses are shorter than 0.15 s


def test_the_same_seed_gives_the_same_bytes_and_another_seed_other_pairs(dataset, tmp_path):
    folders = [tmp_path / name for name in ("one", "two", "three")]
    for folder, seed in zip(folders, (0, 0, 1), strict=True):
        join_pairs(dataset, folder, seed=seed)
    one, two, three = ({path.name: path.read_bytes() for path in sorted((f / "audio").iterdir())} for f in folders)
    assert one == two
    assert one.keys().isdisjoint(three)


def test_pairs_share_the_fields_of_group_by_and_stay_below_the_limit(dataset, tmp_path):
    join_pairs(dataset, tmp_path / "out", group_by="lang,corpus", max_duration=3.0)
    corpora = {one.text: one.corpus for one in Manifest.read(dataset / "train.jsonl")}
    pairs = pairs_of(tmp_path / "out")
    assert 0 < len(pairs) < 12
    for pair in pairs:
        words = pair.text.split()
        assert corpora[" ".join(words[:2])] == corpora[" ".join(words[2:])] == pair.corpus
        assert pair.duration <= 3.0


def test_utterances_in_several_languages_are_kept_but_not_joined(tmp_path):
    plain = utterance(tmp_path / "data" / "a.wav", 1.0, "ahoj", "ces")
    mixed = plain.with_languages({"ces": 0.5, "eng": 0.5})
    Manifest([mixed, mixed, plain, plain]).write(tmp_path / "data" / "train.jsonl")
    join_pairs(tmp_path / "data", tmp_path / "out")
    assert [pair.text for pair in pairs_of(tmp_path / "out")] == ["ahoj ahoj"] * 2


def test_mistakes_are_reported_and_write_no_dataset(dataset, tmp_path):
    with pytest.raises(ValueError, match=r"train.jsonl: no pair has at most 1 s\. Choose a higher limit\."):
        join_pairs(dataset, tmp_path / "out", max_duration=1.0)
    join_pairs(dataset, tmp_path / "out")
    with pytest.raises(ValueError, match=r"built with other options \(seed: 0 → 1\)"):
        join_pairs(dataset, tmp_path / "out", seed=1)
    with pytest.raises(FileNotFoundError):
        join_pairs(tmp_path / "missing", tmp_path / "other")
    assert not (tmp_path / "other" / "train.jsonl").exists()


def test_a_dataset_stays_whole_if_its_replacement_is_interrupted(dataset, tmp_path):
    def interrupted(numbers, *_):
        yield from list(numbers)[:6]
        raise KeyboardInterrupt

    join_pairs(dataset, tmp_path / "out")
    before = [(one, read_audio(one.audio_filepath)) for one in pairs_of(tmp_path / "out")]
    with pytest.raises(KeyboardInterrupt):
        join_pairs(dataset, tmp_path / "out", seed=1, overwrite=True, track=interrupted)
    assert pairs_of(tmp_path / "out") == [one for one, _ in before]
    for one, samples in before:
        np.testing.assert_array_equal(read_audio(one.audio_filepath), samples)


def test_the_same_command_resumes_and_joins_again_what_changed_or_is_damaged(dataset, tmp_path):
    def interrupted(numbers, *_):
        yield from list(numbers)[:6]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        join_pairs(dataset, tmp_path / "out", track=interrupted)
    kept = {path: path.stat().st_mtime_ns for path in sorted((tmp_path / "out" / "audio").iterdir())}
    damaged = next(iter(kept))
    content = damaged.read_bytes()
    damaged.write_bytes(content[: len(content) // 2])
    join_pairs(dataset, tmp_path / "out")
    assert damaged.read_bytes() == content
    assert {path for path, time in kept.items() if path.stat().st_mtime_ns == time} == set(kept) - {damaged}
    assert len(pairs_of(tmp_path / "out")) == 12
    first = Manifest.read(dataset / "train.jsonl")[0]
    os.utime(first.audio_filepath, ns=(0, 0))
    before = pairs_of(tmp_path / "out")
    join_pairs(dataset, tmp_path / "out")
    changed = [old.text for old, new in zip(before, pairs_of(tmp_path / "out"), strict=True) if old != new]
    assert changed == [one.text for one in before if f"{first.text} " in f"{one.text} "]


def test_every_partner_that_is_short_enough_is_as_likely():
    utterances = [Utterance("a.wav", seconds, "x", "ces") for seconds in (3.0, 1.0, 2.0, 4.0, 1.0)]
    chosen = [choose_seconds(Manifest(utterances), "lang", 4.0, seed) for seed in range(600)]
    assert {tuple(pairs) for pairs in chosen} == {(0, 1, 2, 4)}  # the utterance of 4 s has no partner
    for first, partners in {0: {1, 4}, 1: {0, 2, 4}, 2: {1, 4}, 4: {0, 1, 2}}.items():
        counts = Counter(pairs[first] for pairs in chosen)
        assert set(counts) == partners
        assert min(counts.values()) > 0.75 * 600 / len(partners)


def test_a_dataset_is_not_replaced_by_its_own_pairs(dataset):
    before = (dataset / "train.jsonl").read_bytes()
    with pytest.raises(ValueError, match=r"is the dataset itself, whose train\.jsonl would be lost"):
        join_pairs(dataset, dataset, overwrite=True)
    assert (dataset / "train.jsonl").read_bytes() == before


def test_an_utterance_without_words_adds_no_space(tmp_path):
    plain = utterance(tmp_path / "data" / "a.wav", 1.0, "ahoj", "ces")
    Manifest([replace(plain, text=""), plain]).write(tmp_path / "data" / "train.jsonl")
    join_pairs(tmp_path / "data", tmp_path / "out")
    assert [pair.text for pair in pairs_of(tmp_path / "out")] == ["ahoj", "ahoj"]


def test_samples_beyond_full_scale_are_not_clipped(tmp_path):
    plain = utterance(tmp_path / "data" / "a.wav", 1.0, "ahoj", "ces")
    loud = 3 * np.sin(np.arange(SAMPLE_RATE) / 10)
    soundfile.write(plain.audio_filepath, loud, SAMPLE_RATE, subtype="FLOAT")
    Manifest([plain, plain]).write(tmp_path / "data" / "train.jsonl")
    join_pairs(tmp_path / "data", tmp_path / "out")
    for pair in pairs_of(tmp_path / "out"):
        np.testing.assert_allclose(read_audio(pair.audio_filepath)[:SAMPLE_RATE], loud / 3, atol=1e-3)
