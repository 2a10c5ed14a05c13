"""The device that a command computes on."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def select_device(name: str = "auto") -> torch.device:
    """The device of a name: "cpu", "cuda", "cuda:1", or "auto" for a GPU if there is one.

    Raises:
        ValueError: if there is no such device.

    Example:
        >>> select_device("cpu")
        device(type='cpu')
    """
    import torch

    if not re.fullmatch(r"auto|cpu|cuda(:[0-9]{1,3})?", name):
        raise ValueError(f"--device (`device` in Python) must be auto, cpu, cuda or cuda:N; got {name!r:.60}.")
    num_gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if name == "cpu" or (name == "auto" and not num_gpus):
        return torch.device("cpu")
    if not num_gpus:
        raise ValueError(
            f"--device {name}: PyTorch finds no GPU. Use --device cpu, or install a CUDA build of PyTorch."
        )
    device = torch.device("cuda" if name == "auto" else name)
    if device.index is not None and device.index >= num_gpus:
        raise ValueError(f"--device {name}: there is no such GPU. The GPUs are cuda:0 to cuda:{num_gpus - 1}.")
    return device
