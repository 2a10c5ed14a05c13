"""The rules that say what limits a language, on constructed errors and losses."""

import numpy as np
import pytest
from cases import case

from ctcdro.scoring.verdicts import MIN_UTTERANCES, TrainingUtterance, find_suspicious, judge, training_cer

LENGTH = 20


def make_utterances(cer=0.1, losses=None, number=60, seed=0):
    """Utterances of 20 characters; without losses, those of a model that fits all of them."""
    losses = np.random.default_rng(seed).lognormal(-1.0, 0.5, number) if losses is None else losses
    return [
        TrainingUtterance(f"u{index}", f"train.jsonl:{index}", "y" * LENGTH, "x" * LENGTH, edits, LENGTH, LENGTH * loss)
        for index, loss in enumerate(losses)
        for edits in [round(cer * LENGTH)]
    ]


def with_wrong_transcripts(share, cer=0.1, factor=12.0):
    """A model that fits most utterances, and whose loss is far higher for a share of them."""
    utterances = make_utterances(cer)
    num_wrong = round(share * len(utterances))
    wrong = make_utterances(0.9, factor * np.random.default_rng(1).lognormal(-1.0, 0.3, num_wrong), num_wrong)
    return [*wrong, *utterances[num_wrong:]]


def test_the_training_error_and_its_distance_from_the_development_error_decide():
    for train_cer, dev_cer, expected in (
        (0.4, 0.5, "underfit"),
        (0.2, 0.5, "underfit"),
        (0.15, 0.5, "overfit"),
        (0.0, 0.06, "overfit"),
        (0.0, 0.05, "good-fit"),
        (0.05, 0.12, "good-fit"),
        (0.1, 0.02, "good-fit"),
    ):
        with case((train_cer, dev_cer)):
            assert judge(make_utterances(train_cer), dev_cer) == [expected]


@pytest.mark.parametrize("cer", [0.85, 1.0, 1.2])
def test_a_language_with_almost_only_errors_in_training_is_not_learned(cer):
    assert judge(make_utterances(cer), 0.9) == ["not-learned"]


def test_wrong_transcripts_are_found_and_do_not_count_as_errors_of_the_fit():
    utterances = with_wrong_transcripts(0.2)
    assert {one.id for one in find_suspicious(utterances)} == {f"u{index}" for index in range(12)}
    assert training_cer(utterances) == pytest.approx(0.26)
    assert judge(utterances, 0.4) == ["label-errors", "overfit"]
    assert judge(utterances, 0.25) == ["label-errors", "underfit"]
    assert judge(utterances, 0.04) == ["label-errors"]


def test_a_few_outliers_are_listed_but_are_no_verdict():
    utterances = with_wrong_transcripts(0.05)
    assert len(find_suspicious(utterances)) == 3
    assert judge(utterances, 0.12) == ["underfit"]


@pytest.mark.parametrize("seed", range(5))
def test_losses_of_a_normal_spread_are_not_suspicious(seed):
    assert len(find_suspicious(make_utterances(seed=seed, number=200))) <= 6


def test_the_most_suspicious_utterance_is_first_and_the_order_of_the_data_does_not_matter():
    utterances = with_wrong_transcripts(0.2)
    found = find_suspicious(utterances)
    assert found == sorted(found, key=lambda one: -one.loss)
    assert find_suspicious(utterances[::-1]) == found


@pytest.mark.parametrize("scale", [0.01, 100.0])
def test_suspicion_does_not_depend_on_the_scale_of_the_losses(scale):
    ids = [[one.id for one in find_suspicious(scaled(with_wrong_transcripts(0.2), by))] for by in (1.0, scale)]
    assert ids[0] == ids[1]


def scaled(utterances, by):
    return [TrainingUtterance(**{**vars(one), "loss": by * one.loss}) for one in utterances]


def test_equal_and_zero_losses_are_not_suspicious():
    for loss in (0.0, 1.0):
        assert find_suspicious(make_utterances(losses=np.full(60, loss))) == []


def test_too_few_utterances_are_not_searched():
    few = with_wrong_transcripts(0.2)[: MIN_UTTERANCES - 1]
    assert find_suspicious(few) == []


def test_without_development_or_training_data_nothing_is_judged():
    assert judge([], 0.5) == []
    assert judge(make_utterances(), None) == []
