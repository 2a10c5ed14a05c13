"""The folder of a saved recognizer. It contains no pickled data.

config.json          settings of the recognizer, and the characters of each language
model.safetensors    weights
vocab.json           labels
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from torch.nn.modules.module import register_module_parameter_registration_hook

from ..speech.vocabulary import Vocabulary
from ..storage.atomic import atomic_folder, atomic_write
from ..storage.json_files import read_json
from ..storage.paths import PathLike, is_empty
from ..storage.tensors import save_tensors

FORMAT = "ctcdro recognizer 1"
CONFIG, WEIGHTS, VOCABULARY = "config.json", "model.safetensors", "vocab.json"
CHARACTERS = "characters_by_language"  # an optional key of the configuration


def write_model_folder(
    folder: PathLike, config: Mapping[str, Any], tensors: Mapping[str, Tensor], vocabulary: Vocabulary
) -> None:
    """Writes a folder atomically. It may replace an earlier recognizer, but no other folder."""
    if not is_empty(folder):
        _check_replaceable(Path(folder))
    with atomic_folder(folder) as unfinished:
        save_tensors(tensors, unfinished / WEIGHTS)
        vocabulary.save(unfinished / VOCABULARY)
        with atomic_write(unfinished / CONFIG) as file:
            json.dump({"format": FORMAT, **config}, file, ensure_ascii=False, indent=2)


def _check_replaceable(folder: Path) -> None:
    if not (folder / CONFIG).exists():
        raise ValueError(f"{folder} exists and is neither a recognizer nor empty. Choose another folder.")
    read_model_config(folder)
    visible = {path.name for path in folder.iterdir() if not path.name.startswith(".")}
    if others := visible - {CONFIG, WEIGHTS, VOCABULARY}:
        raise ValueError(
            f"{folder} exists and contains other files: {', '.join(sorted(others)):.200}. Move them, or choose another "
            "folder."
        )


def is_model_folder(folder: Path) -> bool:
    """Whether a folder looks like a saved recognizer, of any version, rather than a model of another program."""
    try:
        config = read_json(folder / CONFIG)
    except (OSError, ValueError):
        return False
    return isinstance(config, dict) and str(config.get("format", "")).startswith(FORMAT.rstrip("0123456789"))


def read_model_config(folder: Path) -> dict[str, Any]:
    path = folder / CONFIG
    try:
        config = read_json(path)
    except ValueError as error:
        raise ValueError(f"{str(error).rstrip('.')}; expected the configuration of a recognizer.") from error
    found = config.get("format") if isinstance(config, dict) else None
    if isinstance(found, str) and found != FORMAT and re.fullmatch(r"ctcdro recognizer \d+", found):
        raise ValueError(
            f"{path}: written by another version of ctcdro (format {found!r}; this version reads {FORMAT!r}). Use the "
            "version that wrote it, or train again."
        )
    if found != FORMAT:
        raise ValueError(f"{path}: not the configuration of a recognizer (expected the format {FORMAT!r}).")
    return config


def load_vocabulary(folder: PathLike) -> Vocabulary:
    """The vocabulary of a saved recognizer, without its weights."""
    folder = Path(folder)
    vocabulary = Vocabulary.load(folder / VOCABULARY)
    characters = read_model_config(folder).get(CHARACTERS)
    if characters is None:  # saved by an earlier version, or with a vocabulary that was not made from texts
        return vocabulary
    try:
        return Vocabulary(vocabulary.languages, vocabulary.characters, characters)
    except ValueError as error:
        raise ValueError(f"{folder / CONFIG}: {error}") from error


@contextmanager
def limit_size(tensors: Mapping[str, Tensor]) -> Iterator[None]:
    """Stops the construction of a model that is far larger than its weights, before it exhausts memory.

    The limit is generous, because some parameters are created twice: those of LoRA, and those of replaced norms.
    """
    extra = 1_000  # per parameter, because even an empty one takes time
    remaining = 4 * sum(tensor.numel() + extra for tensor in tensors.values()) + 1_000_000

    def subtract(module: nn.Module, name: str, parameter: Tensor | None) -> None:
        nonlocal remaining
        remaining -= extra if parameter is None else parameter.numel() + extra
        if remaining < 0:
            raise ValueError(f"the model would be larger than {WEIGHTS}")

    handle = register_module_parameter_registration_hook(subtract)
    try:
        yield
    finally:
        handle.remove()
