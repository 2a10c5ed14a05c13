"""What comes again is told as a dictionary of all keys would tell it, also where digests have halves in common."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctcdro.prepare import duplicates as digests
from ctcdro.prepare.duplicates import Repeated, Repetitions, Seen, digest

# A digest that is zero stands for an empty slot; none is.
KEYS = st.tuples(st.integers(0, 3), st.integers(1, 4))
WIDE = st.tuples(st.sampled_from([0, 1, 2**63, 2**64 - 1]), st.sampled_from([1, 2, 2**64 - 1]))


def test_digests_are_the_same_in_every_process():
    assert digest("řeč") == (12699111608258870110, 16257022715807330264)


@given(st.lists(st.one_of(KEYS, WIDE)))
def test_what_was_seen_is_what_a_set_holds(keys):
    seen, expected = Seen(), set()
    for key in keys:
        assert (key in seen) == (key in expected)
        if key not in expected:
            seen.add(key)
            expected.add(key)


def test_thousands_are_seen_however_they_fall():
    seen = Seen()
    for number in range(1_500):
        assert (number % 7, number + 1) not in seen
        seen.add((number % 7, number + 1))
    assert all((number % 7, number + 1) in seen for number in range(1_500))
    assert not any((number % 7, number + 2) in seen for number in range(1_499, 1_600))


@pytest.mark.parametrize("at_a_time", [1, 2, 2**16])
@given(st.lists(st.one_of(KEYS, WIDE)))
def test_what_is_repeated_is_what_is_counted_twice(at_a_time, keys):
    repeated = Repeated()
    for key in keys:
        repeated.note(key)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(digests, "KEYS_AT_A_TIME", at_a_time)
        repeated.settle()
    assert [key in repeated for key in keys] == [keys.count(key) > 1 for key in keys]


@given(st.lists(st.one_of(KEYS, WIDE)))
def test_places_are_those_of_the_first_time(keys):
    repetitions = Repetitions()
    for key in keys:
        repetitions.note(key)
    repetitions.settle()
    assert [repetitions.first(key, place) for place, key in enumerate(keys)] == [keys.index(key) for key in keys]


@pytest.mark.parametrize("at_a_time", [1, 2, 2**16])
@given(st.lists(st.tuples(st.integers(0, 2), st.one_of(KEYS, WIDE))))
def test_places_are_those_of_the_first_part(at_a_time, keys):
    """Parts come one after the other, and what is in one of them only says nothing."""
    keys = sorted(keys, key=lambda one: one[0])
    repetitions = Repetitions(num_parts=3)
    for part, key in keys:
        repetitions.note(key, part)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(digests, "KEYS_AT_A_TIME", at_a_time)
        repetitions.settle()
    first = {}
    for place, (part, key) in enumerate(keys):
        before = repetitions.first(key, place)
        expected = first.setdefault(key, place)
        if keys[expected][0] != part:
            assert before == expected
        else:
            assert keys[before][0] == part
