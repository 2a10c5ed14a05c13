"""Lines with their numbers; files that appear whole or not at all."""

import gzip
import os
import tracemalloc
from pathlib import Path

import pytest

from ctcdro.storage import atomic
from ctcdro.storage.atomic import atomic_write, atomic_write_bytes, atomic_write_many
from ctcdro.storage.json_files import read_json
from ctcdro.storage.lines import numbered_lines


def test_lines_keep_their_numbers_where_some_are_blank(tmp_path):
    (tmp_path / "a").write_bytes("\ufeffřeč\r\n\r\n  \n tab\there \n".encode())
    assert list(numbered_lines(tmp_path / "a")) == [(1, "řeč"), (4, " tab\there ")]


def test_packed_files_are_unpacked(tmp_path):
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"a\nb"))
    assert list(numbered_lines(tmp_path / "a.gz")) == [(1, "a"), (2, "b")]


def test_what_is_not_text_is_named_by_file_and_line(tmp_path):
    (tmp_path / "a").write_bytes(b"fine\n\xff\xfe\n")
    with pytest.raises(ValueError, match=r"a:2: not UTF-8"):
        list(numbered_lines(tmp_path / "a"))


@pytest.mark.parametrize(
    "damage", [lambda packed: packed[:-9], lambda packed: b"not packed", lambda packed: packed[:40]]
)
def test_damaged_packed_files_are_named(tmp_path, damage):
    (tmp_path / "a.gz").write_bytes(damage(gzip.compress(b"".join(b"%d\n" % n for n in range(1000)))))
    with pytest.raises(ValueError, match=r"a\.gz:\d+: damaged"):
        list(numbered_lines(tmp_path / "a.gz"))


def test_a_file_that_fails_halfway_leaves_the_old_one_and_nothing_else(tmp_path):
    path = tmp_path / "a"
    path.write_text("old")
    with pytest.raises(TypeError), atomic_write(path) as file:
        print("new", file=file, end=7)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
    atomic_write_bytes(path, b"new")
    assert path.read_bytes() == b"new"


def write_all(paths, *, fail):
    with atomic_write_many(paths) as several:
        for file in several:
            file.write("new")
        assert not any(path.exists() and path.read_text() == "new" for path in paths)
        if fail:
            raise KeyboardInterrupt
        several[1].close()


def test_files_take_their_names_together_or_none_does(tmp_path):
    paths = [tmp_path / name for name in "abc"]
    for path in paths:
        path.write_text("old")
    with pytest.raises(KeyboardInterrupt):
        write_all(paths, fail=True)
    assert [path.read_text() for path in paths] == ["old"] * 3
    assert sorted(tmp_path.iterdir()) == paths
    write_all(paths, fail=False)
    assert [path.read_text() for path in paths] == ["new", "old", "new"]  # one was closed before the end
    assert sorted(tmp_path.iterdir()) == paths


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
def test_a_disk_that_is_full_at_the_very_end_changes_nothing(tmp_path, monkeypatch):
    """What is written waits in memory; that there is no room shows when files are closed, before any takes its name."""
    opened = atomic._text_file
    monkeypatch.setattr(
        atomic, "_text_file", lambda path: opened(Path("/dev/full") if path.name.startswith(".c.") else path)
    )
    with pytest.raises(OSError, match="No space left"):
        write_all([tmp_path / name for name in "abc"], fail=False)
    assert list(tmp_path.iterdir()) == []


def test_more_blank_lines_than_any_list_has_are_refused_at_once(tmp_path):
    """Packed, two hundred million are two hundred kilobytes."""
    with gzip.open(tmp_path / "a.jsonl.gz", "wb", compresslevel=1) as file:
        for _ in range(20):
            file.write(b"\n" * 10_000_000)
    lines = numbered_lines(tmp_path / "a.jsonl.gz")
    with pytest.raises(ValueError, match=r"a\.jsonl\.gz:1000001: more than 1,000,000 blank lines"):
        next(lines)


def test_a_json_file_that_is_too_large_is_not_read(tmp_path):
    (tmp_path / "run.json").touch()
    os.truncate(tmp_path / "run.json", 10_000_000_000)
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=r"run\.json: larger than 16,777,216 bytes, so it is not read"):
            read_json(tmp_path / "run.json")
        assert tracemalloc.get_traced_memory()[1] < 3 * 2**24
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("text", ["[" + "{}," * 2_000_000 + "{}]", "[" * 2_000_000, "[" + "0," * 2_000_000 + "0]"])
def test_json_of_many_values_in_few_bytes_is_refused(text, tmp_path):
    (tmp_path / "a.json").write_text(text)
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=r"a\.json: not JSON \(more than 1,000,000 values\)"):
            read_json(tmp_path / "a.json")
        assert tracemalloc.get_traced_memory()[1] < 50_000_000
    finally:
        tracemalloc.stop()
