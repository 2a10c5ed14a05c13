"""Keys that occur more than once, found by digests of 16 bytes instead of the keys."""

from __future__ import annotations

from hashlib import blake2b


def digest(key: str) -> bytes:
    """16 bytes of BLAKE2b, the same in every process; collisions can be ruled out.

    Example:
        >>> digest("ahoj") == digest("ahoj"), digest("ahoj") == digest("hej")
        (True, False)
    """
    return blake2b(key.encode(errors="surrogatepass"), digest_size=16).digest()


class DuplicateKeys:
    """Finds the keys that were added more than once.

    Example:
        >>> files = DuplicateKeys()
        >>> for file in ("a.wav", "b.wav", "a.wav"):
        ...     files.add(digest(file))
        >>> digest("a.wav") in files, digest("b.wav") in files
        (True, False)
    """

    def __init__(self) -> None:
        self._seen: set[bytes] = set()
        self._repeated: set[bytes] = set()

    def add(self, key: bytes) -> None:
        """Adds a key."""
        (self._repeated if key in self._seen else self._seen).add(key)

    def __contains__(self, key: object) -> bool:
        return key in self._repeated
