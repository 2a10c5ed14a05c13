"""Reads the vocabulary of a SentencePiece model, without the package sentencepiece.

A `.model` file is one message of protocol buffers. Only its pieces are read: field 1, with text (1) and type (3).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

from ..storage.paths import PathLike

MAX_BYTES = 2**24

# The space between words, as SentencePiece writes it.
SPACE_PIECE = "\N{LOWER ONE EIGHTH BLOCK}"

# Types of pieces.
NORMAL, UNKNOWN_PIECE = 1, 2

# Types of fields: integers of variable size, and values of 8, any number, and 4 bytes.
_INTEGER, _EIGHT_BYTES, _SIZED, _FOUR_BYTES = 0, 1, 2, 5


class VocabularyPiece(NamedTuple):
    text: str
    type: int
    """1 for text, 2 for unknown text; others are control symbols and bytes."""


def read_pieces(path: PathLike) -> list[VocabularyPiece]:
    """The pieces of a SentencePiece model, in the order of their labels.

    Raises:
        ValueError: if the file is not such a model.
    """
    with open(path, "rb") as file:
        content = file.read(MAX_BYTES + 1)
    try:
        if len(content) > MAX_BYTES:
            raise ValueError(f"larger than {MAX_BYTES:,} bytes")
        pieces = [_piece(value) for number, value in _fields(content) if number == 1 and isinstance(value, bytes)]
        if not pieces:
            raise ValueError("no pieces")
    except ValueError as error:  # also of text that is not UTF-8
        raise ValueError(f"{os.fspath(path)}: not a SentencePiece model ({error}).") from error
    return pieces


def _piece(content: bytes) -> VocabularyPiece:
    fields = dict(_fields(content))
    text, type = fields.get(1, b""), fields.get(3, NORMAL)
    if not isinstance(text, bytes) or not isinstance(type, int):
        raise ValueError("a piece without a text and a type")
    return VocabularyPiece(text.decode(), type)


def _fields(content: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The number and the value of each field of a message."""
    at = 0
    while at < len(content):
        key, at = _integer(content, at)
        number, kind = key >> 3, key & 7
        if kind == _INTEGER:
            value, at = _integer(content, at)
            yield number, value
            continue
        if kind == _SIZED:
            size, at = _integer(content, at)
        elif kind in (_EIGHT_BYTES, _FOUR_BYTES):
            size = 8 if kind == _EIGHT_BYTES else 4
        else:
            raise ValueError(f"unknown type of field at byte {at}")
        if at + size > len(content):
            raise ValueError("truncated")
        yield number, content[at : at + size]
        at += size


def _integer(content: bytes, at: int) -> tuple[int, int]:
    """An integer in groups of 7 bits, lowest first, and the position after it."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(content):
            raise ValueError("truncated")
        byte = content[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
    raise ValueError(f"an integer of more than 10 bytes before byte {at}")
