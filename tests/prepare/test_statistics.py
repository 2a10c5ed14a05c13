"""Statistics and the pace of a language."""

import numpy as np
import pytest

from ctcdro import Utterance
from ctcdro.prepare.statistics import Pace, Statistics, statistics_by_language


def test_statistics_are_means_and_deviations_of_all_utterances():
    generator = np.random.default_rng(0)
    seconds, lengths = 1e8 + generator.random(2_000), generator.integers(0, 50, 2_000)
    found = statistics_by_language(
        Utterance("a.wav", duration, "x" * length, "ces") for duration, length in zip(seconds, lengths, strict=True)
    )
    assert found == {"ces": Statistics.of(seconds, lengths)}
    assert found["ces"].num_utterances == 2_000
    assert found["ces"].hours == pytest.approx(sum(seconds) / 3600)
    assert found["ces"].duration_deviation == pytest.approx(12**-0.5, rel=0.05)
    assert found["ces"].characters_per_second == pytest.approx(sum(lengths) / sum(seconds))


def test_languages_are_sorted_by_code():
    utterances = [Utterance("a.wav", 1.0, "hej", "swe"), Utterance("b.wav", 2.0, "ahoj", "ces")]
    means = [(language, row.duration_mean) for language, row in statistics_by_language(utterances).items()]
    assert means == [("ces", 2.0), ("swe", 1.0)]


def test_the_pace_of_a_language_is_that_of_its_texts_and_a_few_wrong_ones_do_not_change_it():
    generator = np.random.default_rng(0)
    lengths = generator.integers(1, 200, 1000)
    seconds = (0.6 + 0.07 * lengths) * generator.uniform(0.8, 1.25, 1000)
    seconds[:100] = generator.uniform(0.1, 60.0, 100)
    pace = Pace.fit(lengths, seconds)
    for length in (5, 50, 150):
        assert pace.seconds(length) == pytest.approx(0.6 + 0.07 * length, rel=0.3)


def test_texts_of_one_length_have_one_rate():
    assert Pace.fit([4] * 20 + [0] * 5, [2.0] * 25) == Pace(0.0, 0.5)


def test_clips_of_one_duration_have_a_constant_pace():
    generator = np.random.default_rng(0)
    assert Pace.fit(generator.integers(20, 161, 200), [10.0] * 200) == Pace(10.0, 0.0)


def test_too_few_utterances_have_no_pace():
    assert Pace.fit(range(20), range(1, 21)) is None, "one of them has no text"
