"""Recordings of visitors. Errors are one line and name no path of the server."""

from __future__ import annotations

import os

import numpy as np

from ..speech.audio import REMEDY, SAMPLE_RATE, AudioError, Samples
from ..speech.audio_blocks import read_blocks
from ..storage.paths import PathLike


class UploadError(ValueError):
    """What is wrong with a recording, for the visitor who sent it."""

    @classmethod
    def of(cls, error: AudioError, path: PathLike) -> UploadError:
        """The error without the path, and without the remedy, which is for owners of a dataset."""
        path = os.fspath(path)
        problem = str(error).removeprefix(f"{path}: ").replace(path, "the file").removesuffix(REMEDY).strip()
        return cls(f"The recording cannot be transcribed: {problem}")


def read_upload(path: PathLike, max_seconds: float) -> Samples:
    """Reads a file as 16 kHz mono. Decoding stops at the limit, whatever length the header claims.

    Raises:
        UploadError: if the file is not valid audio, or longer than `max_seconds`.
    """
    blocks: list[Samples] = []
    num_samples = 0
    try:
        for block in read_blocks(path):
            blocks.append(block)
            num_samples += len(block)
            if num_samples > max_seconds * SAMPLE_RATE:
                minutes = f"{max_seconds / 60:g} minute{'' if max_seconds == 60 else 's'}"
                raise UploadError(
                    f"The recording is longer than {minutes}, the limit of this page. Choose a shorter one."
                )
    except AudioError as error:
        raise UploadError.of(error, path) from error
    return np.concatenate(blocks)
