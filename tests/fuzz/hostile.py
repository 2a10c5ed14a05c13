"""Malicious input, and the rule for every reader.

The rule, `is_reported`: a reader returns a result, or raises a `ValueError` or `OSError` with a message that names the
file. Users would see any other error as a traceback.
"""

import json
import os

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

# A few examples in `make test`, many in `make test-fuzz`. All examples of a test share one folder and overwrite its
# files.
FUZZ = settings(
    max_examples=int(os.environ.get("CTCDRO_FUZZ_EXAMPLES", "5")),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)

# Edge cases of readers: huge numbers, unpaired surrogates, deep nesting, all kinds of line ends.
TOKENS = [
    *(b"\0", b"\n", b"\r", b"\r\n", b"\x0b", b"\x1c", b"\x85", b"\xff\xfe", b"\xef\xbb\xbf", b"\xc3", b"\xed\xa0\x80"),
    *(b'"', b"'", b"\\", b"\\u0000", b"\\ud800", b"\\udc00", b"\\x", b"{", b"}", b"[", b"]", b"(", b")", b",", b":"),
    *(b"NaN", b"-Infinity", b"1e999", b"-1", b"0", b"1e308", b"9" * 400, b"9" * 5000, b"null", b"true", b"0.0"),
    *(b"[" * 3000, b'{"a":' * 3000, b"[" * 300 + b"]" * 300, b"a" * 5000, b"\t", b"\t" * 30, b" ", b"|", b"../", b"/"),
    *("\N{SUPERSCRIPT TWO}\N{ARABIC-INDIC DIGIT TWO}\u2028\u202e".encode(), b"<script>", b"${x}", b"{{7*7}}", b"%s%n"),
    *(
        b"!!python/object/apply:os.system [echo]",
        b"&a [*a]",
        b"*a",
        b"<<: *a",
        b"2001-99-99",
        b"1:1:1:1",
        b"0x",
        b"=",
        b"~",
    ),
]


@st.composite
def damaged(draw, valid: bytes):
    """Valid content with some bytes changed, dropped, repeated, truncated, or replaced by edge cases."""
    content = valid
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(content)))
        stop = min(len(content), start + draw(st.sampled_from([0, 0, 1, 1, 2, 8, 40])))
        kind = draw(st.sampled_from(["insert", "insert", "flip", "cut", "repeat", "bytes"]))
        if kind == "insert":
            content = content[:start] + draw(st.sampled_from(TOKENS)) + content[stop:]
        elif kind == "flip" and start < len(content):
            content = content[:start] + bytes([content[start] ^ (1 << draw(st.integers(0, 7)))]) + content[start + 1 :]
        elif kind == "cut":
            content = content[:start]
        elif kind == "repeat":
            content = content[:stop] + content[start:]
        else:
            content = content[:start] + draw(st.binary(max_size=8)) + content[stop:]
    return content


def nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


ODD = [
    *(None, True, False, 0, -1, 1, 0.0, -0.5, 1e308, 1e-320, 10**400, 2**63, float("inf"), float("-inf"), float("nan")),
    *(
        "",
        " ",
        "\0",
        "\ud800",
        "\u2028",
        "a" * 3000,
        "../../x",
        "/etc/passwd",
        "-",
        "|",
        "[ces]",
        "[",
        "<b>",
        "\x1b[2J",
    ),
    *([], {}, [[]], [None], [{}], {"": None}, {"a": {"b": []}}, nested(300)),
]
TEXTS = st.text(st.characters(codec=None), max_size=20)
VALUES = st.one_of(
    st.sampled_from(ODD),
    st.recursive(
        st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), TEXTS),
        lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
        max_leaves=6,
    ),
)


@st.composite
def altered(draw, valid):
    """A record with some values, at any depth, replaced, dropped or added."""
    record = json.loads(json.dumps(valid))
    places = list(_places(record))
    for _ in range(draw(st.integers(1, 3))):
        holder, key = draw(st.sampled_from(places))
        kind = draw(st.sampled_from(["replace", "replace", "replace", "remove", "add"]))
        if isinstance(holder, dict):
            if kind == "remove":
                holder.pop(key, None)
            else:
                holder[key if kind == "replace" else draw(TEXTS)] = draw(VALUES)
        else:
            holder[key : key + (kind != "add")] = [] if kind == "remove" else [draw(VALUES)]
    return record


def _places(value, depth=0):
    if depth < 6:
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            yield value, key
            if isinstance(value[key], dict | list):
                yield from _places(value[key], depth + 1)


def as_json(record) -> bytes:
    """JSON that another program might write, with NaN, unpaired surrogates, and numbers of any length."""
    return json.dumps(record).encode()


def is_reported(call, *names):
    """Checks that a call returns a result, or raises an error that names one of the files.

    Returns:
        The result of the call; None if it raised.
    """
    try:
        return call()
    except (ValueError, OSError) as error:
        told = error
    message = str(told)
    assert message.strip(), repr(told)
    assert any(str(name) in message for name in names), f"names none of {names}: {told!r:.300}"
    assert len(message) < 5_000, f"a message of {len(message)} characters"
    return None
