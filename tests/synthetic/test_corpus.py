"""The synthetic corpus: reproducible, resumable, with the requested duration."""

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import time
import wave
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cases import case

from ctcdro import Manifest
from ctcdro.speech.normalization import clean
from ctcdro.synthetic.corpus import DEMO_SPECS, SpeechSpec, make_corpus
from ctcdro.synthetic.rendering import Pool
from ctcdro.synthetic.script import draw_durations, plan, rng_of

SMALL = SpeechSpec(
    duration=1.2, spread=0.3, num_speakers=2, snr=(15.0, 20.0), train_minutes=0.2, dev_minutes=0.05, test_minutes=0.05
)
SPECS = {"ces": SMALL, "cmn": replace(SMALL, snr=None, reverberation=0.2)}


def digests(folder):
    files = [path for path in sorted(Path(folder).rglob("*")) if path.is_file()]
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    return folder, make_corpus(folder, SPECS, num_workers=1)


def test_the_same_bytes_with_four_workers(corpus, tmp_path):
    make_corpus(tmp_path, SPECS, num_workers=4)
    assert digests(tmp_path) == digests(corpus[0])


def test_another_seed_gives_another_corpus(corpus, tmp_path):
    make_corpus(tmp_path, SPECS, seed=1)
    assert not {name for name in digests(tmp_path) if name.endswith(".wav")} & set(digests(corpus[0]))


def test_manifests_say_what_is_in_the_audio(corpus):
    folder, manifests = corpus
    assert list(manifests) == ["train", "dev", "test"]
    for split, manifest in manifests.items():
        read = Manifest.read(folder / f"{split}.jsonl")
        assert [one.to_record() for one in read] == [one.to_record() for one in manifest]
        for utterance in read:
            with wave.open(utterance.audio_filepath, "rb") as file:
                assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (16_000, 1, 2)
                assert utterance.duration == file.getnframes() / 16_000
                samples = np.frombuffer(file.readframes(file.getnframes()), dtype="<i2")
            assert 0 < np.abs(samples.astype(int)).max() < 32_767
            assert utterance.id == Path(utterance.audio_filepath).stem
            assert utterance.corpus == "synthetic"
            assert utterance.speaker.startswith(f"{utterance.lang}-")
            assert clean(utterance.text) == utterance.text


def test_no_text_and_no_file_occurs_twice(corpus):
    everything = [utterance for manifest in corpus[1].values() for utterance in manifest]
    assert len({utterance.text for utterance in everything}) == len(everything)
    assert len({utterance.id for utterance in everything}) == len(everything)


def test_sentences_stay_when_training_grows(corpus):
    with Pool(2) as pool:
        longer = plan({"ces": replace(SMALL, train_minutes=1.0)}, 0, pool)
    texts = {sentence.text for (_, split, _), sentence in longer.items() if split == "test"}
    assert texts == {one.text for one in corpus[1]["test"] if one.lang == "ces"}


def test_durations_are_as_asked(tmp_path):
    asked = {"ara": (1.5, 0.4), "fra": (3.0, 1.0), "jpn": (4.0, 1.2)}
    specs = {
        code: replace(SMALL, duration=mean, spread=spread, train_minutes=1.2) for code, (mean, spread) in asked.items()
    }
    train = make_corpus(tmp_path, specs)["train"]
    for code, (mean, spread) in asked.items():
        durations = np.array([utterance.duration for utterance in train if utterance.lang == code])
        assert durations.mean() == pytest.approx(mean, rel=0.1), code
        assert 0.6 * spread < durations.std() < 1.5 * spread, code


@pytest.mark.parametrize(("mean", "spread"), [(4.0, 1.7), (17.0, 8.0), (0.5, 0.3)])
def test_targets_keep_their_mean_when_they_are_clipped(mean, spread):
    drawn = np.array(draw_durations(SpeechSpec(duration=mean, spread=spread), 100, rng_of(0)))
    assert drawn.mean() == pytest.approx(mean, rel=0.01)
    assert drawn.sum() == pytest.approx(6000, rel=0.02)
    assert drawn.min() >= 0.4
    assert drawn.max() <= 20.0


def test_a_file_that_is_there_is_not_made_again(corpus):
    folder, _ = corpus
    before = digests(folder)
    times = {path: path.stat().st_mtime_ns for path in folder.rglob("*.wav")}
    totals = []

    def track(iterable, description, total):
        totals.append(total)
        return iterable

    gone, broken = sorted(times)[:2]
    gone.unlink()
    broken.write_bytes(b"")
    make_corpus(folder, SPECS, track=track)
    assert totals == [2]
    assert digests(folder) == before
    assert all(path.stat().st_mtime_ns == was for path, was in times.items() if path not in (gone, broken))


def test_a_killed_run_resumes_to_the_same_bytes(corpus, tmp_path):
    program = f"from ctcdro.synthetic.corpus import *\nmake_corpus({str(tmp_path)!r}, {SPECS!r}, num_workers=2)"
    process = subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE)
    while process.poll() is None and len(list(tmp_path.rglob("*.wav"))) < 5:
        time.sleep(0.002)
    process.kill()
    process.communicate()
    assert process.returncode != 0
    assert not list(tmp_path.glob("*.jsonl"))
    (tmp_path / "audio" / "ces" / f".ces-0.wav.{'0' * 32}.ctcdro-new").write_bytes(
        b"half"
    )  # as a killed worker would leave it
    make_corpus(tmp_path, SPECS)
    assert digests(tmp_path) == digests(corpus[0])


def test_audio_that_a_power_cut_shortened_is_made_again(corpus, tmp_path):
    shutil.copytree(corpus[0], tmp_path, dirs_exist_ok=True)
    for path, size in zip(sorted(tmp_path.rglob("*.wav")), (0, 44, 4096), strict=False):
        os.truncate(path, size)
    make_corpus(tmp_path, SPECS)
    assert digests(tmp_path) == digests(corpus[0])


def test_two_runs_in_one_folder_are_rejected(tmp_path):
    def track(iterable, description, total):
        with pytest.raises(ValueError, match="another process is writing to this folder"):
            make_corpus(tmp_path, SPECS)
        return iterable

    make_corpus(tmp_path, {"ces": SMALL}, track=track)


def test_too_few_words_are_an_error_that_names_language_and_option(tmp_path):
    with pytest.raises(ValueError, match=r"'ces' has too few words \(2\): .* Raise `num_words`"):
        make_corpus(tmp_path, {"ces": replace(SMALL, num_words=2, duration=0.5, spread=0.0)})


def test_languages_that_cannot_be_spoken_are_rejected(tmp_path):
    with pytest.raises(ValueError, match="Cannot synthesize speech for 'tha'"):
        make_corpus(tmp_path, {"ces": SMALL, "tha": SMALL})
    with pytest.raises(ValueError, match="`specs` must have at least one language"):
        make_corpus(tmp_path, {})
    with pytest.raises(ValueError, match="`num_workers` must be a positive integer; got 0"):
        make_corpus(tmp_path, {"ces": SMALL}, num_workers=0)


def test_a_missing_package_is_named_with_the_extra(tmp_path, monkeypatch):
    find = importlib.util.find_spec
    hidden = lambda name: None if name == "wordfreq" else find(name)  # noqa: E731
    monkeypatch.setattr("ctcdro.synthetic.corpus.find_spec", hidden)
    with pytest.raises(
        ImportError, match=r"needs the extra `demo` \(missing: wordfreq\): pip install 'ctcdro\[demo\]'"
    ):
        make_corpus(tmp_path, {"ces": SMALL})


def test_an_invalid_spec_is_rejected():
    for option, message in (
        ({"duration": 30.0}, "`duration` must be a number from 0.4 to 20; got 30.0"),
        ({"reverberation": float("nan")}, "`reverberation` must be a number from 0 to 10; got nan"),
        ({"num_speakers": 2.5}, "`num_speakers` must be an integer from 1 to 1,000; got 2.5"),
        ({"snr": 20}, "`snr` must be two numbers from -30 to 100 in increasing order; got 20"),
        ({"words_per_minute": (130, 100)}, r"`words_per_minute` must be two numbers from 80 to 450.*got \(130, 100\)"),
        ({"words_per_minute": None}, "`words_per_minute` must be two numbers"),
    ):
        with case(option), pytest.raises(ValueError, match=message):
            SpeechSpec(**option)


def test_the_demonstration_is_less_than_two_hours():
    minutes = sum(one.train_minutes + one.dev_minutes + one.test_minutes for one in DEMO_SPECS.values())
    assert 90 <= minutes <= 110
    assert [one.duration for one in DEMO_SPECS.values()] == [1.2, 3.1, 1.1, 2.25, 3.8, 2.4]
