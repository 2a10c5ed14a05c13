"""Options of synthetic speech."""

import pytest

from ctcdro.cli.speech_specs import parse_speech_specs
from ctcdro.synthetic.spec import SpeechSpec


def test_an_option_is_for_all_languages_or_for_one():
    start = {"ces": SpeechSpec(), "cmn": SpeechSpec()}
    specs = parse_speech_specs(start, minutes=["5:1:2"], duration=["4:1", "cmn=3.1:1.05"], noise=["cmn=12:20"])
    assert (specs["ces"].duration, specs["cmn"].duration) == (4.0, 3.1)
    assert (specs["ces"].snr, specs["cmn"].snr) == (SpeechSpec().snr, (12.0, 20.0))
    assert specs["ces"].test_minutes == specs["cmn"].test_minutes == 2.0


def test_noise_can_be_none():
    assert parse_speech_specs({"ces": SpeechSpec(snr=(10.0, 20.0))}, noise=["none"])["ces"].snr is None


def test_mixtures_follow_the_options_of_their_languages_and_their_own():
    start = {"cmn": SpeechSpec(), "eng": SpeechSpec()}
    options = {"duration": ["2:1", "cmn=4:1"], "minutes": ["5:1:2", "cmn+eng=3:1:1"], "noise": ["eng=10:20"]}
    mixed = parse_speech_specs(start, ["cmn+eng"], **options)["cmn+eng"]
    assert (mixed.duration, mixed.train_minutes, mixed.test_minutes, mixed.snr) == (3.0, 3.0, 1.0, (10.0, 20.0))


def test_options_of_voices_are_rejected_for_mixtures():
    start = {"cmn": SpeechSpec(), "eng": SpeechSpec()}
    with pytest.raises(ValueError, match=r"--speakers cmn\+eng=2: no language cmn\+eng \(expected one of cmn, eng\)"):
        parse_speech_specs(start, ["cmn+eng"], speakers=["cmn+eng=2"])
    with pytest.raises(ValueError, match=r"two or more languages of the corpus.*got 'cmn\+fra'"):
        parse_speech_specs(start, ["cmn+fra"])
