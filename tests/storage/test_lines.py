"""Lines of text files with their numbers."""

import gzip

import pytest

from ctcdro.storage.lines import numbered_lines


def test_lines_keep_their_numbers_where_some_are_blank(tmp_path):
    (tmp_path / "a").write_bytes("\ufeffřeč\r\n\r\n  \n\u3000\n tab\there \n".encode())
    assert list(numbered_lines(tmp_path / "a")) == [(1, "řeč"), (5, " tab\there ")]


def test_gzipped_files_are_decompressed(tmp_path):
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"a\nb"))
    assert list(numbered_lines(tmp_path / "a.gz")) == [(1, "a"), (2, "b")]


def test_bytes_that_are_not_utf8_are_named_with_file_and_line(tmp_path):
    (tmp_path / "a").write_bytes(b"fine\n\xff\xfe\n")
    with pytest.raises(ValueError, match=r"a:2: not UTF-8"):
        list(numbered_lines(tmp_path / "a"))


@pytest.mark.parametrize("damage", [lambda packed: packed[:-9], lambda packed: b"not packed"])
def test_damaged_gzip_data_are_named_with_file_and_line(tmp_path, damage):
    (tmp_path / "a.gz").write_bytes(damage(gzip.compress(b"".join(b"%d\n" % n for n in range(1000)))))
    with pytest.raises(ValueError, match=r"a\.gz:\d+: damaged"):
        list(numbered_lines(tmp_path / "a.gz"))
