"""Pieces of recordings: complete, short enough, and cut where it is quiet."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctcdro.decoding.pauses import MIN_PIECE_SECONDS, split_at_pauses

RATE = 16_000


def noise(seconds, level=0.1, seed=0):
    return (level * np.random.default_rng(seed).standard_normal(round(seconds * RATE))).astype(np.float32)


def recording(spoken, pause, level=0.1, background=0.0005):
    """Bursts of noise of these lengths, with pauses of background noise, and the middle of each pause in seconds."""
    parts, cuts, position = [], [], 0.0
    for number, seconds in enumerate(spoken):
        parts += [noise(seconds, level, number), noise(pause, background, number)]
        position += seconds + pause
        cuts.append(position - pause / 2)
    return np.concatenate(parts), cuts[:-1]


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.floats(0.05, 4.0), min_size=1, max_size=8),
    st.floats(0.0, 1.5),
    st.integers(500, 60_000),
    st.floats(MIN_PIECE_SECONDS, 6.0),
)
def test_the_kept_samples_are_the_recording_with_any_blocks(spoken, pause, block, window):
    samples, _ = recording(spoken, pause)
    blocks = [samples[start : start + block] for start in range(0, len(samples), block)]
    pieces = list(split_at_pauses(blocks, window))
    assert [index for piece in pieces for index in (piece.kept.start, piece.kept.stop)][1:-1:2] == [
        piece.kept.start for piece in pieces[1:]
    ]
    assert (pieces[0].kept.start, pieces[-1].kept.stop) == (0, len(samples))
    for piece in pieces:
        end = piece.start + len(piece.samples)
        assert len(piece.samples) <= round(window * RATE)
        assert piece.start <= piece.kept.start < piece.kept.stop <= end
        np.testing.assert_array_equal(piece.samples, samples[piece.start : end])
    whole = list(split_at_pauses([samples], window))
    assert [(one.start, one.kept, one.continues) for one in whole] == [
        (one.start, one.kept, one.continues) for one in pieces
    ]


def tone(seconds, decibels):
    return np.float32(10 ** (decibels / 20)) * np.sin(np.arange(round(seconds * RATE)) / 10, dtype=np.float32)


def test_no_sample_is_kept_twice_if_a_pause_shows_only_with_the_louder_sound_after_it():
    """The first window ends 1.1 s after the pause; the next one overlaps it, and has the pause and the louder sound."""
    samples = np.concatenate([tone(3.7, 0), tone(0.2, -30), tone(1.1, -8), tone(6, 0)])
    pieces = list(split_at_pauses([samples], window_seconds=5.0))
    assert pieces[1].start < 3.8 * RATE < pieces[0].kept.stop
    for piece, following in itertools.pairwise(pieces):
        assert piece.kept.start < piece.kept.stop == following.kept.start


def test_a_recording_that_fits_is_one_piece_despite_its_pauses():
    samples, _ = recording([2.0, 3.0], pause=1.0)
    [piece] = split_at_pauses([samples], window_seconds=len(samples) / RATE)
    assert len(piece.samples) == len(samples)
    assert not piece.continues
    assert list(split_at_pauses([], window_seconds=1.0)) == []


@pytest.mark.parametrize("level", [0.3, 0.02])
def test_cuts_are_in_the_middle_of_pauses_at_any_level(level):
    spoken = [3.0, 1.0, 5.0, 2.0, 4.0, 3.0]
    samples, cuts = recording(spoken, pause=0.7, level=level, background=level / 100)
    pieces = list(split_at_pauses([samples], window_seconds=10.0))
    assert [piece.start / RATE for piece in pieces[1:]] == pytest.approx(cuts, abs=0.06)
    assert not any(piece.continues for piece in pieces)


def test_speech_without_long_pauses_is_cut_at_the_longest_short_one():
    samples = np.concatenate([noise(4.0), noise(0.2, 0.0001), noise(3.0), noise(0.3, 0.0001), noise(4.0)])
    pieces = list(split_at_pauses([samples], window_seconds=10.0))
    assert [piece.start / RATE for piece in pieces] == pytest.approx([0, 7.35], abs=0.06)


def test_sound_without_pauses_is_cut_with_context_on_both_sides():
    pieces = list(split_at_pauses([noise(25.0)], window_seconds=10.0))
    assert [piece.continues for piece in pieces] == [False, True, True]
    for piece, following in itertools.pairwise(pieces):
        assert piece.start + len(piece.samples) - piece.kept.stop == RATE
        assert following.kept.start - following.start == RATE
