"""The halves of the development set: disjoint, stable, of every group, and whole where it is too small."""

import logging

import pytest

from ctcdro.scoring.transcripts import Prediction
from ctcdro.speech.manifest import Manifest
from ctcdro.speech.utterance import Utterance
from ctcdro.training.dev_halves import split_dev


def make_dev(num_utterances, languages=("ces", "cmn"), length=20):
    return Manifest(
        Utterance(f"{language}-{number}.wav", duration=1.0, text="a" * length, lang=language, id=f"{language}-{number}")
        for number in range(num_utterances)
        for language in languages
    )


def test_halves_are_disjoint_and_do_not_change_when_utterances_are_added():
    small, large = make_dev(100), make_dev(150)
    halves = [split_dev(dev, ["lang"], ["ces", "cmn"]) for dev in (small, large)]
    for dev, half in zip((small, large), halves, strict=True):
        assert sorted(half.for_weights + half.for_selection) == list(range(len(dev)))
        assert 0.35 < len(half.for_weights) / len(dev) < 0.65
    ids = [{dev[index].id for index in half.for_weights} for dev, half in zip((small, large), halves, strict=True)]
    assert ids[0] <= ids[1]


def test_error_rates_are_those_of_one_half():
    dev = make_dev(100)
    halves = split_dev(dev, ["lang"], ["ces", "cmn"])
    wrong = set(halves.for_selection)
    predictions = [
        Prediction(one.id, one.lang, one.text, one.lang, "b" * 20 if index in wrong else one.text[:15])
        for index, one in enumerate(dev)
    ]
    assert halves.error_rates(predictions) == {"ces": 0.25, "cmn": 0.25}


def test_a_small_set_is_not_split_and_a_warning_names_the_groups(caplog):
    with caplog.at_level(logging.WARNING):
        halves = split_dev(make_dev(40), ["lang"], ["ces", "cmn"])
    assert halves.for_weights == halves.for_selection == list(range(80))
    assert "each half needs 500 characters per group, and ces, cmn has fewer" in caplog.text


def test_a_group_without_transcripts_is_an_error():
    with pytest.raises(ValueError, match=r"no transcripts of kor, but `objective\.signal: error_rate` needs every"):
        split_dev(make_dev(100), ["lang"], ["ces", "cmn", "kor"])
