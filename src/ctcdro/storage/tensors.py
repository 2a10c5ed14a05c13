"""Tensors in files of safetensors and torch, and digests of tensors."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from ..runtime.extras import extra
from .paths import PathLike


def save_tensors(tensors: Mapping[str, Tensor], path: PathLike) -> None:
    safetensors = _safetensors()
    try:
        content = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
        safetensors.torch.save_file(content, path)
    except safetensors.SafetensorError as error:  # raised even if the disk is full
        raise OSError(f"{path}: cannot write the file: {error}") from error


def load_tensors(path: PathLike) -> dict[str, Tensor]:
    safetensors = _safetensors()
    try:
        return safetensors.torch.load_file(path)
    except safetensors.SafetensorError as error:
        raise ValueError(f"{path}: not a safetensors file: {error}") from error


def load_torch_file(path: PathLike) -> Any:
    """Reads a file written by `torch.save`. Nothing is executed. Tensors stay in the file until they are used, unless
    the file has the format of torch before 1.6, which is read whole.
    """
    with open(path, "rb") as file:
        is_zip = file.read(4) == b"PK\3\4"
    try:
        return torch.load(path, map_location="cpu", weights_only=True, mmap=is_zip)
    except MemoryError:
        raise
    except Exception as error:  # of many types
        if isinstance(error, OSError) or "mmap" in str(error):  # such as too little memory; the file may be intact
            raise OSError(f"{path}: cannot be read ({error})") from error
        # The messages of torch recommend unsafe loading, or are the number that the pickle lacks.
        raise ValueError(
            f"{path}: not a file of tensors that torch can read safely, or damaged. Save or download it again; "
            "it must hold tensors only, as of `torch.save(model.state_dict(), …)`."
        ) from error


def tensors_digest(tensors: Mapping[str, Tensor]) -> str:
    """A digest of names, types, shapes and values; equal only for bitwise equal tensors."""
    digest = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _safetensors() -> Any:
    with extra("train", "Saving and loading tensors"):
        import safetensors.torch
    return safetensors
