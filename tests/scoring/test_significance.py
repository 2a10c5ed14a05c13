"""Intervals contain the truth as often as they claim, and Student's distribution is that of the tables."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctcdro.scoring.scores import Counts, Edits, count, score
from ctcdro.scoring.significance import (
    compare,
    confidence_intervals,
    over_runs,
    paired_t_test,
    student_cdf,
    student_quantile,
)
from ctcdro.scoring.transcripts import Prediction


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
def test_values_are_those_of_the_scores_and_lie_within_their_intervals(profile):
    generator = np.random.default_rng(0)
    counts = simulated(generator, [0.1, 0.3, 0.28], 40, profile=profile)
    found, scores = confidence_intervals(counts), counts.scores()
    for name, interval in found.summary.items():
        assert interval.value == pytest.approx(scores.summary()[name])
        assert 0 <= interval.low <= interval.value <= interval.high
    for language, rates in found.languages.items():
        for name, interval in rates.items():
            assert interval.value == pytest.approx(getattr(scores.languages[language], name))
            assert 0 <= interval.low <= interval.value <= interval.high
    assert set(found.summary) == {
        f"{figure}_{rate}" for figure in ("worst", "best", "mean", "overall") for rate in ("cer", "wer", "lid")
    }
    other = better(generator, counts, 0.9)
    for name, difference in compare(counts, other).summary.items():
        assert difference.first == pytest.approx(scores.summary()[name])
        assert difference.second == pytest.approx(other.scores().summary()[name])
        assert difference.value == pytest.approx(difference.second - difference.first)
        assert difference.low <= difference.value <= difference.high


def test_intervals_are_those_of_a_studentized_bootstrap():
    """Draws of utterances, each with its standard error, know the skewness without any formula."""
    generator = np.random.default_rng(1)
    lengths = generator.integers(5, 60, 60)
    wrong = generator.binomial(lengths, generator.beta(0.4, 1.6, 60))  # few utterances have most of the errors
    none = np.zeros_like(wrong)
    edits = Edits(wrong, none, none, lengths)
    counts = Counts("plain", list(map(str, range(60))), ["l00"], np.zeros(60, int), ["l00"] * 60, edits, edits)

    def rate_and_error(chosen):
        rate = wrong[chosen].sum() / lengths[chosen].sum()
        residuals = wrong[chosen] - rate * lengths[chosen]
        return rate, np.sqrt((residuals**2).sum() * 60 / 59) / lengths[chosen].sum()

    rate, error = rate_and_error(np.arange(60))
    drawn = [rate_and_error(generator.integers(60, size=60)) for _ in range(4000)]
    t = np.quantile([(own - rate) / own_error for own, own_error in drawn], [0.975, 0.025])
    found = confidence_intervals(counts).languages["l00"]["cer"]
    width = found.high - found.low
    assert [found.low, found.high] == pytest.approx(list(rate - t * error), abs=0.06 * width)


# What the percentiles of a bootstrap gave: 25 % with six equally bad languages, and 91 % with one.
@pytest.mark.parametrize("rates", [[0.6, 0.3, 0.3], [0.4, 0.4, 0.2], [0.3] * 6, [0.36, 0.34, 0.32, 0.3]], ids=str)
@pytest.mark.parametrize("num_utterances", [20, 100])
def test_the_interval_of_the_worst_language_contains_the_highest_true_rate(rates, num_utterances):
    generator = np.random.default_rng(3)
    found = [confidence_intervals(simulated(generator, rates, num_utterances)).summary for _ in range(200)]
    covered = np.mean([one["worst_cer"].low <= max(rates) <= one["worst_cer"].high for one in found])
    assert 0.9 <= covered <= 0.99
    best = np.mean([one["best_cer"].low <= min(rates) <= one["best_cer"].high for one in found])
    assert 0.9 <= best <= 0.99


@pytest.mark.parametrize("rates", [[0.6, 0.3, 0.3], [0.4, 0.4, 0.2], [0.3] * 6], ids=str)
def test_a_difference_of_the_worst_language_that_does_not_exist_is_seldom_found(rates):
    generator = np.random.default_rng(4)
    p_values = []
    for _ in range(200):
        base = simulated(generator, np.array(rates) / 0.8, 60)
        p_values.append(compare(*(better(generator, base, 0.8) for _ in range(2))).summary["worst_cer"].p_value)
    assert 0.01 <= np.mean(np.array(p_values) < 0.05) <= 0.09
    assert 0.3 <= np.mean(np.array(p_values) < 0.5) <= 0.6


@pytest.mark.parametrize("profile", ["plain", "ml-superb2"])
def test_intervals_of_languages_and_means_contain_the_truth(profile):
    generator = np.random.default_rng(5)
    rates = np.array([0.1, 0.2, 0.5])
    covered = {"mean_cer": 0, "overall_cer": 0, "l00": 0}
    for _ in range(400):
        found = confidence_intervals(simulated(generator, rates, 20, profile=profile))
        for name in ("mean_cer", "overall_cer"):
            covered[name] += found.summary[name].low <= rates.mean() <= found.summary[name].high
        covered["l00"] += found.languages["l00"]["cer"].low <= 0.1 <= found.languages["l00"]["cer"].high
    assert all(0.92 <= times / 400 <= 0.98 for times in covered.values()), covered


def test_a_difference_is_significant_exactly_if_its_interval_excludes_zero():
    generator = np.random.default_rng(6)
    for number in range(60):
        base = simulated(generator, [0.3, 0.3, 0.28], 30)
        found = compare(base, better(generator, base, 1 - 0.02 * (number % 3)))
        for difference in (*found.summary.values(), *(one for own in found.languages.values() for one in own.values())):
            escapes_folder = difference.low > 0 or difference.high < 0
            assert escapes_folder == (difference.p_value < 0.05) or abs(difference.p_value - 0.05) < 1e-3


def test_language_accuracy_of_100_percent_is_not_certain():
    records = [Prediction(str(n), "ces", "ahoj", "ces", "ahoj") for n in range(20)]
    found = confidence_intervals(count(records)).languages["ces"]["lid"]
    assert (found.value, found.high) == (1.0, 1.0)
    assert 0.7 < found.low < 0.9  # 20 of 20 are no surprise at 86 %


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


def recognized(*texts):
    """Counts of (language, reference, hypothesis)."""
    return count(Prediction(str(n), lang, text, lang, said) for n, (lang, text, said) in enumerate(texts))


@pytest.mark.parametrize("profile", ["plain", "ml-superb2", "paper"])
@pytest.mark.parametrize(
    ("num_utterances", "rate", "slope"), [(20, 0.005, 1), (5, 0.02, 1), (5, 0.02, 2), (100, 0.002, 1)]
)
def test_intervals_of_rare_errors_contain_the_truth(num_utterances, rate, slope, profile):
    generator = np.random.default_rng(8)
    difficulty = np.exp(slope * generator.standard_normal((200, num_utterances)))
    chances = np.minimum(rate * difficulty / np.exp(slope**2 / 2), 1)
    covered = []
    for own in chances:
        lengths = generator.integers(20, 45, num_utterances)
        wrong, none = generator.binomial(lengths, own), np.zeros_like(lengths)
        edits, ids = Edits(wrong, none, none, lengths), list(map(str, range(num_utterances)))
        counts = Counts(profile, ids, ["l00"], np.zeros(num_utterances, int), ["l00"] * num_utterances, edits, edits)
        found = confidence_intervals(counts)
        covered.append([one.low <= rate <= one.high for one in (found.summary["worst_cer"], found.summary["mean_cer"])])
    assert np.mean(covered) >= 0.92


@pytest.mark.parametrize("said", ["ahoj", ""])
def test_utterances_that_are_all_right_or_all_wrong_leave_a_rate_uncertain(said):
    found = confidence_intervals(recognized(*[("ces", "ahoj", said)] * 5))
    for name in ("worst_cer", "best_cer", "mean_cer", "overall_cer", "worst_wer", "mean_wer"):
        assert found.summary[name].high - found.summary[name].low > 0.1


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


def test_languages_without_reference_characters_are_passed_over():
    records = [Prediction("a", "ces", "ahoj", "ces", "ahoi"), Prediction("b", "deu", "", "deu", "ja")]
    records += [Prediction("c", "fra", "oui", "fra", "oui"), Prediction("d", "fra", "", "fra", "")]
    found = confidence_intervals(count(records))
    assert set(found.languages["deu"]) == {"lid"}
    assert found.summary["mean_cer"].value == 0.125
    assert math.isfinite(found.summary["mean_cer"].high)
    nothing = confidence_intervals(count(records[1:2], "ml-superb2"))
    assert nothing.summary == {}
    assert nothing.languages == {"deu": {}}


def test_a_single_utterance_says_next_to_nothing():
    found = confidence_intervals(count([Prediction("a", "ces", "ahoj", "ces", "ahoi")])).languages["ces"]["cer"]
    assert (found.value, found.low) == (0.25, 0.0)
    assert found.high > 1


@given(st.lists(st.tuples(st.sampled_from("abc"), st.text("xy ", max_size=6), st.text("xy ", max_size=9)), min_size=1))
def test_intervals_of_any_texts_are_finite_and_contain_their_values(utterances):
    records = [Prediction(str(n), lang, text, lang, said) for n, (lang, text, said) in enumerate(utterances)]
    counts = count(records)
    exchanged = count([replace_text(one, said) for one, (*_, said) in zip(records, reversed(utterances), strict=True)])
    found, compared = confidence_intervals(counts), compare(counts, exchanged)
    each = [one for own in (found.languages, compared.languages) for rates in own.values() for one in rates.values()]
    for one in (*found.summary.values(), *compared.summary.values(), *each):
        assert -math.inf < one.low <= one.value <= one.high < math.inf
        assert 0 <= getattr(one, "p_value", 0) <= 1


def replace_text(record, said):
    return Prediction(record.id, record.lang, record.text, record.hyp_lang, said)


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
    with pytest.raises(ValueError, match="`confidence` must be between 0 and 1; got 95"):
        confidence_intervals(counts, confidence=95)


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
