"""One recording, several models: transcripts, error rates and figures."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest
from served_runs import VOCABULARY, write_model
from tones import spoken

from ctcdro.decoding.transcribe import Transcriber
from ctcdro.serve.posteriorgram import MAX_LABELS, posteriorgram, select_labels
from ctcdro.serve.recognition import MAX_FIGURE_SECONDS, character_error_rate, load_models, recognize
from ctcdro.serve.uploads import UploadError
from ctcdro.speech.vocabulary import Vocabulary

SAMPLES = spoken("abcdefgh", np.random.default_rng(0)).astype(np.float32)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    others = Vocabulary(["ccc"], "xyz")
    paths = [write_model(folder / "a" / "first", 0), write_model(folder / "b" / "first", 1)]
    return load_models([*paths, write_model(folder / "other", 2, others)], "cpu")


def test_names_are_unique_and_contain_no_path(models):
    assert [model.name for model in models] == ["first", "first (2)", "other"]


def test_each_model_gives_its_own_transcript(models):
    results = list(recognize(models[:2], SAMPLES, reference="abcd"))
    assert [result.name for result in results] == ["first", "first (2)"]
    assert [result.transcript for result in results] == [model.transcriber.samples(SAMPLES) for model in models[:2]]
    assert results[0].transcript.text != results[1].transcript.text
    assert all(result.cer > 0 and result.figure.startswith("<svg") and not result.problem for result in results)


def test_a_chosen_language_excludes_the_others(models):
    free, forced = (next(recognize(models, SAMPLES, language)) for language in (None, "bbb"))
    assert set(free.transcript.text) & set("abcd")
    assert not set(forced.transcript.text) & set("abcd")
    assert forced.transcript.language == "bbb"
    assert next(recognize(models, SAMPLES)).transcript == free.transcript  # the model itself is not changed


def test_a_model_that_does_not_know_the_language_says_so_and_the_others_answer(models):
    results = list(recognize(models, SAMPLES, "aaa"))
    assert [bool(result.problem) for result in results] == [False, False, True]
    assert results[2].transcript is None


def test_a_recording_that_is_too_short_is_an_upload_error(models):
    with pytest.raises(UploadError, match=r"^The recording cannot be transcribed: too short"):
        next(recognize(models, SAMPLES[:10]))


def test_the_figure_of_a_long_recording_shows_its_start(models):
    result = next(recognize(models, np.tile(SAMPLES, 12)))
    assert result.transcript.duration > MAX_FIGURE_SECONDS
    assert result.figure_note == f"The figure shows the first {MAX_FIGURE_SECONDS:g} seconds."
    assert next(recognize(models, SAMPLES)).figure_note == ""


def test_log_probabilities_are_those_of_the_transcript(models):
    transcriber = models[0].transcriber
    log_probs = transcriber.log_probs(SAMPLES)
    assert np.allclose(np.exp(log_probs).sum(1), 1.0, atol=1e-4)
    assert VOCABULARY.decode_frames(log_probs.argmax(1).tolist())[1] == transcriber.samples(SAMPLES).text


def test_the_same_model_in_another_language_equals_a_transcriber_of_that_language(models, tmp_path):
    alone = Transcriber(write_model(tmp_path / "model"), language="aaa", device="cpu")
    assert models[0].transcriber.in_language("aaa").samples(SAMPLES) == alone.samples(SAMPLES)


@pytest.mark.parametrize(("reference", "text", "cer"), [("abcd", "abxd", 0.25), ("", "abc", None), ("ab", "", 1.0)])
def test_the_error_rate_is_that_of_the_reference(reference, text, cer):
    assert character_error_rate(reference, text) == cer


def test_labels_with_mass_are_drawn_in_the_order_of_their_peaks():
    probabilities = np.full((5, 7), 0.01, dtype=np.float32)
    probabilities[3, 2] = probabilities[1, 5] = probabilities[4, 4] = 0.9
    assert select_labels(probabilities) == [0, 5, 2, 4]
    many = np.eye(100, dtype=np.float32)
    assert len(select_labels(many)) == 1 + MAX_LABELS


def test_the_figure_is_valid_svg_with_any_label_as_text():
    vocabulary = Vocabulary(["ces", "<b>"], "<&řभ語\u202e")
    log_probs = np.log(0.99 * np.eye(len(vocabulary), dtype=np.float32) + 0.001)
    svg = posteriorgram(log_probs, 0.02 * np.arange(len(vocabulary)), 0.02, vocabulary, "a").to_svg()
    texts = {text.text for text in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")}
    assert {"blank", "space", "[ces]", "[<b>]", "<", "&", "ř", "भ", "語", "\u202e", "seconds"} <= texts
    assert re.findall('<script|onload|href="[^#d]', svg) == []
