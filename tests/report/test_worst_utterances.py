"""The worst utterances are found, aligned, and have audio."""

import base64
import io

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st
from run_folders import write_evaluation, write_run
from tones import write_dataset

from ctcdro import Utterance
from ctcdro.report.read_runs import read_runs
from ctcdro.report.study import make_study
from ctcdro.report.worst_utterances import MOST_SECONDS, align, letters, make_clip, worst_utterances
from ctcdro.scoring.transcripts import Prediction

TEXTS = st.text(alphabet="ab \u0301ř語", max_size=12)


@given(TEXTS, TEXTS)
def test_an_alignment_holds_both_texts_whole_with_the_fewest_edits(reference, hypothesis):
    aligned = align(reference, hypothesis)
    assert "".join(upper for _, upper, _ in aligned) == reference
    assert "".join(lower for _, _, lower in aligned) == hypothesis
    edits = sum(kind != "equal" for kind, _, _ in aligned)
    assert edits == distance(letters(reference), letters(hypothesis))
    assert all((upper == lower) == (kind == "equal") for kind, upper, lower in aligned)


def test_letters_keep_their_marks_and_spaces_are_letters():
    assert letters("ne\u0301!") == ["n", "e\u0301", "!"]
    found = align("dobrý den", "dobry  en")
    assert found[:3] == [("equal", "dobr", "dobr"), ("replace", "ý", "y"), ("equal", " ", " ")]
    assert found[3:] == [("replace", "d", " "), ("equal", "en", "en")]


def distance(one, other):
    """The Levenshtein distance, as in textbooks."""
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, start=1):
        before, row[0] = row[0], i
        for j, b in enumerate(other, start=1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (a != b))
    return row[-1]


@pytest.fixture
def study(tmp_path):
    dataset = write_dataset(tmp_path / "tones", num_train=2, num_dev=6)
    for objective in ("erm", "ctc-dro"):
        folder = write_run(tmp_path / "runs" / objective, dataset, objective, share_wrong=0.0)
        [run] = read_runs([folder.path]).runs
        longest = max((one for one in run.predictions if one.lang == "aaa"), key=lambda one: len(one.text))
        changed = [
            Prediction(one.id, one.lang, one.text, one.lang, "zz" if one.id == longest.id else one.hyp_text)
            for one in run.predictions
        ]
        write_evaluation(folder, changed)
    return make_study(read_runs([tmp_path]).runs), longest


def test_the_worst_utterance_comes_first_with_what_each_method_made_of_it(study):
    study, longest = study
    [[first, *_]] = worst_utterances(study, num_worst=3)
    assert (first.id, first.text) == (longest.id, longest.text)
    assert [one.label for one in first.hypotheses] == ["Baseline (ERM)", "CTC-DRO"]
    assert first.cer == first.hypotheses[0].cer == 1.0
    assert "".join(lower for _, _, lower in first.hypotheses[0].alignment) == "zz"


def test_no_more_are_shown_than_asked_for(study):
    assert [len(group) for group in worst_utterances(study[0], num_worst=2)] == [2]
    assert worst_utterances(study[0], num_worst=0) == [[]]


def test_a_clip_sounds_like_the_utterance(study):
    study, longest = study
    [[first, *_]] = worst_utterances(study, num_worst=1)
    head, _, encoded = first.audio.partition("base64,")
    assert head == "data:audio/mpeg;"
    heard, rate = soundfile.read(io.BytesIO(base64.b64decode(encoded)))
    spoken, _ = soundfile.read(study.runs[0].dataset.utterances[longest.id].audio_filepath)
    assert rate == 16_000
    assert abs(len(heard) - len(spoken)) < 0.2 * rate
    ours, theirs = (np.abs(np.fft.rfft(one, 2**17))[: 2**16].reshape(256, -1).sum(axis=1) for one in (heard, spoken))
    assert np.corrcoef(ours, theirs)[0, 1] > 0.95  # the same tones


def test_a_long_clip_is_cut(tmp_path):
    soundfile.write(tmp_path / "a.wav", np.zeros(16_000 * 25), 16_000)
    clip = make_clip(Utterance(str(tmp_path / "a.wav"), 25.0, "a", "ces"))
    assert 19 < soundfile.info(io.BytesIO(base64.b64decode(clip.partition(",")[2]))).duration < MOST_SECONDS + 0.2


def test_audio_that_is_gone_is_said_to_be(study, tmp_path):
    for path in (tmp_path / "tones").glob("*.wav"):
        path.unlink()
    [[first, *_]] = worst_utterances(study[0], num_worst=1)
    assert first.audio == ""
    assert "no such file" in first.audio_note
    [[first, *_]] = worst_utterances(study[0], num_worst=1, with_audio=False)
    assert (first.audio, first.audio_note) == ("", "")
