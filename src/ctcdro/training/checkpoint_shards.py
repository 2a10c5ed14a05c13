"""Checkpoints of sharded training, which `torch.distributed.checkpoint` writes: each process its own part.

    000000480/shard-00001-model-00001-of-00001.safetensors     tensors of the first process
    000000480/shard-00002-model-00001-of-00001.safetensors     tensors of the second
    000000480/values.json, 000000480/sha256sums                as in other checkpoints

All processes must call `save_shards` and `load_shards`, and must have access to the same folder. Another number of
processes can load the parts. As in other checkpoints, no pickle is written or read.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save

from ..runtime.ranks import gather, is_distributed, rank_and_world_size
from ..storage.json_files import read_json
from .checkpoint_files import (
    DIGESTS,
    VALUES,
    Checkpoint,
    atomic_checkpoint,
    checkpoint_folders,
    digest_line,
    is_shard,
    unfinished_folder,
    warn_of_damage,
)

try:
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader, HuggingFaceStorageWriter
except ImportError as error:
    raise ValueError(f"training.sharding: full needs PyTorch 2.8 or later; found {torch.__version__}.") from error


def save_shards(folder: Path, checkpoint: Checkpoint, keep: int = 2) -> None:
    """Writes a checkpoint, then removes all but the newest `keep`. After an error, the existing ones stay."""
    is_main = rank_and_world_size()[0] == 0
    unfinished = unfinished_folder(folder, checkpoint.step)
    with atomic_checkpoint(folder, checkpoint.step, keep) if is_main else nullcontext():
        gather([])  # until the first process has created the folder
        with _readable_errors(f"{unfinished}: cannot write the checkpoint"):
            writer = HuggingFaceStorageWriter(str(unfinished), save_distributed=True)
            save(dict(checkpoint.tensors), storage_writer=writer, no_dist=not is_distributed())
        if is_main:
            (unfinished / VALUES).write_text(json.dumps(checkpoint.values), encoding="utf-8")
        lines = _digest_lines(unfinished, sorted(path.name for path in unfinished.iterdir() if is_shard(path.name)))
        if is_main:
            (unfinished / DIGESTS).write_text("".join([*lines, digest_line(unfinished / VALUES)]), encoding="utf-8")
    gather([])  # until the folder has its name


def load_shards(folder: Path, templates: Mapping[str, Tensor]) -> Checkpoint | None:
    """The newest intact checkpoint, if there is one. Damaged ones are skipped with a warning.

    Args:
        templates: tensors that are sharded as those in the checkpoint will be, by name. Others are not sharded.
    """
    for path in checkpoint_folders(folder):
        try:
            _check_digests(path)
            return Checkpoint(int(path.name), _load(path, templates), read_json(path / VALUES))
        except (FileNotFoundError, ValueError) as error:
            warn_of_damage(path, error)
    return None


def _load(path: Path, templates: Mapping[str, Tensor]) -> dict[str, Tensor]:
    with _readable_errors(f"{path}: cannot read the checkpoint"):
        reader = HuggingFaceStorageReader(str(path))
        tensors = {
            name: _empty(entry, templates.get(name))
            for name, entry in sorted(reader.read_metadata().state_dict_metadata.items())
        }
        load(tensors, storage_reader=reader, no_dist=not is_distributed())
    return tensors


def _empty(entry: Any, template: Tensor | None) -> Tensor:
    """A tensor to load into."""
    if template is None or template.shape != entry.size:
        return torch.zeros(entry.size, dtype=entry.properties.dtype)
    return torch.zeros_like(template, dtype=entry.properties.dtype, requires_grad=False)


def _check_digests(path: Path) -> None:
    """Checks that all files are there with their digests. Processes share the work, and all come to the same result."""
    found = _digest_lines(path, sorted(one.name for one in path.iterdir() if is_shard(one.name)))
    found.append(digest_line(path / VALUES))
    expected = (path / DIGESTS).read_text(encoding="utf-8").splitlines(keepends=True)
    differing = sorted({_file_name(line) for line in set(found) ^ set(expected)})
    problems = gather([f"{', '.join(differing)}: the checksum does not match"] if differing else [])
    if problems:
        raise ValueError(problems[0])


def _file_name(line: str) -> str:
    """The name in a line such as "0f3c…  values.json"."""
    return line[66:].strip()


def _digest_lines(folder: Path, names: list[str]) -> list[str]:
    """The lines of all files, of which each process reads some."""
    rank, world_size = rank_and_world_size()
    return sorted(gather([digest_line(folder / name) for name in names[rank::world_size]]), key=_file_name)


@contextmanager
def _readable_errors(what: str) -> Iterator[None]:
    """Converts errors of one or more processes, which torch reports to all, into one."""
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "torch.distributed is disabled")  # so it is: there is one process
            yield
    except CheckpointException as failed:
        first = next(iter(failed.failures.values()))[0]
        raise (OSError if isinstance(first, OSError) else ValueError)(f"{what}: {first}") from failed
