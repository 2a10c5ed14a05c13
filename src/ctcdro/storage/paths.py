"""Paths of audio files in manifests, and checks of folders.

An untrusted manifest could name any file of yours, whose audio would then be trained on and shown in a report. A
relative path must therefore stay below the folder of its manifest. Absolute paths, which `ctcdro prepare` writes for
corpora that stay where they are, are allowed, unless the environment variable CTCDRO_AUDIO is set to `inside`: then all
files must be below the folder, with symbolic links followed.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TypeAlias

PathLike: TypeAlias = str | os.PathLike[str]

VARIABLE = "CTCDRO_AUDIO"


def resolve_audio_path(path: str, folder: PathLike) -> str:
    """The path of an audio file that a manifest in `folder` names.

    Example:
        >>> resolve_audio_path("clips/a.wav", "set1"), resolve_audio_path("/data/a.wav", "set1")
        ('set1/clips/a.wav', '/data/a.wav')
        >>> resolve_audio_path("../a.wav", "set1")
        Traceback (most recent call last):
        ValueError: '../a.wav' leads out of the folder of the manifest; write it as an absolute path

    Raises:
        ValueError: if the manifest may not name it.
    """
    allowed = os.environ.get(VARIABLE, "")
    if allowed not in ("", "inside"):
        raise ValueError(f"{VARIABLE} must be unset or `inside`; got {allowed!r}.")
    resolved = os.path.join(folder, path)
    if allowed:
        top = os.path.realpath(folder)
        if os.path.commonpath([top, os.path.realpath(resolved)]) != top:
            raise ValueError(f"{path!r:.60} is not below the folder of the manifest, which {VARIABLE}=inside requires")
    elif ".." in path and escapes_folder(path) and not os.path.isabs(path):
        raise ValueError(f"{path!r:.60} leads out of the folder of the manifest; write it as an absolute path")
    return resolved


def find_listed_audio(path: str, folder: PathLike) -> str:
    """The path of an audio file that a corpus list in `folder` names: relative to it, or to the working directory.

    Raises:
        ValueError: if the list may not name it.
    """
    resolved = resolve_audio_path(path, folder)
    if os.path.isabs(path) or os.path.exists(resolved) or not os.path.exists(path):
        return resolved
    resolve_audio_path(os.path.abspath(path), folder)  # may reject it
    return path


def escapes_folder(path: str) -> bool:
    """Whether a path, taken relative to a folder, leads out of it.

    Example:
        >>> escapes_folder("a/../b.wav"), escapes_folder("a/../../b.wav"), escapes_folder("/b.wav")
        (False, True, True)
    """
    return os.path.isabs(path) or os.path.normpath(path).split(os.sep)[0] == os.pardir


def refuse_link(path: Path) -> None:
    """Rejects a symbolic link in an untrusted folder: files elsewhere would be replaced or removed.

    Raises:
        ValueError: names the link and its target.
    """
    if path.is_symlink():
        raise ValueError(
            f"{path} is a symbolic link to {os.readlink(path)}, so nothing is read or written there. Remove the link, "
            "or choose another folder."
        )


def is_empty(folder: PathLike) -> bool:
    """Whether a folder is missing, or has nothing in it."""
    return not os.path.exists(folder) or not os.listdir(folder)
