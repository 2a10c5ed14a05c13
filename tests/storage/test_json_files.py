"""JSON files and JSON lines, valid and invalid."""

import json
import os
import tracemalloc

import pytest

from ctcdro.storage.json_files import append_line, read_json, read_json_lines, read_log, scan_json_lines, write_json

VALID = b'{"a": 1}'


def test_what_is_written_is_read(tmp_path):
    write_json(tmp_path / "new" / "a.json", {"text": "řeč"})
    assert read_json(tmp_path / "new" / "a.json") == {"text": "řeč"}
    for number in range(2):
        append_line(tmp_path / "log.jsonl", {"text": "řeč", "number": number})
    assert list(read_log(tmp_path / "log.jsonl")) == [{"text": "řeč", "number": number} for number in range(2)]
    assert list(read_log(tmp_path / "missing.jsonl")) == []


INVALID_LINES = {
    b"{": "not a JSON object on one line .*Expecting property name",
    b"[1, 2]": r"not a JSON object on one line \(got \[1, 2\]\)",
    b'{"text": "\xff"}': "not UTF-8 text",
    b"[" * 100_000: "nested too deeply",
    b'{"text": "\\ud83d"}': "unpaired UTF-16 surrogate",
}


@pytest.mark.parametrize(("line", "message"), INVALID_LINES.items(), ids=INVALID_LINES.values())
def test_an_invalid_line_is_named_and_does_not_hide_the_others(tmp_path, line, message):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"\n".join([VALID, b"", line, VALID]))
    with pytest.raises(ValueError, match=rf"a\.jsonl:3: .*{message}"):
        list(read_json_lines(path))
    (_, error), *valid = sorted(scan_json_lines(path), key=lambda item: isinstance(item[1], dict))
    assert isinstance(error, ValueError)
    assert valid == [(1, {"a": 1}), (4, {"a": 1})]
    assert list(read_log(path)) == [{"a": 1}]


def test_characters_written_as_surrogate_pairs_are_read(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps("😀"))
    assert read_json(tmp_path / "a.json") == "😀"


@pytest.mark.parametrize("content", [b"{", b"\xff", b"[" * 100_000])
def test_a_file_that_is_not_json_is_named(tmp_path, content):
    (tmp_path / "run.json").write_bytes(content)
    with pytest.raises(ValueError, match=r"run\.json: not JSON"):
        read_json(tmp_path / "run.json")


def test_a_json_file_that_is_too_large_is_not_read(tmp_path):
    (tmp_path / "run.json").touch()
    os.truncate(tmp_path / "run.json", 10_000_000_000)
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=r"run\.json: the file is larger than 16,777,216 bytes"):
            read_json(tmp_path / "run.json")
        assert tracemalloc.get_traced_memory()[1] < 3 * 2**24
    finally:
        tracemalloc.stop()
