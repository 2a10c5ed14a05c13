"""Rooms and levels."""

import numpy as np
import pytest

from ctcdro.synthetic.acoustics import add_room, set_level

SPEECH = np.random.default_rng(7).standard_normal(20_001) * np.linspace(0, 0.1, 20_001)


@pytest.mark.parametrize("seconds", [0.1, 0.8])
def test_a_room_decays_by_sixty_decibels_in_its_time(seconds):
    click = np.zeros(2 * 16_000)
    click[0] = 1.0
    echo = add_room(click, seconds, 16_000, np.random.default_rng(0))
    window = round(0.1 * seconds * 16_000)
    energy = [np.sum(echo[start : start + window] ** 2) for start in (1, 1 + round(seconds * 16_000))]
    assert 10 * np.log10(energy[0] / energy[1]) == pytest.approx(60, abs=2)


def test_a_room_is_the_same_as_a_plain_convolution():
    room = add_room(np.eye(1, 3_000)[0], 0.1, 16_000, np.random.default_rng(1))
    slow = np.convolve(SPEECH[:3_000], room)[:3_000]
    np.testing.assert_allclose(add_room(SPEECH[:3_000], 0.1, 16_000, np.random.default_rng(1)), slow, atol=1e-12)


def test_no_reverberation_is_no_room():
    np.testing.assert_array_equal(add_room(SPEECH, 0.0, 16_000, np.random.default_rng(0)), SPEECH)


def test_the_same_seed_gives_the_same_room():
    first, again, other = (add_room(SPEECH, 0.2, 16_000, np.random.default_rng(seed)) for seed in (0, 0, 1))
    assert len(first) == len(SPEECH)
    np.testing.assert_array_equal(first, again)
    assert not np.allclose(first, other)


def test_levels_are_equal_and_nothing_clips():
    for gain in (0.01, 1.0, 30.0):
        assert np.sqrt(np.mean(set_level(gain * SPEECH) ** 2)) == pytest.approx(0.05)
    assert np.abs(set_level(np.r_[5.0, np.zeros(10_000)])).max() == pytest.approx(0.99)
