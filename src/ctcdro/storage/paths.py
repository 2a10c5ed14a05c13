"""Paths of audio files in manifests, and checks of folders.

An untrusted manifest can point to any file on your disk, whose audio would then be used for training and appear in
reports. A relative path must therefore stay below the folder of its manifest. Absolute paths are allowed, because
`ctcdro prepare` writes them for corpora that it does not copy.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TypeAlias

from .remote import is_url

PathLike: TypeAlias = str | os.PathLike[str]


def resolve_audio_path(path: str, folder: PathLike) -> str:
    """The path of an audio file that a manifest in `folder` names; URLs stay as they are."""
    if is_url(path):
        return path
    if ".." in path and escapes_folder(path) and not os.path.isabs(path):
        raise ValueError(f"{path!r:.60} points outside the folder of the manifest; use an absolute path instead")
    return os.path.join(folder, path)


def find_listed_audio(path: str, folder: PathLike) -> str:
    """The path of an audio file that a corpus list in `folder` names: relative to it, or to the working directory."""
    resolved = resolve_audio_path(path, folder)
    return path if os.path.exists(path) and not os.path.exists(resolved) else resolved


def escapes_folder(path: str) -> bool:
    """Whether a path, taken relative to a folder, points outside it."""
    return os.path.isabs(path) or os.path.normpath(path).split(os.sep)[0] == os.pardir


def refuse_link(path: Path) -> None:
    """Rejects a symbolic link in an untrusted folder: files elsewhere would be replaced or removed."""
    if path.is_symlink():
        raise ValueError(
            f"{path} is a symbolic link to {os.readlink(path)}, which is not followed. Remove the link, or choose "
            "another folder."
        )


def is_empty(folder: PathLike) -> bool:
    """Whether a folder is missing or empty."""
    return not os.path.exists(folder) or not os.listdir(folder)
