"""Tensors in files, and their digests."""

import pytest
import torch

from ctcdro.storage.tensors import load_tensors, save_tensors, tensors_digest

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
