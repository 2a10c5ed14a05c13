"""Corpora of recorded speech from public sources, on tiny copies of their layouts."""

import recorded_sources as sources
import soundfile
from layouts import write_audio, write_lines
from recorded_sources import Clip
from recorded_speech import Selected, draw_splits, likely_lengths, main, share_out

from ctcdro import Manifest

FESTVOX = "usr/share/festival/voices/russian/msu_ru_nsh_clunits"
FILLETS = "usr/share/games/fillets-ng"
STAMPS = "usr/share/tuxpaint/stamps"


def write_sentences(folder):
    """The sources of Czech, Mandarin, Iban, Dutch, Romanian and Russian, with a clip or two each."""
    write_lines(folder / "festvox-ru" / FESTVOX / "etc/txt.done.data", ['( ru_0001 "Прядь вол+ос." )'])
    write_audio(folder / "festvox-ru" / FESTVOX / "wav/ru_0001.wav", 2.0)
    for code, text in (("cs", "Dobrý den."), ("nl", "Goedendag.")):
        script = [
            'dialogId("a-b", "font", "Hello.")',
            f'dialogStr("{text}")',
            'dialogId("a-c", "font",',
            '"Two lines.")',
            'dialogStr("Kapitola 2.")',
        ]
        write_lines(folder / "fillets-ng-data" / FILLETS / f"script/cave/dialogs_{code}.lua", script)
        for name in ("a-b", "a-c", "no-text"):
            write_audio(folder / f"fillets-ng-data-{code}" / FILLETS / f"sound/cave/{code}/{name}.ogg", 2.0)
    write_lines(folder / "tuxpaint-stamps-default" / STAMPS / "animals/cat.txt", ["A cat.", "ro.utf8=O pisică."])
    write_audio(folder / "tuxpaint-stamps-default" / STAMPS / "animals/cat_desc_ro.ogg", 1.5)
    for split, speaker in (("train", "ibf_002"), ("test", "ibf_001")):
        write_lines(folder / f"iban/data/{split}/{split}_text", [f"{speaker}_001  selamat {split}  "])
        write_audio(folder / f"iban/data/wav/{speaker}/{speaker}_001.wav", 3.0)
    write_audio(folder / "audio-cmn/96k/hsk/cmn-从_到_.mp3", 1.0)


def test_sentences_become_mono_flac_with_their_texts(tmp_path, capsys):
    write_sentences(tmp_path / "sources")
    main(tmp_path / "sources", tmp_path / "out")
    test = {one.lang: one for one in Manifest.read(tmp_path / "out/test.jsonl")}
    assert {language: one.text for language, one in test.items()} == {
        "ces": "Dobrý den.",
        "cmn": "从到",
        "iba": "selamat test",
        "nld": "Goedendag.",
        "ron": "O pisică.",
        "rus": "Прядь волос.",
    }
    [dev] = Manifest.read(tmp_path / "out/dev.jsonl")
    assert (dev.id, dev.text) == ("iba-ibf_002_001", "selamat train")  # its speaker is not one of the test speakers
    for one in test.values():
        info = soundfile.info(one.audio_filepath)
        assert (info.format, info.samplerate, info.channels) == ("FLAC", 16_000, 1)
        assert info.duration == one.duration
    assert "test: ces 1 clips, 0.0 min" in capsys.readouterr().out


def test_prompts_have_the_texts_of_their_listing(tmp_path):
    texts, speech = tmp_path / "asterisk-core-sounds-en", tmp_path / "asterisk-core-sounds-en-g722"
    listing = ["; a comment", "digits/1: one", "letters/a: a", "queue-thankyou: Thank you: please hold."]
    write_lines(texts / "usr/share/doc/asterisk-core-sounds-en/core-sounds-en.txt.gz", listing, mark=True)
    for name in ("digits/1", "letters/a", "queue-thankyou", "unlisted"):
        write_lines(speech / f"usr/share/asterisk/sounds/en_US_f_Allison/{name}.g722", [""])
    found = {clip.name: clip.text.strip() for clip in sources.asterisk(texts, speech, "en")}
    assert found == {"digits-1": "one", "letters-a": "", "queue-thankyou": "Thank you: please hold.", "unlisted": ""}


def clips(num, seconds=10.0, corpus="a", split=None):
    return [Selected(Clip(corpus, f"{number}", None, "", split), "xxx", f"text {number}", seconds) for number in num]


def seconds_by_split(selected):
    totals = {}
    for one in selected:
        totals[one.split] = totals.get(one.split, 0) + one.seconds
    return totals


def test_splits_of_sentences_have_their_seconds_and_no_text_in_common():
    drawn = list(draw_splits("xxx", {one.text: one for one in clips(range(300))}))
    assert seconds_by_split(drawn) == {"test": 240, "dev": 180, "train": 1000, "train-additional": 1400}
    assert len({one.text for one in drawn}) == len(drawn)
    assert drawn == list(draw_splits("xxx", {one.text: one for one in clips(range(300))}))


def test_test_speakers_stay_in_the_test_data():
    official = clips(range(30), split="test") + clips(range(30, 80), split="train")
    drawn = list(draw_splits("xxx", {one.text: one for one in official}))
    assert seconds_by_split(drawn) == {"test": 240, "dev": 180, "train": 320}
    assert all((one.split == "test") == (one.clip.split == "test") for one in drawn)


def test_prompts_are_shared_out_in_proportion_and_only_training_data_repeat_a_text():
    once, again = clips(range(60)), clips(range(60), seconds=5.0)
    drawn = list(share_out("xxx", once + again))
    totals = seconds_by_split(drawn)
    assert totals == {"test": 150, "dev": 110, "train": 510}  # of 900 s, where 1,390 s would be needed
    repeated = {one.text for one in drawn if one.seconds == 5.0}
    assert repeated == {one.text for one in drawn if one.split == "train"}


def test_speech_that_is_far_too_long_for_its_text_is_unlikely():
    letters = [5, 10, 15, 20, 25, 30] * 5
    seconds = [0.3 + 0.07 * number for number in letters]
    assert likely_lengths(letters, seconds).all()
    seconds[3] *= 3
    assert (~likely_lengths(letters, seconds)).nonzero()[0].tolist() == [3]
