"""Intervals cover what they should, pairs are kept together, and Student's distribution is that of the tables."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctcdro.metrics import Counts, Edits, count, score
from ctcdro.significance import (
    bootstrap,
    compare,
    over_runs,
    paired_t_test,
    student_cdf,
    student_quantile,
)
from ctcdro.transcripts import Prediction


def simulated(generator, rates, num_utterances, length=30, profile="plain"):
    """Counts of languages with these character error rates; a word is as wrong as a character."""
    language = np.repeat(np.arange(len(rates)), num_utterances)
    names = [f"l{number:02}" for number in range(len(rates))]
    lengths = generator.integers(1, 2 * length, size=len(language))
    wrong = generator.binomial(lengths, np.asarray(rates)[language])
    none = np.zeros_like(wrong)
    edits = Edits(wrong, none, none, lengths)
    return Counts(
        profile=profile,
        ids=[str(number) for number in range(len(language))],
        languages=names,
        language=language,
        predicted=[names[own] if right else None for own, right in zip(language, wrong < lengths / 2, strict=True)],
        characters=edits,
        words=edits,
    )


def better(generator, counts, share):
    """The same utterances, with that share of the errors."""
    wrong = generator.binomial(counts.characters.substitutions, share)
    edits = replace(counts.characters, substitutions=wrong)
    return replace(counts, characters=edits, words=edits)


@pytest.mark.parametrize("profile", ["plain", "ml-superb2", "paper"])
def test_figures_of_the_data_are_those_of_the_scores(profile):
    counts = simulated(np.random.default_rng(0), [0.1, 0.3, 0.2], 40, profile=profile)
    found, scores = bootstrap(counts, num_resamples=50), counts.scores()
    for name, interval in found.summary.items():
        assert interval.value == pytest.approx(scores.summary()[name])
        assert interval.low <= interval.high
    for language, rates in found.languages.items():
        for name, interval in rates.items():
            assert interval.value == pytest.approx(getattr(scores.languages[language], name))
    assert set(found.summary) == {
        f"{figure}_{rate}" for figure in ("worst", "best", "mean", "overall") for rate in ("cer", "wer", "lid")
    }


def test_draws_are_those_of_a_loop():
    """The bootstrap by definition, with as many draws: percentiles agree within what draws leave to chance."""
    counts = simulated(np.random.default_rng(1), [0.1, 0.4], 60)
    shares = counts.shares()["cer"]
    generator = np.random.default_rng(2)
    worst = []
    for _ in range(2000):
        rates = []
        for number in range(2):
            drawn = generator.choice(np.flatnonzero(counts.language == number), size=60)
            rates.append(shares.errors[drawn].sum() / shares.weights[drawn].sum())
        worst.append(max(rates))
    found = bootstrap(counts, num_resamples=2000).summary["worst_cer"]
    assert [found.low, found.high] == pytest.approx(np.quantile(worst, [0.025, 0.975]), abs=0.003)


def test_intervals_cover_the_truth_about_as_often_as_they_say():
    generator = np.random.default_rng(3)
    covered = {"mean_cer": 0, "worst_cer": 0, "l00": 0}
    for _ in range(300):
        found = bootstrap(simulated(generator, [0.1, 0.2, 0.5], 50), num_resamples=200, confidence=0.9)
        truth = {"mean_cer": 0.8 / 3, "worst_cer": 0.5}
        for name, rate in truth.items():
            covered[name] += found.summary[name].low <= rate <= found.summary[name].high
        covered["l00"] += found.languages["l00"]["cer"].low <= 0.1 <= found.languages["l00"]["cer"].high
    for times in covered.values():
        assert 0.84 <= times / 300 <= 0.95


def test_differences_that_are_none_are_seldom_found():
    generator = np.random.default_rng(4)
    found = []
    for _ in range(200):
        base = simulated(generator, [0.3, 0.3], 40)
        pair = [better(generator, base, 0.8) for _ in range(2)]
        found.append(compare(*pair, num_resamples=200).summary["mean_cer"].p_value)
    assert 0.01 <= np.mean(np.array(found) < 0.05) <= 0.10
    assert 0.35 <= np.mean(np.array(found) < 0.5) <= 0.65


def test_pairs_show_a_difference_that_single_intervals_do_not():
    generator = np.random.default_rng(5)
    base = simulated(generator, [0.2, 0.4], 60)
    # Utterances that are hard for both.
    hard = replace(base.characters, substitutions=base.characters.substitutions * generator.integers(0, 3, 120))
    base = replace(base, characters=hard, words=hard)
    other = better(generator, base, 0.93)
    first, second = bootstrap(base).summary["worst_cer"], bootstrap(other).summary["worst_cer"]
    difference = compare(base, other).summary["worst_cer"]
    assert second.high > first.low
    assert difference.high < 0
    assert difference.p_value < 0.01
    assert (difference.first, difference.second) == (first.value, second.value)
    assert difference.value == pytest.approx(second.value - first.value)


def test_a_system_does_not_differ_from_itself():
    counts = simulated(np.random.default_rng(6), [0.2, 0.4], 20)
    for difference in compare(counts, counts, num_resamples=100).summary.values():
        assert (difference.value, difference.low, difference.high, difference.p_value) == (0, 0, 0, 1)


def test_exchanged_systems_differ_by_the_opposite():
    generator = np.random.default_rng(7)
    first = simulated(generator, [0.2, 0.4], 30)
    second = better(generator, first, 0.9)
    there, back = compare(first, second, 300), compare(second, first, 300)
    for name, difference in there.summary.items():
        assert difference.low == pytest.approx(-back.summary[name].high)
        assert difference.p_value == back.summary[name].p_value


def test_the_same_seed_gives_the_same_figures():
    counts = simulated(np.random.default_rng(8), [0.2, 0.4], 20)
    assert bootstrap(counts, 100, seed=1) == bootstrap(counts, 100, seed=1)
    assert bootstrap(counts, 100, seed=1) != bootstrap(counts, 100, seed=2)


def test_memory_is_bounded_without_changing_what_is_drawn(monkeypatch):
    counts = simulated(np.random.default_rng(9), [0.2, 0.4], 20)
    whole = bootstrap(counts, 100)
    monkeypatch.setattr("ctcdro.significance._DRAWS_AT_A_TIME", 130)
    assert bootstrap(counts, 100) == whole


def test_languages_without_reference_characters_are_passed_over():
    records = [Prediction("a", "ces", "ahoj", "ces", "ahoi"), Prediction("b", "deu", "", "deu", "ja")]
    records += [Prediction("c", "fra", "oui", "fra", "oui"), Prediction("d", "fra", "", "fra", "")]
    found = bootstrap(count(records), 50)
    assert set(found.languages["deu"]) == {"lid"}
    assert found.summary["mean_cer"].value == 0.125
    assert math.isfinite(found.summary["mean_cer"].high)
    nothing = bootstrap(count(records[1:2], "ml-superb2"), 50)
    assert nothing.summary == {}
    assert nothing.languages == {"deu": {}}


def test_what_cannot_be_compared_is_refused():
    counts = simulated(np.random.default_rng(10), [0.2, 0.4], 5)
    with pytest.raises(ValueError, match="of the profile of `first`, plain; got paper"):
        compare(counts, replace(counts, profile="paper"))
    with pytest.raises(ValueError, match="the utterances of `first`"):
        compare(counts, replace(counts, ids=counts.ids[::-1]))
    with pytest.raises(ValueError, match="the utterances of `first`"):
        compare(counts, replace(counts, languages=["l00", "l02"]))
    longer = replace(counts.characters, reference=counts.characters.reference + (np.array(counts.ids) == "3"))
    for other in (replace(counts, characters=longer), replace(counts, words=longer)):
        with pytest.raises(ValueError, match=r"the references of `first`: .* utterance '3' has"):
            compare(counts, other)
    with pytest.raises(ValueError, match="`num_resamples` must be positive; got 0"):
        bootstrap(counts, 0)
    with pytest.raises(ValueError, match="`confidence` must be between 0 and 1; got 95"):
        bootstrap(counts, confidence=95)


@pytest.mark.parametrize(
    ("degrees", "t"),
    # Of printed tables, two-sided 5 %.
    [(1, 12.706), (2, 4.303), (3, 3.182), (5, 2.571), (10, 2.228), (30, 2.042), (120, 1.980), (1e9, 1.960)],
)
def test_student_is_that_of_the_tables(degrees, t):
    assert student_quantile(0.975, degrees) == pytest.approx(t, abs=6e-4)
    assert 2 * student_cdf(-t, degrees) == pytest.approx(0.05, abs=1e-4)


CLOSED_FORMS = {
    1: lambda t: 0.5 + math.atan(t) / math.pi,
    2: lambda t: 0.5 + t / (2 * math.sqrt(2 + t * t)),
    3: lambda t: 0.5 + (t / math.sqrt(3) / (1 + t * t / 3) + math.atan(t / math.sqrt(3))) / math.pi,
    4: lambda t: 0.5 + 3 / 8 * t / math.sqrt(1 + t * t / 4) * (1 - t * t / (1 + t * t / 4) / 12),
}


@pytest.mark.parametrize("degrees", CLOSED_FORMS)
@given(t=st.floats(-1e4, 1e4))
def test_student_agrees_with_closed_forms(degrees, t):
    assert student_cdf(t, degrees) == pytest.approx(CLOSED_FORMS[degrees](t), abs=1e-13)


def test_student_nears_the_normal_distribution():
    for t in (-3.0, -1.0, 0.0, 0.5, 2.0):
        assert student_cdf(t, 1e8) == pytest.approx(0.5 * math.erfc(-t / math.sqrt(2)), abs=1e-7)


@given(st.floats(1e-6, 1 - 1e-6), st.floats(1, 500))
def test_quantiles_turn_the_distribution_round(probability, degrees):
    assert student_cdf(student_quantile(probability, degrees), degrees) == pytest.approx(probability, rel=1e-9)


def test_student_refuses_what_is_no_probability():
    with pytest.raises(ValueError, match="`probability` must be between 0 and 1"):
        student_quantile(1.0, 3)


def test_the_t_test_is_that_of_students_own_sleep_data():
    """Gosset (1908): hours of sleep gained by ten patients under two drugs; t = 4.06 of 9 degrees, p = 0.0028."""
    first = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]
    second = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]
    found = paired_t_test(first, second)
    assert (found.t, found.degrees) == (pytest.approx(4.0621, abs=1e-4), 9)
    assert found.p_value == pytest.approx(0.002833, abs=1e-6)
    assert found.value == pytest.approx(1.58)
    assert (found.low, found.high) == (pytest.approx(0.7001, abs=1e-4), pytest.approx(2.4599, abs=1e-4))


def test_equal_differences_have_no_chance_in_them():
    none, same = paired_t_test([1.0, 2.0], [1.0, 2.0]), paired_t_test([1.0, 2.0], [2.0, 3.0])
    assert (none.t, none.p_value) == (0.0, 1.0)
    assert (same.t, same.p_value, same.low, same.high) == (None, 0.0, 1.0, 1.0)


@pytest.mark.parametrize(("first", "second"), [([1.0], [2.0]), ([1.0, 2.0], [1.0]), ([], [])])
def test_pairs_must_be_pairs(first, second):
    with pytest.raises(ValueError, match="must be pairs, two at least"):
        paired_t_test(first, second)
    with pytest.raises(ValueError, match="`confidence`"):
        paired_t_test([1.0, 2.0], [1.0, 2.0], confidence=1)


def test_runs_have_means_and_deviations():
    def run(text, profile="plain"):
        records = [Prediction("a", "ces", "ahoj", "ces", text), Prediction("b", "deu", "ja", "deu", "ja")]
        return score(records, profile)

    found = over_runs([run("ahoj"), run("aho"), run("ah")])
    assert found["worst_cer"].mean == 0.25
    assert found["worst_cer"].deviation == 0.25
    assert found["mean_cer"].num_runs == 3
    assert over_runs([run("aho")])["worst_cer"].deviation is None
    assert "spread_cer" not in over_runs([score([Prediction("a", "ces", "ahoj", "ces", "ahoj")])])
    with pytest.raises(ValueError, match="one profile; got paper, plain"):
        over_runs([run("ahoj"), run("ahoj", "paper")])
    with pytest.raises(ValueError, match="got no runs"):
        over_runs([])
