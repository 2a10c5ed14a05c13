"""Subtitles, read again by a parser, and their limits."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctcdro.decoding.subtitles import MAX_COLUMNS, MAX_LINES, MAX_SECONDS, make_cues, to_srt, to_vtt
from ctcdro.decoding.transcript import RecordingTranscript, Segment, TimedCharacter, TimedWord

srt = pytest.importorskip("srt")


def transcript_of(*segments):
    """Segments of (seconds of silence, words), with a tenth of a second per character."""
    time, made = 0.0, []
    for pause, words in segments:
        start = time
        time += pause
        spoken = []
        for word in words:
            characters = []
            for letter in word:
                characters.append(TimedCharacter(letter, time, time + 0.05, 0.9))
                time += 0.1
            spoken.append(TimedWord(tuple(characters)))
            time += 0.1
        made.append(Segment(start, time, "ces", {"ces": 1.0}, tuple(spoken)))
    return RecordingTranscript("a.wav", time, tuple(made))


words = st.lists(st.text("ab中ěй<&>-", min_size=1, max_size=60), max_size=20)


@given(st.lists(st.tuples(st.floats(0, 5), words), min_size=1, max_size=4))
def test_cues_have_all_words_within_the_limits_and_do_not_overlap(segments):
    transcript = transcript_of(*segments)
    cues = make_cues(transcript)
    texts = "".join("".join(cue.lines).replace(" ", "") for cue in cues)
    assert texts == transcript.text.replace(" ", "")
    for cue in cues:
        assert len(cue.lines) <= MAX_LINES
        wide = [sum(2 if letter == "中" else 1 for letter in line) for line in cue.lines]
        assert max(wide) <= MAX_COLUMNS
        assert cue.start < cue.end
        assert cue.end - cue.start <= MAX_SECONDS + 1e-6
    assert all(cue.end <= following.start for cue, following in itertools.pairwise(cues))
    parsed = list(srt.parse(to_srt(transcript)))
    assert len(parsed) == len(cues)
    for cue, entry in zip(cues, parsed, strict=True):
        assert entry.start.total_seconds() == pytest.approx(cue.start, abs=6e-4)
        assert entry.end.total_seconds() == pytest.approx(cue.end, abs=6e-4)
        assert entry.content == "\n".join(cue.lines).replace("-->", "->")


def test_a_pause_begins_a_new_cue_and_short_ones_stay_visible():
    cues = make_cues(transcript_of((0.5, ["ano"]), (2.0, ["ne", "ne"])))
    assert [cue.lines for cue in cues] == [["ano"], ["ne ne"]]
    assert (cues[0].start, cues[0].end) == pytest.approx((0.5, 1.5))


def test_webvtt_is_escaped_and_long_recordings_have_hours():
    text = to_vtt(transcript_of((3661.5, ["a<b>&c"])))
    assert text == "WEBVTT\n\n01:01:01.500 --> 01:01:02.500\na&lt;b&gt;&amp;c\n"
