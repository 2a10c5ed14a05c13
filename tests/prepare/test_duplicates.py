"""Digests, and the keys that occur more than once."""

from hypothesis import given
from hypothesis import strategies as st

from ctcdro.prepare.duplicates import DuplicateKeys, digest


def test_digests_are_the_same_in_every_process():
    assert digest("řeč").hex() == "5e3b4f95b94e3cb0d8ef26d1068c9ce1"


@given(st.lists(st.sampled_from("abcdef")))
def test_duplicates_are_the_keys_that_are_counted_twice(keys):
    duplicates = DuplicateKeys()
    for key in keys:
        duplicates.add(digest(key))
    assert [digest(key) in duplicates for key in keys] == [keys.count(key) > 1 for key in keys]
