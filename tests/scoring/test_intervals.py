"""Intervals contain the truth as often as they claim."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulated_counts import better, recognized, simulated

from ctcdro.scoring.comparisons import compare
from ctcdro.scoring.edits import Edits
from ctcdro.scoring.intervals import confidence_intervals
from ctcdro.scoring.scores import Counts, count
from ctcdro.scoring.transcripts import Prediction


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


# Percentiles of a bootstrap contain it in 25% of the cases with six equally bad languages, and in 91% with one.
@pytest.mark.parametrize("rates", [[0.6, 0.3, 0.3], [0.4, 0.4, 0.2], [0.3] * 6, [0.36, 0.34, 0.32, 0.3]], ids=str)
@pytest.mark.parametrize("num_utterances", [20, 100])
def test_the_interval_of_the_worst_language_contains_the_highest_true_rate(rates, num_utterances):
    generator = np.random.default_rng(3)
    found = [confidence_intervals(simulated(generator, rates, num_utterances)).summary for _ in range(200)]
    covered = np.mean([one["worst_cer"].low <= max(rates) <= one["worst_cer"].high for one in found])
    assert 0.9 <= covered <= 0.99
    best = np.mean([one["best_cer"].low <= min(rates) <= one["best_cer"].high for one in found])
    assert 0.9 <= best <= 0.99


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


def test_language_accuracy_of_100_percent_is_not_certain():
    records = [Prediction(str(n), "ces", "ahoj", "ces", "ahoj") for n in range(20)]
    found = confidence_intervals(count(records)).languages["ces"]["lid"]
    assert (found.value, found.high) == (1.0, 1.0)
    assert 0.7 < found.low < 0.9  # 20 of 20 are no surprise at 86%


@pytest.mark.parametrize("profile", ["plain", "ml-superb2", "paper"])
@pytest.mark.parametrize(("num_utterances", "rate", "slope"), [(5, 0.02, 2), (100, 0.002, 1)])
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


def test_languages_without_reference_characters_are_skipped():
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
