"""Statistics are those of numpy, however many utterances there are, and whatever their size."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctcdro import Utterance
from ctcdro.prepare import statistics
from ctcdro.prepare.statistics import MOST_FOR_PACE, Pace, PaceSample, Statistics, by_language

SIZES = st.lists(
    st.tuples(st.one_of(st.floats(1e-3, 30.0), st.floats(1e8, 1e8 + 1)), st.integers(0, 50)), min_size=1, max_size=40
)


@pytest.mark.parametrize("at_a_time", [1, 3, 1024])
@given(sizes=SIZES)
def test_sums_that_run_along_give_what_numpy_gives_for_all_at_once(at_a_time, sizes):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(statistics, "UTTERANCES_AT_A_TIME", at_a_time)
        found = Statistics.of(Utterance("a.wav", seconds, "x" * number, "ces") for seconds, number in sizes)
    seconds, numbers = map(np.array, zip(*sizes, strict=True))
    close = {"rel": 1e-12, "abs": 1e-12 * seconds.max()}
    assert found.num_utterances == len(sizes)
    assert found.hours == pytest.approx(seconds.sum() / 3600, rel=1e-12)
    assert (found.duration_mean, found.characters_mean) == pytest.approx((seconds.mean(), numbers.mean()), rel=1e-12)
    assert found.duration_deviation == pytest.approx(seconds.std(), **close)
    assert found.characters_deviation == pytest.approx(numbers.std(), rel=1e-12, abs=1e-12)


def test_thousands_of_utterances_have_the_deviation_of_numpy():
    seconds = 3.0 + np.random.default_rng(0).random(20_000)
    found = Statistics.of(Utterance("a.wav", one, "ahoj", "ces") for one in seconds)
    assert found.duration_mean == pytest.approx(seconds.mean(), rel=1e-13)
    assert found.duration_deviation == pytest.approx(seconds.std(), rel=1e-12)
    assert (found.characters_mean, found.characters_deviation) == (4.0, 0.0)


def test_languages_are_in_the_order_of_their_codes():
    utterances = [Utterance("a.wav", 1.0, "hej", "swe"), Utterance("b.wav", 2.0, "ahoj", "ces")]
    assert [(language, one.duration_mean) for language, one in by_language(utterances).items()] == [
        ("ces", 2.0),
        ("swe", 1.0),
    ]


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


def test_the_pace_of_many_utterances_is_measured_on_some_from_all_of_them():
    sample, number = PaceSample(), 5 * MOST_FOR_PACE
    for seconds in range(1, number + 1):
        sample.add(Utterance("a.wav", float(seconds), "a", "ces"))
    assert sample.pace().per_character == pytest.approx(number / 2, rel=0.01)


def test_no_utterances_have_no_statistics():
    with pytest.raises(ValueError, match="must not be empty"):
        Statistics.of([])
