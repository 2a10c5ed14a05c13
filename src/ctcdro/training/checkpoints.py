"""Checkpoints: tensors and plain values in a folder that appears whole or not at all.

    000000480/tensors.safetensors      model, optimizer, objective
    000000480/values.json              counters and the like
    000000480/sha256sums               digests of both, as the command `sha256sum -c` reads them

No pickle is written or read. A folder is renamed into place once all its files are on disk. The digests detect later
damage; the previous checkpoint is then used. Old checkpoints are removed; folders that hold any other file are not.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from ..storage.atomic import flush_to_disk
from ..storage.json_files import read_json
from ..storage.paths import refuse_link
from ..storage.tensors import load_tensors, save_tensors

logger = logging.getLogger(__name__)

TENSORS, VALUES, DIGESTS = "tensors.safetensors", "values.json", "sha256sums"


class Checkpoint(NamedTuple):
    """What a run needs to go on."""

    step: int
    tensors: dict[str, Tensor]
    values: dict[str, Any]


def save_checkpoint(folder: Path, checkpoint: Checkpoint, keep: int = 2) -> None:
    """Writes a checkpoint, then removes all but the newest `keep`.

    Raises:
        OSError: if it cannot be written; those that are there stay.
        ValueError: if `folder` is a symbolic link, which could lead to folders of other programs.
    """
    refuse_link(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for leftover in _folders(folder, r"\.[0-9]{9,}"):  # of a run that was killed
        _remove(leftover)
    unfinished = folder / f".{checkpoint.step:09d}"
    unfinished.mkdir()
    try:
        save_tensors(checkpoint.tensors, unfinished / TENSORS)
        values = {"step": checkpoint.step, "values": checkpoint.values}
        (unfinished / VALUES).write_text(json.dumps(values), encoding="utf-8")
        (unfinished / DIGESTS).write_text(_digests(unfinished), encoding="utf-8")
        for path in (unfinished / TENSORS, unfinished / VALUES, unfinished / DIGESTS, unfinished):
            flush_to_disk(path)
        final = folder / unfinished.name[1:]
        if final in _folders(folder):  # damaged, otherwise it would not be written again
            _remove(final)
            _move_into(unfinished, final)
        else:
            os.replace(unfinished, final)
        flush_to_disk(folder)
    except BaseException:
        with suppress(OSError):
            _remove(unfinished)
        raise
    sound = [path for path in _folders(folder) if int(path.name) <= checkpoint.step]
    for path in _folders(folder):  # those of later steps were damaged, or this one would not be made again
        if path not in sound[:keep]:
            _remove(path)


def has_checkpoints(folder: Path) -> bool:
    """Whether there is a checkpoint, valid or damaged."""
    return bool(_folders(folder))


def load_checkpoint(folder: Path) -> Checkpoint | None:
    """The newest checkpoint that is sound; None if there is none. Damaged ones are passed over, with a warning."""
    return next(_sound(folder), None)


def _sound(folder: Path) -> Iterator[Checkpoint]:
    for path in _folders(folder):
        try:
            if (path / DIGESTS).read_text(encoding="utf-8") != _digests(path):
                raise ValueError("it is not what was written")
            record = read_json(path / VALUES)
            if not isinstance(record, dict) or record.get("step") != int(path.name) or "values" not in record:
                raise ValueError(f"{path / VALUES}: no step {int(path.name)} and values in it")
            yield Checkpoint(record["step"], load_tensors(path / TENSORS), record["values"])
        except (FileNotFoundError, ValueError) as error:
            logger.warning("Checkpoint %s is damaged and passed over: %s", path, error)


def _folders(folder: Path, names: str = "[0-9]{9,}") -> list[Path]:
    """Checkpoints, the newest first.

    Raises:
        ValueError: if `folder` is a symbolic link.
    """
    refuse_link(folder)
    found = [path for path in folder.glob("*") if re.fullmatch(names, path.name) and _is_ours(path)]
    return sorted(found, key=lambda path: -int(path.name.lstrip(".")))


def _is_ours(path: Path) -> bool:
    """Whether this package wrote a folder: it holds only files of a checkpoint, or files that no other program
    writes."""
    if path.is_symlink() or not path.is_dir():
        return False
    names = {one.name for one in path.iterdir() if not _is_partial(one)}
    return names <= {TENSORS, VALUES, DIGESTS} or names >= {TENSORS, VALUES, DIGESTS}


def _remove(path: Path) -> None:
    """Removes the files of a checkpoint, and its folder if that is then empty."""
    for one in list(path.iterdir()):
        if one.name in (TENSORS, VALUES, DIGESTS) or _is_partial(one):
            one.unlink()
    with suppress(OSError):
        path.rmdir()


def _move_into(unfinished: Path, final: Path) -> None:
    """Moves a checkpoint to a folder that may still hold files of others."""
    final.mkdir(exist_ok=True)
    for name in (TENSORS, VALUES, DIGESTS):  # the digests last: without them it is no checkpoint
        os.replace(unfinished / name, final / name)
    unfinished.rmdir()


def _is_partial(path: Path) -> bool:
    """Whether a file is what safetensors leaves in an unfinished checkpoint when the process is killed."""
    return path.parent.name.startswith(".") and re.fullmatch(r"\.tmp\w{6}", path.name) is not None


def _digests(folder: Path) -> str:
    lines = []
    for name in (TENSORS, VALUES):
        with open(folder / name, "rb") as file:
            lines.append(f"{hashlib.file_digest(file, 'sha256').hexdigest()}  {name}\n")
    return "".join(lines)


def flattened(state: Mapping[str, Any], prefix: str) -> tuple[dict[str, Tensor], Any]:
    """Tensors by their place in a nested state, and the state with their places instead of them.

    Example:
        >>> import torch
        >>> tensors, values = flattened({"lr": 0.1, "momentum": [torch.ones(2)]}, "optimizer")
        >>> tensors, values
        ({'optimizer/momentum/0': tensor([1., 1.])}, {'lr': 0.1, 'momentum': [{'tensor': 'optimizer/momentum/0'}]})
        >>> restored(values, tensors)
        {'lr': 0.1, 'momentum': [tensor([1., 1.])]}
    """
    tensors: dict[str, Tensor] = {}

    def walk(value: Any, place: str) -> Any:
        if isinstance(value, Tensor):
            tensors[place] = value
            return {"tensor": place}
        if isinstance(value, Mapping):
            return {str(key): walk(one, f"{place}/{key}") for key, one in value.items()}
        if isinstance(value, list | tuple):
            return [walk(one, f"{place}/{number}") for number, one in enumerate(value)]
        return value

    values = walk(state, prefix)
    return tensors, values


def restored(values: Any, tensors: Mapping[str, Tensor]) -> Any:
    """The state that `flattened` took apart; keys are text, and tuples are lists."""
    if isinstance(values, dict):
        if set(values) == {"tensor"}:
            return tensors[values["tensor"]]
        return {key: restored(value, tensors) for key, value in values.items()}
    return [restored(value, tensors) for value in values] if isinstance(values, list) else values
