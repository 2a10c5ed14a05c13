"""Words with times, and the probabilities of languages, compared with enumerations of all alignments."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctcdro.decoding.alignment import Path, align_words, language_probabilities, restrict
from ctcdro.speech.vocabulary import Vocabulary

VOCABULARY = Vocabulary(["ces", "slk"], "ab", {"ces": "a", "slk": "ab"})


def random_log_probs(num_frames, seed):
    scores = np.random.default_rng(seed).normal(size=(num_frames, len(VOCABULARY)))
    return (scores - np.log(np.exp(scores).sum(-1, keepdims=True))).astype(np.float32)


@given(st.lists(st.integers(0, len(VOCABULARY) - 1), min_size=1))
def test_words_spell_the_decoded_text_and_are_in_order(labels):
    times = 0.1 + 0.02 * np.arange(len(labels))
    words = align_words(Path(np.array(labels), np.ones(len(labels)), times), VOCABULARY, 0.02)
    assert " ".join(word.text for word in words) == VOCABULARY.decode_frames(labels)[1]
    bounds = [time for word in words for one in word.characters for time in (one.start, one.end)]
    assert bounds == pytest.approx(sorted(bounds))


def test_a_word_lasts_from_its_first_frame_to_its_last():
    ces, a, b, space = (VOCABULARY.tokens.index(token) for token in ("[ces]", "a", "b", "|"))
    labels = np.array([ces, 0, a, a, 0, b, space, 0, b])
    confidences = np.array([0.9, 0.9, 0.4, 0.8, 0.9, 0.2, 0.9, 0.9, 0.5])
    first, second = align_words(Path(labels, confidences, 0.02 * np.arange(9)), VOCABULARY, 0.02)
    assert (first.text, second.text) == ("ab", "b")
    assert (first.start, first.end) == pytest.approx((0.03, 0.11))
    assert (second.start, second.end) == pytest.approx((0.15, 0.17))
    assert first.confidence == pytest.approx((0.8 * 0.2) ** 0.5)


def test_a_long_gap_begins_a_word_once():
    a, b, space = (VOCABULARY.tokens.index(token) for token in ("a", "b", "|"))
    labels = np.array([a, 0, 0, b, 0, 0, 0, a, 0, 0, space, 0, 0, b])
    path = Path(labels, np.ones(len(labels)), 0.1 * np.arange(len(labels)))
    assert [word.text for word in align_words(path, VOCABULARY, 0.1)] == ["aba", "b"]
    assert [word.text for word in align_words(path, VOCABULARY, 0.1, longest_gap=0.25)] == ["ab", "a", "b"]


def test_the_probability_of_a_language_is_that_of_its_token_to_be_the_first():
    tokens = list(VOCABULARY.language_labels)
    for seed in range(5):
        log_probs = random_log_probs(4, seed)
        total = np.zeros(2)
        for alignment in itertools.product(range(len(VOCABULARY)), repeat=len(log_probs)):
            if found := [label for label in alignment if label in tokens]:
                total[tokens.index(found[0])] += np.exp(log_probs[np.arange(4), alignment].sum())
        expected = dict(zip(VOCABULARY.languages, total / total.sum(), strict=True))
        assert language_probabilities(log_probs, VOCABULARY) == pytest.approx(expected)


def test_restricted_probabilities_are_conditional_probabilities():
    log_probs = random_log_probs(6, seed=0)
    labels = VOCABULARY.labels_of("ces")
    assert [VOCABULARY.tokens[label] for label in labels] == ["<pad>", "<unk>", "|", "[ces]", "a"]
    probabilities = np.exp(restrict(log_probs, labels))
    expected = np.exp(log_probs[:, labels])
    np.testing.assert_allclose(probabilities[:, labels], expected / expected.sum(1, keepdims=True), rtol=1e-5)
    others = [label for label in range(len(VOCABULARY)) if label not in labels]
    assert (probabilities[:, others] == 0).all()


def test_joined_parts_of_a_path_are_the_path():
    path = Path(np.arange(10), np.linspace(0, 1, 10), 0.02 * np.arange(10))
    joined = Path.join([path.between(-1.0, 0.09), path.between(0.09, np.inf)])
    np.testing.assert_array_equal(joined.labels, path.labels)
    assert len(path.between(-1.0, 0.09).labels) == 5
