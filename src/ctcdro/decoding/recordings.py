"""The recordings that a user names: files, folders, manifests, and lists of paths."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from ..speech.audio import AudioError, Seconds, UnknownFormatError, header
from ..speech.manifest import read_utterances
from ..storage.paths import PathLike
from ..storage.remote import is_url

# Endings of files that a folder is searched for. Any file can be named directly.
AUDIO_ENDINGS = frozenset(
    {".aac", ".aif", ".aiff", ".amr", ".au", ".caf", ".flac", ".m4a", ".m4b", ".mp3", ".oga", ".ogg", ".opus", ".w64"}
    | {".wav", ".wma", ".wv", ".3gp", ".avi", ".flv", ".m4v", ".mkv", ".mov", ".mp4", ".mpeg", ".mpg", ".ts", ".webm"}
    | {".wmv"}
)
MANIFEST_ENDING = ".jsonl"


class AudioInput(NamedTuple):
    """A file, or a part of it."""

    path: str
    offset: Seconds = 0.0
    duration: Seconds | None = None
    id: str | None = None


def find_recordings(inputs: Iterable[PathLike]) -> Iterator[AudioInput | AudioError]:
    """The recordings that inputs name, in order; an error in place of an input that has none.

    Args:
        inputs: audio files; folders, which are searched recursively, in sorted order; and manifests (.jsonl), whose
            paths are relative to their folder.
    """
    for given in inputs:
        path = os.fspath(given)
        try:
            if os.path.isdir(path):
                yield from _in_folder(path)
            elif path.endswith(MANIFEST_ENDING):
                yield from _in_manifest(path)
            else:
                yield AudioInput(path)
        except (ValueError, OSError) as error:
            yield AudioError(str(error))


def total_seconds(recordings: Iterable[AudioInput | AudioError]) -> Seconds | None:
    """The duration of all recordings that can be read; None if a header does not have it, or is not on this machine."""
    total = 0.0
    for recording in recordings:
        if isinstance(recording, AudioError):
            continue
        if recording.duration is None and is_url(recording.path):
            return None
        try:
            total += header(recording.path).duration if recording.duration is None else recording.duration
        except UnknownFormatError:
            return None
        except AudioError:
            continue
    return total


def _in_folder(folder: str) -> Iterator[AudioInput]:
    found = sorted(
        os.path.join(parent, name)
        for parent, _, names in os.walk(folder)
        for name in names
        if Path(name).suffix.lower() in AUDIO_ENDINGS and not name.startswith(".")
    )
    if not found:
        raise AudioError(f"{folder}: no audio files in this folder or below. Name files with other endings directly.")
    yield from map(AudioInput, found)


def _in_manifest(path: str) -> Iterator[AudioInput]:
    for _, utterance in read_utterances(path):
        yield AudioInput(utterance.audio_filepath, utterance.offset, utterance.duration, utterance.id)
