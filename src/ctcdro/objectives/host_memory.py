"""Detects tensors that the host can read without waiting for a device."""

from __future__ import annotations

import torch
from torch import Tensor


def is_readable(*tensors: Tensor) -> bool:
    """Whether all values are in the memory of the host, and neither fake nor traced."""
    for tensor in tensors:
        if not (tensor.is_cpu and type(tensor) is Tensor):
            return False
    return not torch.compiler.is_compiling()
