"""Tensors in files, and their digests."""

import resource
from pathlib import Path

import pytest
import torch

from ctcdro.storage.tensors import load_tensors, load_torch_file, save_tensors, tensors_digest

TENSORS = {"a": torch.ones(2), "b": torch.zeros(3, dtype=torch.long)}


def test_what_is_written_is_read(tmp_path):
    save_tensors(TENSORS, tmp_path / "a.safetensors")
    assert tensors_digest(load_tensors(tmp_path / "a.safetensors")) == tensors_digest(TENSORS)


@pytest.mark.parametrize("other", [{"b": torch.ones(2)}, {"a": torch.ones(2).half()}, {"a": torch.ones(2, 1)}])
def test_names_types_and_shapes_change_the_digest(other):
    assert tensors_digest({"a": torch.ones(2)}) != tensors_digest(other)


def test_a_file_that_is_no_safetensors_file_is_named(tmp_path):
    (tmp_path / "a.safetensors").write_bytes(b"pickle")
    with pytest.raises(ValueError, match=r"a\.safetensors: not a safetensors file"):
        load_tensors(tmp_path / "a.safetensors")


def test_a_file_that_cannot_be_mapped_is_not_called_damaged(tmp_path):
    """Some file systems, and limits of memory, do not allow it."""
    torch.save({"a": torch.zeros(2**22)}, tmp_path / "a.pt")
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + 2**22, limits[1]))
    try:
        with pytest.raises(OSError, match=r"a\.pt: cannot be read \(.*mmap"):
            load_torch_file(tmp_path / "a.pt")
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)
    assert load_torch_file(tmp_path / "a.pt")["a"].shape == (2**22,)
