"""Differences between systems: found where they exist, and seldom elsewhere."""

from dataclasses import replace

import numpy as np
import pytest
from simulated_counts import better, recognized, simulated

from ctcdro.scoring.comparisons import compare
from ctcdro.scoring.intervals import confidence_intervals


@pytest.mark.parametrize("rates", [[0.6, 0.3, 0.3], [0.4, 0.4, 0.2], [0.3] * 6], ids=str)
def test_a_difference_of_the_worst_language_that_does_not_exist_is_seldom_found(rates):
    generator = np.random.default_rng(4)
    p_values = []
    for _ in range(200):
        base = simulated(generator, np.array(rates) / 0.8, 60)
        p_values.append(compare(*(better(generator, base, 0.8) for _ in range(2))).summary["worst_cer"].p_value)
    assert 0.01 <= np.mean(np.array(p_values) < 0.05) <= 0.09
    assert 0.3 <= np.mean(np.array(p_values) < 0.5) <= 0.6


def test_a_difference_is_significant_exactly_if_its_interval_excludes_zero():
    generator = np.random.default_rng(6)
    for number in range(60):
        base = simulated(generator, [0.3, 0.3, 0.28], 30)
        found = compare(base, better(generator, base, 1 - 0.02 * (number % 3)))
        for difference in (*found.summary.values(), *(one for own in found.languages.values() for one in own.values())):
            excludes_zero = difference.low > 0 or difference.high < 0
            assert excludes_zero == (difference.p_value < 0.05) or abs(difference.p_value - 0.05) < 1e-3


def test_pairs_show_a_difference_that_single_intervals_do_not():
    generator = np.random.default_rng(5)
    base = simulated(generator, [0.2, 0.4], 60)
    # Utterances that are hard for both.
    hard = replace(base.characters, substitutions=base.characters.substitutions * generator.integers(0, 3, 120))
    base = replace(base, characters=hard, words=hard)
    other = better(generator, base, 0.93)
    first, second = (confidence_intervals(one).summary["worst_cer"] for one in (base, other))
    difference = compare(base, other).summary["worst_cer"]
    assert second.high > first.low
    assert difference.high < 0
    assert difference.p_value < 0.01
    assert (difference.first, difference.second) == (first.value, second.value)
    assert difference.value == pytest.approx(second.value - first.value)


def test_a_system_does_not_differ_from_itself():
    counts = simulated(np.random.default_rng(6), [0.2, 0.4], 20)
    for difference in compare(counts, counts).summary.values():
        assert (difference.value, difference.p_value) == (0, 1)
        # Equal results on these utterances do not exclude a difference on others.
        assert difference.low < 0 < difference.high


@pytest.mark.parametrize("times", [1, 25])
def test_two_equal_improvements_are_not_significant(times):
    first, second = (recognized(*[("ces", "ahoj" * times, text * times)] * 2) for text in ("aho", "ahoj"))
    for name, found in compare(first, second).summary.items():
        assert found.p_value > 0.05, name
        assert found.low < 0 < found.high


@pytest.mark.parametrize("said", ["", "x" * 9, "xy"])
@pytest.mark.parametrize("num_others", [0, 40])
def test_one_utterance_alone_is_never_significant(said, num_others):
    others = [("deu", "guten tag", "guten tak" if number % 2 else "guten tag") for number in range(num_others)]
    first, second = (recognized(("ces", "ab", text), *others) for text in (said, "ab"))
    for found in (compare(first, second), compare(second, first)):
        for name, one in (*found.summary.items(), *found.languages["ces"].items()):
            assert one.p_value > 0.05, name
            assert one.low <= 0 <= one.high


@pytest.mark.parametrize("rates", [[0.2, 0.4], [0.3, 0.3, 0.3]], ids=str)
def test_exchanged_systems_differ_by_the_opposite(rates):
    generator = np.random.default_rng(7)
    first = simulated(generator, rates, 30)
    second = better(generator, first, 0.9)
    there, back = compare(first, second), compare(second, first)
    for name, difference in there.summary.items():
        assert difference.low == pytest.approx(-back.summary[name].high)
        assert difference.p_value == pytest.approx(back.summary[name].p_value)


def test_different_data_cannot_be_compared():
    counts = simulated(np.random.default_rng(10), [0.2, 0.4], 5)
    with pytest.raises(ValueError, match="the scoring profile of `first`, plain; got paper"):
        compare(counts, replace(counts, profile="paper"))
    with pytest.raises(ValueError, match="the utterances of `first`"):
        compare(counts, replace(counts, ids=counts.ids[::-1]))
    with pytest.raises(ValueError, match="the utterances of `first`"):
        compare(counts, replace(counts, languages=["l00", "l02"]))
    longer = replace(counts.characters, reference=counts.characters.reference + (np.array(counts.ids) == "3"))
    for other in (replace(counts, characters=longer), replace(counts, words=longer)):
        with pytest.raises(ValueError, match=r"the references of `first`: .* utterance '3' has"):
            compare(counts, other)
