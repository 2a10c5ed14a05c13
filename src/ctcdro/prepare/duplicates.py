"""Which of many texts, paths or ids come again, told in some bytes each.

Ten million texts take gigabytes, their digests some hundred megabytes. A digest is 16 bytes of BLAKE2b: that two of ten
million different texts have the same one is out of the question, also where somebody wishes for it. `Seen` and
`Repeated` keep them whole. `Repetitions` keeps half of each, and is shown everything twice: what is the same by half is
then compared by the whole.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from hashlib import blake2b
from itertools import combinations
from struct import Struct
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Digest: TypeAlias = tuple[int, int]
Column: TypeAlias = npt.NDArray[np.uint64]

_two_numbers = Struct("<QQ").unpack

# Of a column, looked for in another at a time, so that what is made on the way stays small.
KEYS_AT_A_TIME = 2**16


def digest(key: str) -> Digest:
    """The digest of a text, the same in every process.

    Example:
        >>> digest("ahoj") == digest("ahoj"), digest("ahoj") == digest("hej")
        (True, False)
    """
    first, second = _two_numbers(blake2b(key.encode(errors="surrogatepass"), digest_size=16).digest())
    return first, second


class Seen:
    """Digests that came before; 24 to 48 bytes each (72 while the table grows), where a `set` takes a hundred.

    Example:
        >>> seen = Seen()
        >>> seen.add(digest("a1"))
        >>> digest("a1") in seen, digest("a2") in seen
        (True, False)
    """

    def __init__(self) -> None:
        # A table with open addressing: two numbers a slot, zeros where it is free.
        self._slots = array("Q", [0]) * 2048
        self._num_digests = 0

    def __contains__(self, key: Digest) -> bool:
        place = self._place(key)
        return self._slots[place] != 0 or self._slots[place + 1] != 0

    def add(self, key: Digest) -> None:
        """Keeps a digest that has not been seen."""
        if 3 * self._num_digests > len(self._slots):  # two thirds are taken
            self._grow()
        self._put(key)
        self._num_digests += 1

    def _put(self, key: Digest) -> None:
        place = self._place(key)
        self._slots[place], self._slots[place + 1] = key

    def _place(self, key: Digest) -> int:
        """Where a digest is, or would be."""
        first, second = key
        slots, last = self._slots, len(self._slots) - 1  # a power of two less one, to take remainders by
        place = (2 * first) & last
        while (slots[place] or slots[place + 1]) and (slots[place] != first or slots[place + 1] != second):
            place = (place + 2) & last
        return place

    def _grow(self) -> None:
        before = self._slots
        self._slots = array("Q", [0]) * (2 * len(before))
        for place in range(0, len(before), 2):
            if before[place] or before[place + 1]:
                self._put((before[place], before[place + 1]))


class Repetitions:
    """Where keys came first that come again. All are noted; then, in the same order, asked for.

    Eight bytes a key until `settle`; from then on 24 for each key that seems to come again, and none for the others.

    Args:
        num_parts: as train, dev and test. If there are several, only keys that are in two of them count.

    Example:
        >>> ids = Repetitions()
        >>> lines = [digest("a1"), digest("a2"), digest("a1")]
        >>> for line in lines:
        ...     ids.note(line)
        >>> ids.settle()
        >>> [ids.first(line, place) for place, line in enumerate(lines)]
        [0, 1, 0]
    """

    def __init__(self, num_parts: int = 1) -> None:
        self._columns = [array("Q") for _ in range(num_parts)]
        self._candidates = array("Q")
        self._seconds = array("Q")
        self._places = array("q")
        # Keys of which the first half is that of another one.
        self._others: dict[Digest, int] = {}

    def note(self, key: Digest, part: int = 0) -> None:
        """Notes a key."""
        self._columns[part].append(key[0])

    def settle(self) -> None:
        """Ends the noting: keys that come once for sure are forgotten."""
        columns: list[Column] = [np.frombuffer(column, np.uint64) for column in self._columns]
        self._columns = []  # what looks at them keeps them
        for column in columns:
            column.sort()
        found = _come_twice(columns[0]) if len(columns) == 1 else _in_two(columns)
        self._candidates = array("Q", found.tobytes())
        self._seconds = array("Q", [0]) * len(found)
        self._places = array("q", [-1]) * len(found)

    def __bool__(self) -> bool:
        """Whether there are keys that seem to come again; if not, there is no need to ask."""
        return bool(self._candidates)

    def first(self, key: Digest, place: int) -> int:
        """The place, zero or more, that was given with the key when it was first asked for; `place`, if that is now."""
        index = bisect_left(self._candidates, key[0])
        if index == len(self._candidates) or self._candidates[index] != key[0]:
            return place
        if self._places[index] < 0:
            self._seconds[index], self._places[index] = key[1], place
        if self._seconds[index] == key[1]:
            return self._places[index]
        return self._others.setdefault(key, place)


class Repeated:
    """Keys that come again. All are noted; then one can ask. 16 bytes a key, and in the end for each that comes again.

    Example:
        >>> files = Repeated()
        >>> for file in ("a.wav", "b.wav", "a.wav"):
        ...     files.note(digest(file))
        >>> files.settle()
        >>> digest("a.wav") in files, digest("b.wav") in files
        (True, False)
    """

    def __init__(self) -> None:
        self._firsts = array("Q")
        self._seconds = array("Q")

    def note(self, key: Digest) -> None:
        """Notes a key."""
        self._firsts.append(key[0])
        self._seconds.append(key[1])

    def settle(self) -> None:
        """Ends the noting: keys that come once are forgotten."""
        firsts, seconds = np.frombuffer(self._firsts, np.uint64), np.frombuffer(self._seconds, np.uint64)
        order = np.lexsort((seconds, firsts))
        other = np.zeros(max(0, len(order) - 1), np.bool_)  # than the one before
        for start in range(0, len(other), KEYS_AT_A_TIME):
            some = order[start : start + KEYS_AT_A_TIME + 1]
            for half in (firsts[some], seconds[some]):
                other[start : start + KEYS_AT_A_TIME] |= half[1:] != half[:-1]
        again = order[:-1][_first_of_several(~other)]
        self._firsts, self._seconds = array("Q", firsts[again].tobytes()), array("Q", seconds[again].tobytes())

    def __contains__(self, key: Digest) -> bool:
        index = bisect_left(self._firsts, key[0])
        while index < len(self._firsts) and self._firsts[index] == key[0]:
            if self._seconds[index] == key[1]:
                return True
            index += 1
        return False


def _come_twice(column: Column) -> Column:
    """What is in a sorted column more than once."""
    return column[:-1][_first_of_several(column[1:] == column[:-1])]


def _first_of_several(same: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Which of sorted keys is followed by its like, and not preceded.

    Args:
        same: whether a key is the same as the next one.
    """
    first = same.copy()
    first[1:] &= ~same[:-1]
    return first


def _in_two(columns: list[Column]) -> Column:
    """What is in two of several sorted columns."""
    found = [np.empty(0, np.uint64)]
    for pair in combinations(columns, 2):
        short, long = sorted(pair, key=len)
        for start in range(0, len(short), KEYS_AT_A_TIME):
            keys = short[start : start + KEYS_AT_A_TIME]
            places = np.searchsorted(long, keys)
            found.append(keys[long[np.minimum(places, len(long) - 1)] == keys])
    return np.unique(np.concatenate(found))
