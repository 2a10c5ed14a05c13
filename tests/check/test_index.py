"""Keys that occur more than once."""

from hypothesis import given
from hypothesis import strategies as st

from ctcdro.check.index import DuplicateKeys


@given(st.lists(st.binary(max_size=1)))
def test_duplicates_are_the_keys_that_are_counted_twice(keys):
    duplicates = DuplicateKeys()
    for key in keys:
        duplicates.add(key)
    assert [key in duplicates for key in keys] == [keys.count(key) > 1 for key in keys]
