"""Which files the lists that we are given may name.

A list from somebody else could name any file of yours: its audio would be trained on, and be in a report for all to
hear. What is allowed is told by the environment variable CTCDRO_AUDIO:

    absolute    the default: files below the folder of the list, and absolute paths, as `ctcdro prepare` writes them for
                corpora that stay where they are; no relative path leads out of the folder
    inside      only files below the folder of the list, symbolic links followed: for lists of people you do not know
    anywhere    everything

Only names are looked at, unless `inside` is asked for.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TypeAlias

PathLike: TypeAlias = str | os.PathLike[str]


VARIABLE = "CTCDRO_AUDIO"
ALLOWED = ("absolute", "inside", "anywhere")


def resolve_audio_path(path: str, folder: PathLike) -> str:
    """Where a list in a folder says that a file is.

    Example:
        >>> resolve_audio_path("clips/a.wav", "set1"), resolve_audio_path("/data/a.wav", "set1")
        ('set1/clips/a.wav', '/data/a.wav')
        >>> resolve_audio_path("../a.wav", "set1")
        Traceback (most recent call last):
        ValueError: '../a.wav' leads out of the folder of the list that names it; ...

    Raises:
        ValueError: if the list may not name it.
    """
    allowed = os.environ.get(VARIABLE, ALLOWED[0])
    if allowed not in ALLOWED:
        raise ValueError(f"{VARIABLE} must be one of {', '.join(ALLOWED)}; got {allowed!r}.")
    place = os.path.join(folder, path)
    if allowed == "inside":
        top = os.path.realpath(folder)
        if os.path.commonpath([top, os.path.realpath(place)]) != top:
            raise ValueError(
                f"{path!r:.60} is not below the folder of the list that names it, as {VARIABLE}=inside asks"
            )
    elif allowed == "absolute" and ".." in path and escapes_folder(path) and not os.path.isabs(path):
        raise ValueError(
            f"{path!r:.60} leads out of the folder of the list that names it; write it as an absolute path, or set "
            f"{VARIABLE}=anywhere if you trust the list"
        )
    return place


def escapes_folder(path: str) -> bool:
    """Whether a path leads out of the folder that it is taken to be in.

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
    """Whether there is no such folder, or nothing in it."""
    return not os.path.exists(folder) or not os.listdir(folder)
