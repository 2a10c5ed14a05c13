"""Members of tar files: the same as Python's tarfile finds, and every truncation is an error."""

import io
import tarfile
from contextlib import nullcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctcdro.storage.tar_members import tar_members

NAMES = ["a.flac", "a.json", "folder/b.wav", "long" * 40 + ".flac", "deep/" * 30 + "c.flac", "čeština.flac"]


def archive(names=NAMES, layout=tarfile.PAX_FORMAT, size=700):
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=layout) as tar:
        folder = tarfile.TarInfo("folder")
        folder.type = tarfile.DIRTYPE
        tar.addfile(folder)
        for number, name in enumerate(names):
            member = tarfile.TarInfo(name)
            member.size = size + number
            tar.addfile(member, io.BytesIO(bytes([number]) * member.size))
    return file.getvalue()


@pytest.mark.parametrize("layout", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
def test_members_are_those_of_the_standard_library(layout):
    content = archive(layout=layout)
    members = list(tar_members(io.BytesIO(content), "a.tar"))
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        assert members == [(one.name, one.offset_data, one.size) for one in tar if one.isfile()]
    for number, (_, start, size) in enumerate(members):
        assert content[start : start + size] == bytes([number]) * (700 + number)


@pytest.mark.parametrize("num_bytes", [0, 100, 512, 800, 1600, 5000])
def test_a_truncated_archive_is_rejected(num_bytes):
    with pytest.raises(ValueError, match=r"a\.tar: truncated tar file: .* Copy or write it again"):
        list(tar_members(io.BytesIO(archive()[:num_bytes]), "a.tar"))


def test_every_truncation_before_the_end_of_the_archive_is_rejected():
    content = archive(["a.flac"])
    last = next(reversed(list(tar_members(io.BytesIO(content), "a.tar"))))
    end = -(-(last.start + last.size) // 512) * 512
    for num_bytes in range(0, end + 512, 64):
        with pytest.raises(ValueError, match="truncated tar file"):
            list(tar_members(io.BytesIO(content[:num_bytes]), "a.tar"))


@pytest.mark.parametrize("size", ["²", "1" * 5000, "-1", "12 kB"])
def test_an_invalid_size_in_pax_attributes_is_rejected(size):
    value = f" size={size}\n".encode()
    length = next(length for length in range(len(value), len(value) + 9) if len(str(length)) + len(value) == length)
    record = str(length).encode() + value
    header = tarfile.TarInfo("attributes")
    header.type, header.size = tarfile.XHDTYPE, len(record)
    content = header.tobuf() + record + bytes(-len(record) % 512) + archive()
    with pytest.raises(ValueError, match=r"a\.tar: damaged tar file: invalid pax attributes\. Copy or write it again"):
        list(tar_members(io.BytesIO(content), "a.tar"))


def test_a_compressed_archive_and_another_file_are_rejected():
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as tar:
        tar.addfile(tarfile.TarInfo("a"), io.BytesIO())
    for content in (file.getvalue() + bytes(1000), b"RIFF" * 1000):
        with pytest.raises(ValueError, match=r"a\.tar: not an uncompressed tar file: no valid header at byte 0"):
            list(tar_members(io.BytesIO(content), "a.tar"))


def is_intact(content):
    try:
        list(tar_members(io.BytesIO(content), ""))
    except ValueError:
        return False
    return True


@given(st.data())
def test_damaged_archives_end_with_members_or_an_error_that_names_the_file(data):
    content = bytearray(archive())
    for place in data.draw(st.lists(st.integers(0, len(content) - 1), max_size=5)):
        content[place] = data.draw(st.integers(0, 255))
    members = tar_members(io.BytesIO(bytes(content)), "a.tar")
    with nullcontext() if is_intact(bytes(content)) else pytest.raises(ValueError, match=r"^a\.tar: "):
        for _, start, size in members:
            assert 0 <= start <= start + size <= len(content)
