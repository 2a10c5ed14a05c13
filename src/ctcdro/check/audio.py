"""Checks of audio files: readability, duration, silence."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import lru_cache

import numpy as np

from ..runtime.progress import Track
from ..runtime.threads import map_in_threads
from ..speech.audio import (
    MIN_DURATION,
    TOLERANCE,
    AudioError,
    AudioHeader,
    Samples,
    UnreachableError,
    header,
    read_audio,
    read_to_end,
)
from ..storage.remote import is_url
from .findings import Finding, Findings
from .index import DatasetIndex, LocatedUtterance, SplitManifest

# Relative to full scale; -80 dB.
SILENT = 1e-4

# Headers to keep in memory, for files with several utterances: a few megabytes.
MAX_HEADERS_KEPT = 2**14


def check_audio(
    manifests: Iterable[SplitManifest],
    index: DatasetIndex,
    decode: bool,
    num_threads: int,
    track: Track,
    findings: Findings,
) -> None:
    read_header = lru_cache(MAX_HEADERS_KEPT)(header)

    def check(located: LocatedUtterance) -> Finding | None:
        return _check_file(located, index.has_own_file(located.utterance), decode, read_header)

    utterances = (located for manifest in manifests for located in manifest.read())
    description = "reading audio" if decode else "reading audio headers"
    for finding in track(map_in_threads(check, utterances, num_threads), description, index.files.total()):
        if finding:
            findings.add(finding)


def _check_file(
    located: LocatedUtterance, has_own_file: bool, decode: bool, read_header: Callable[[str], AudioHeader]
) -> Finding | None:
    """Checks the audio of one utterance. A file with a single utterance should be as long as the utterance."""
    utterance, where = located.utterance, located.where
    path = utterance.audio_filepath
    try:
        samples: Samples | None = None
        if decode and has_own_file:  # opened once: to open it, an object of a store is downloaded
            samples, sample_rate = read_to_end(path)
            seconds = len(samples) / sample_rate
        else:
            file_duration, sample_rate, _ = read_header(path)
            seconds = file_duration - utterance.offset
            if decode:
                duration = min(utterance.duration, max(seconds, 1 / sample_rate))
                samples = read_audio(path, utterance.offset, duration, sample_rate)
        silent = samples is not None and float(np.abs(samples).max()) < SILENT
    except UnreachableError:
        raise
    except AudioError as error:
        kind = "unreadable audio" if is_url(path) or os.path.exists(path) else "missing audio"
        return Finding(kind, "error", where, str(error))
    missing = utterance.duration - seconds
    if missing > TOLERANCE or (has_own_file and missing < -TOLERANCE):
        detail = f"`duration` is {utterance.duration:g} s, but the audio is {seconds:.3f} s long: {path}"
        return Finding("duration disagrees with the audio", "error" if missing > 0 else "warning", where, detail)
    if min(seconds, utterance.duration) < MIN_DURATION:
        detail = f"{seconds:.3f} s; encoders need at least {MIN_DURATION:g} s: {path}"
        return Finding("audio too short", "error", where, detail)
    if silent:
        return Finding("silent audio", "warning", where, f"no sample exceeds {SILENT:g} of full scale: {path}")
    return None
