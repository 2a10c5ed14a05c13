"""GPUs of this process, and the device that it computes on."""

from __future__ import annotations

import os
import re


def visible_gpus() -> list[str]:
    """Numbers or names of the GPUs that this process can use."""
    import torch

    num_gpus = torch.cuda.device_count()
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return visible.split(",")[:num_gpus] if visible else [str(number) for number in range(num_gpus)]


def use_device(name: str) -> None:
    """Restricts this process to a device; call it before CUDA is first used.

    Args:
        name: `auto` for a GPU if there is one, `cpu`, `cuda`, or a number such as `cuda:1`.

    Raises:
        ValueError: if `name` is none of these, or torch cannot use that GPU.
    """
    parts = re.fullmatch(r"auto|cpu|cuda(?::(\d+))?", name)
    if parts is None:
        raise ValueError(f"--device must be auto, cpu, cuda or a GPU such as cuda:1; got {name!r}.")
    if name == "auto":
        return
    if parts[1] is not None and int(os.environ.get("WORLD_SIZE", 1)) > 1:
        raise ValueError(f"--device {name} is for a single process; each process of a launcher uses its own GPU.")
    if name == "cpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
        return
    if parts[1] is not None:
        _show_only(int(parts[1]))
    import torch

    if not torch.cuda.is_available():
        raise ValueError(f"--device {name}: PyTorch finds no such GPU. `ctcdro env` lists those that it finds.")


def _show_only(number: int) -> None:
    """Hides all GPUs but one, without starting CUDA, which would fix the list."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = [str(number)] if visible is None else visible.split(",")[number : number + 1]
    os.environ["CUDA_VISIBLE_DEVICES"] = "".join(names)
