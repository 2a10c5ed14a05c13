"""The search for subgroups: planted ones are found, chance is not, and figures are those of their definitions."""

import numpy as np
import pytest

from ctcdro.scoring.subgroups import MIN_UTTERANCES, find_subgroups


def simulate(seed, num_utterances=600, excess=0.0):
    """Errors of three languages that differ, with rates that vary between utterances, and lengths tied to durations.

    With an excess, short utterances of speaker "1-2" and utterances of the second language in noise are worse.
    """
    rng = np.random.default_rng(seed)
    language = rng.integers(3, size=num_utterances)
    lengths = rng.integers(5, 80, num_utterances).astype(float)
    duration = np.digitize(lengths * rng.uniform(0.8, 1.2, num_utterances), [25, 50])
    speaker = rng.integers(5, size=num_utterances)
    noise = rng.integers(3, size=num_utterances)
    corpus = rng.integers(2, size=num_utterances)
    rates = np.array([0.05, 0.2, 0.4])[language] * rng.gamma(2.0, 0.5, num_utterances)
    planted = (language == 1) & (noise == 2)
    rates = rates + excess * planted
    edits = rng.binomial(lengths.astype(int), np.clip(rates, 0, 1)).astype(float)
    attributes = {
        "language": [f"l{number}" for number in language],
        "corpus": [f"c{number}" for number in corpus],
        "speaker": [f"{own}-{number}" for own, number in zip(language, speaker, strict=True)],
        "duration": [("short", "medium", "long")[number] for number in duration],
        "noise": [("low", "medium", "high")[number] for number in noise],
    }
    return edits, lengths, language, attributes, planted


def test_a_planted_subgroup_is_found_first_and_its_interval_contains_the_excess():
    edits, lengths, language, attributes, planted = simulate(0, excess=0.15)
    search = find_subgroups(edits, lengths, language, attributes)
    worst = search.found[0]
    assert worst.conditions == {"language": "l1", "noise": "high"}
    assert worst.num_utterances == planted.sum()
    assert worst.rate == pytest.approx(edits[planted].sum() / lengths[planted].sum())
    rate = edits[language == 1].sum() / lengths[language == 1].sum()
    assert worst.expected == pytest.approx(rate)
    assert worst.p_value < 0.01
    share = lengths[planted].sum() / lengths[language == 1].sum()
    assert worst.excess.low <= 0.15 * (1 - share) <= worst.excess.high
    assert len(search.found) <= 2  # what overlaps with it is not found again
    assert search.num_searched > 100


def test_chance_is_found_in_at_most_a_few_of_many_null_datasets():
    alarms = sum(bool(find_subgroups(*simulate(seed, num_utterances=300)[:4]).found) for seed in range(20))
    assert alarms <= 3  # 1 is expected


def test_languages_and_small_subgroups_are_not_searched():
    edits, lengths, language, attributes, _ = simulate(1)
    only = {"language": attributes["language"]}
    assert find_subgroups(edits, lengths, language, only).num_searched == 0
    few = ["x"] * (MIN_UTTERANCES - 1) + [None] * (len(edits) - MIN_UTTERANCES + 1)
    assert find_subgroups(edits, lengths, language, {"speaker": few}).num_searched == 0
    assert find_subgroups(edits[:0], lengths[:0], language[:0], {"speaker": []}).found == []


def test_texts_without_characters_and_equal_errors_are_harmless():
    lengths = np.array([0.0] * 20 + [10.0] * 40)
    speakers = ["a", "b"] * 30
    search = find_subgroups(np.zeros(60), lengths, np.zeros(60, int), {"speaker": speakers})
    assert (search.num_searched, search.found) == (2, [])
