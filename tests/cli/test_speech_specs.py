"""Options of synthetic speech."""

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
