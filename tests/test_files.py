"""Lines with their numbers; files that appear whole or not at all."""

import gzip

import pytest

from ctcdro.files import numbered_lines, write_bytes_whole, written_whole


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
    with pytest.raises(TypeError), written_whole(path) as file:
        print("new", file=file, end=7)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
    write_bytes_whole(path, b"new")
    assert path.read_bytes() == b"new"
