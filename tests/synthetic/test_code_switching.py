"""Utterances that switch between languages: two voices, joined in one file, with the share of each language."""

import hashlib
import json
import wave
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cases import case

from ctcdro import Manifest
from ctcdro.speech.language_shares import languages_of_characters, shares_from_segments, shares_from_text
from ctcdro.synthetic.code_switching import mixture_spec
from ctcdro.synthetic.corpus import make_corpus
from ctcdro.synthetic.rendering import JoinJob, Pool, SpeakJob
from ctcdro.synthetic.spec import SpeechSpec

SMALL = SpeechSpec(
    duration=1.5, spread=0.3, num_speakers=2, num_words=50, train_minutes=0.1, dev_minutes=0.05, test_minutes=0.1
)
ALONE = {"cmn": replace(SMALL, snr=(15.0, 20.0)), "eng": replace(SMALL, reverberation=0.2)}
MIXED = {**ALONE, "cmn+eng": replace(mixture_spec("cmn+eng", ALONE), duration=3.0, train_minutes=0.3)}


def digests(folder):
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(Path(folder).rglob("*"))
        if path.is_file()
    }


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    return folder, make_corpus(folder, MIXED, num_workers=1)


def mixed(manifest):
    return [utterance for utterance in manifest if utterance.lang_shares]


def test_manifests_have_segments_and_the_shares_of_their_durations(corpus):
    folder, manifests = corpus
    for split in ("train", "dev", "test"):
        read = Manifest.read(folder / f"{split}.jsonl")
        assert list(read) == list(manifests[split])
        assert mixed(read)
        assert {one.lang for one in read if not one.lang_shares} == {"cmn", "eng"}
        for utterance in mixed(read):
            segments = utterance.extra["segments"]
            shares = shares_from_segments((segment["lang"], segment["duration"]) for segment in segments)
            assert list(utterance.lang_shares.items()) == list(shares.items())
            assert utterance.text == " ".join(segment["text"] for segment in segments)
            assert utterance.speaker == "+".join(dict.fromkeys(segment["speaker"] for segment in segments))
            assert [segment["lang"] for segment in segments] in (
                [list(shares)[number % 2] for number in range(length)] for length in (2, 3)
            )
            with wave.open(utterance.audio_filepath, "rb") as file:
                assert utterance.duration == file.getnframes() / 16_000
            assert utterance.duration == pytest.approx(sum(segment["duration"] for segment in segments))


def test_each_part_of_the_text_is_in_the_script_of_its_segment(corpus):
    for utterance in mixed(corpus[1]["train"]):
        assert set(shares_from_text(utterance.text, ["cmn", "eng"])) == {"cmn", "eng"}
        languages = iter(languages_of_characters(utterance.text, ["cmn", "eng"]))
        for segment in utterance.extra["segments"]:
            assert {next(languages) for _ in segment["text"]} == {segment["lang"]}
            next(languages, None)  # the space


def test_the_audio_has_the_speech_of_its_segments_in_their_order(tmp_path):
    parts = [SpeakJob("cmn+m1", "你好 世界", 160, 40), SpeakJob("en+f2", "hello", 120, 50)]
    jobs = [
        *(replace(part, path=str(tmp_path / f"{number}.wav")) for number, part in enumerate(parts)),
        JoinJob(parts, path=str(tmp_path / "joined.wav")),
        JoinJob(parts, snr=10.0, reverberation=0.2, path=str(tmp_path / "noisy.wav")),
    ]
    with Pool(1) as pool:
        first, second, joined, noisy = pool.run(jobs)
    assert first + second == joined == noisy
    alone = [read(tmp_path / f"{number}.wav") for number in range(2)]
    together = read(tmp_path / "joined.wav")
    for one, part in zip(alone, (together[:first], together[first:]), strict=True):
        assert np.corrcoef(one, part)[0, 1] > 0.999
    levels = [np.sqrt(np.mean(part**2)) for part in (together[:first], together[first:])]
    assert levels[0] == pytest.approx(levels[1], rel=0.01)
    assert np.corrcoef(read(tmp_path / "noisy.wav"), together)[0, 1] < 0.99


def read(path):
    with wave.open(str(path), "rb") as file:
        return np.frombuffer(file.readframes(file.getnframes()), dtype="<i2").astype(float)


def test_the_same_bytes_again_and_other_utterances_stay_as_they_are(corpus, tmp_path):
    audio = {name: digest for name, digest in digests(corpus[0]).items() if name.endswith(".wav")}
    gone, *others = sorted(name for name in audio if "cmn+eng" in name)
    (corpus[0] / gone).unlink()
    before = {name: (corpus[0] / name).stat().st_mtime_ns for name in others}
    make_corpus(corpus[0], MIXED, num_workers=3)
    assert {name: digest for name, digest in digests(corpus[0]).items() if name.endswith(".wav")} == audio
    assert {name: (corpus[0] / name).stat().st_mtime_ns for name in others} == before
    make_corpus(tmp_path, ALONE)
    alone = {name: digest for name, digest in digests(tmp_path).items() if name.endswith(".wav")}
    assert alone == {name: digest for name, digest in audio.items() if "cmn+eng" not in name}


def test_no_text_occurs_twice(corpus):
    texts = [utterance.text for manifest in corpus[1].values() for utterance in manifest]
    assert len(set(texts)) == len(texts)


def test_mixtures_have_the_means_of_their_languages():
    spec = mixture_spec("cmn+eng", {**ALONE, "cmn": replace(ALONE["cmn"], duration=2.5, dev_minutes=0.15)})
    assert (spec.duration, spec.snr, spec.reverberation) == (2.0, (15.0, 20.0), 0.1)
    assert spec.dev_minutes == pytest.approx(0.1)


def test_mixtures_of_unknown_or_equal_languages_are_rejected(tmp_path):
    for name in ("cmn+fra", "eng+eng", "+eng", "cmn+eng+cmn"):
        with case(name), pytest.raises(ValueError, match=r"two or more languages of the corpus.*Languages: cmn, eng\."):
            make_corpus(tmp_path, {**ALONE, name: SMALL})
    with pytest.raises(ValueError, match=r"Not in the corpus: 'fra'\."):
        make_corpus(tmp_path, {**ALONE, "cmn+fra": SMALL})


def test_the_script_has_the_requested_minutes(corpus):
    seconds = sum(utterance.duration for utterance in mixed(corpus[1]["train"]))
    assert seconds == pytest.approx(18, rel=0.25)
    about = json.loads((corpus[0] / "dataset.json").read_text())
    assert about["recipes"]["cmn+eng"]["train_minutes"] == 0.3
