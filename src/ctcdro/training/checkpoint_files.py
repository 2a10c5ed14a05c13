"""Checkpoint folders: tensors and plain values, written atomically.

    000000480/tensors.safetensors      model, optimizer, objective, averaged weights
    000000480/values.json              counters, positions, settings of the optimizer
    000000480/sha256sums               digests of both, in the format of `sha256sum -c`

Sharded training has several files of tensors instead; see `checkpoint_shards`. No pickle is written or read. A folder
is renamed into place once all its files are on disk. The digests detect later damage; the run then resumes from the
previous checkpoint. Old checkpoints are removed, unless they contain other files.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from ..storage.atomic import flush_to_disk
from ..storage.json_files import read_json
from ..storage.paths import refuse_link
from ..storage.tensors import load_tensors, save_tensors

logger = logging.getLogger(__name__)

TENSORS, VALUES, DIGESTS = "tensors.safetensors", "values.json", "sha256sums"
SHARD = re.compile(r"shard-[0-9]{5,}-model-[0-9]{5,}-of-[0-9]{5,}\.safetensors")


class Checkpoint(NamedTuple):
    step: int
    tensors: dict[str, Tensor]
    values: dict[str, Any]


def save_checkpoint(folder: Path, checkpoint: Checkpoint, keep: int = 2) -> None:
    """Writes a checkpoint, then removes all but the newest `keep`. After an error, the existing ones stay."""
    with atomic_checkpoint(folder, checkpoint.step, keep) as unfinished:
        save_tensors(checkpoint.tensors, unfinished / TENSORS)
        (unfinished / VALUES).write_text(json.dumps(checkpoint.values), encoding="utf-8")
        (unfinished / DIGESTS).write_text(_digests(unfinished), encoding="utf-8")


@contextmanager
def atomic_checkpoint(folder: Path, step: int, keep: int) -> Iterator[Path]:
    """Creates a folder to write a checkpoint to, which gets its name when the block ends."""
    refuse_link(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for leftover in checkpoint_folders(folder, r"\.[0-9]{9,}"):  # from a run that was killed
        _remove(leftover)
    unfinished = unfinished_folder(folder, step)
    unfinished.mkdir()
    try:
        yield unfinished
        for path in (*unfinished.iterdir(), unfinished):
            flush_to_disk(path)
        final = folder / unfinished.name[1:]
        if final in checkpoint_folders(folder):  # it is damaged; otherwise it would not be written again
            _remove(final)
        os.replace(unfinished, final)
        flush_to_disk(folder)
    except BaseException:
        with suppress(OSError):
            _remove(unfinished)
        raise
    # Checkpoints of later steps are damaged; otherwise this one would not be written again.
    kept = [path for path in checkpoint_folders(folder) if int(path.name) <= step][:keep]
    for path in set(checkpoint_folders(folder)) - set(kept):
        _remove(path)


def unfinished_folder(folder: Path, step: int) -> Path:
    return folder / f".{step:09d}"


def has_checkpoints(folder: Path) -> bool:
    """Whether there is a checkpoint, valid or damaged."""
    return bool(checkpoint_folders(folder))


def load_checkpoint(folder: Path) -> Checkpoint | None:
    """The newest intact checkpoint, if there is one. Damaged ones are skipped with a warning."""
    for path in checkpoint_folders(folder):
        try:
            if (path / DIGESTS).read_text(encoding="utf-8") != _digests(path):
                raise ValueError("the checksums do not match")
            return Checkpoint(int(path.name), load_tensors(path / TENSORS), read_json(path / VALUES))
        except (FileNotFoundError, ValueError) as error:
            warn_of_damage(path, error)
    return None


def warn_of_damage(path: Path, error: Exception) -> None:
    logger.warning("Checkpoint %s is damaged (%s). Falling back to the previous one.", path, error)


def checkpoint_folders(folder: Path, names: str = "[0-9]{9,}") -> list[Path]:
    """Checkpoints, newest first."""
    refuse_link(folder)
    found = [path for path in folder.glob("*") if re.fullmatch(names, path.name) and _is_ours(path)]
    return sorted(found, key=lambda path: -int(path.name.lstrip(".")))


def _is_ours(path: Path) -> bool:
    """Whether a folder is a checkpoint: it contains only files of checkpoints, or all of them."""
    if path.is_symlink() or not path.is_dir():
        return False
    names = {TENSORS if is_shard(one.name) else one.name for one in path.iterdir() if not _is_partial(one)}
    return names <= {TENSORS, VALUES, DIGESTS} or names >= {TENSORS, VALUES, DIGESTS}


def is_shard(name: str) -> bool:
    """Whether a name is that of a file of `checkpoint_shards`."""
    return SHARD.fullmatch(name) is not None


def _remove(path: Path) -> None:
    """Removes the files of a checkpoint, and its folder if that is then empty."""
    for one in list(path.iterdir()):
        if one.name in (TENSORS, VALUES, DIGESTS) or is_shard(one.name) or _is_partial(one):
            one.unlink()
    with suppress(OSError):
        path.rmdir()


def _is_partial(path: Path) -> bool:
    """Whether safetensors left a file in an unfinished checkpoint when the process was killed."""
    return path.parent.name.startswith(".") and re.fullmatch(r"\.tmp\w{6}", path.name) is not None


def _digests(folder: Path) -> str:
    return "".join(digest_line(folder / name) for name in (TENSORS, VALUES))


def digest_line(path: Path) -> str:
    with open(path, "rb") as file:
        return f"{hashlib.file_digest(file, 'sha256').hexdigest()}  {path.name}\n"


def optimizer_tensors(state: Mapping[str, Any]) -> dict[str, Tensor]:
    """The tensors in the state of Adam by name, such as "0/exp_avg"; `param_groups` has none."""
    return {f"{number}/{name}": tensor for number, entry in state["state"].items() for name, tensor in entry.items()}


def optimizer_state(tensors: Mapping[str, Tensor], param_groups: list[dict[str, Any]]) -> dict[str, Any]:
    """The inverse of `optimizer_tensors`."""
    state: dict[int, dict[str, Tensor]] = {}
    for place, tensor in tensors.items():
        number, name = place.split("/")
        state.setdefault(int(number), {})[name] = tensor
    return {"state": state, "param_groups": param_groups}
