"""The rank of this process in a distributed job."""

from __future__ import annotations

import atexit
import os
import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

Item = TypeVar("Item")

# Set by torchrun and accelerate; by MPICH; by Open MPI; by MVAPICH.
RANK_VARIABLES = ("RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK")


def is_distributed() -> bool:
    import torch.distributed

    return torch.distributed.is_available() and torch.distributed.is_initialized()


def rank_and_world_size(process_group: ProcessGroup | None = None) -> tuple[int, int]:
    """The rank of this process and the number of processes: 0 and 1 where `torch.distributed` is not initialized."""
    import torch.distributed

    if not is_distributed():
        return 0, 1
    return torch.distributed.get_rank(process_group), torch.distributed.get_world_size(process_group)


def gather(items: list[Item]) -> list[Item]:
    """The items of all ranks. Every rank must call it."""
    import torch.distributed

    _, world_size = rank_and_world_size()
    if world_size == 1:
        return items
    lists: list[list[Item]] = [[] for _ in range(world_size)]
    torch.distributed.all_gather_object(lists, items)
    return [item for gathered in lists for item in gathered]


def is_first_process() -> bool:
    """Whether this is the first process of a job, according to the environment that the launcher set."""
    return next((os.environ[name] for name in RANK_VARIABLES if os.environ.get(name)), "0") == "0"


# Process groups that must outlive the model that uses them; see `outlive_model`.
_groups_in_use: list[object] = []

# Seconds before the interpreter shuts down, in which gloo's threads release their last objects.
_GRACE = 0.5


def outlive_model() -> None:
    """Keeps the process group until the process exits, and lets its threads finish before the interpreter shuts down.

    Otherwise the model may hold the last reference to it. Its destructor then waits for gloo's thread while it holds
    Python's global lock, for which that thread may be waiting: the process never ends. A thread that asks for the lock
    while the interpreter shuts down aborts the process instead. Functions of atexit run just before that.
    """
    import torch.distributed

    if is_distributed():
        if not _groups_in_use:
            atexit.register(time.sleep, _GRACE)
        _groups_in_use.append(torch.distributed.group.WORLD)


def leave_group() -> None:
    """Leaves the process group after training, so that each process can continue alone. Every rank must call it."""
    import torch.distributed

    if is_distributed():
        torch.distributed.destroy_process_group()
