"""Recordings of any length and format, as blocks of 16 kHz mono, so that memory does not grow with the length.

    for samples in read_blocks("interview.m4a"):
        ...     # (n,) float32

Guarantees: blocks have at least one sample, and joined they equal `read_audio`, bit for bit. Formats that libsndfile
cannot read, such as M4A, WebM and video, are decoded by FFmpeg through PyAV, which is the extra `media`. Its playlist
formats and network protocols are disabled: a file cannot make it read other files.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..runtime.extras import MissingExtraError, extra
from ..storage.paths import PathLike
from .audio import (
    REMEDY,
    SAMPLE_RATE,
    AudioError,
    AudioFile,
    Samples,
    Seconds,
    UnknownFormatError,
    check_amplitude,
    check_complete,
    check_end,
    check_not_empty,
    check_segment,
    not_decoded,
    open_audio,
    segment_bounds,
)
from .channels import mean_of_channels

with extra("data", "Reading audio"):
    import soundfile
    import soxr

# Frames to decode at a time, times channels: 4 MB.
SAMPLES_PER_BLOCK = 2**20

# FFmpeg's demuxers of containers with sound. Others read files that their input names.
CONTAINERS = (
    "aac,ac3,aiff,amr,asf,au,avi,caf,eac3,flac,flv,matroska,mov,mp3,mpeg,mpegts,mpegvideo,ogg,rm,w64,wav,webm,wv"
)


def read_blocks(path: PathLike, offset: Seconds = 0.0, duration: Seconds | None = None) -> Iterator[Samples]:
    """Reads a recording, or a segment of it, block by block: 16 kHz, the mean of its channels.

    Args:
        offset: start of the segment, in seconds.
        duration: length of the segment, in seconds; by default the rest of the recording.

    Raises:
        AudioError: if the segment cannot be read completely, possibly after some blocks.
    """
    path = os.fspath(path)
    check_segment(offset, duration)
    try:
        file = open_audio(path)
    except UnknownFormatError as error:
        yield from _read_media(path, offset, duration, error)
        return
    with file:
        yield from _read_audio_file(path, file, offset, duration)


def _read_audio_file(path: str, file: AudioFile, offset: Seconds, duration: Seconds | None) -> Iterator[Samples]:
    rate = file.samplerate
    if duration is None:
        check_complete(path, file)
    start, stop = segment_bounds(path, file, offset, duration)
    resampler = None if rate == SAMPLE_RATE else soxr.ResampleStream(rate, SAMPLE_RATE, 1, dtype="float32")
    size = max(1, SAMPLES_PER_BLOCK // file.channels)
    position = start
    num_samples = 0
    is_last = False
    try:
        if start:
            file.seek(start)
        while not is_last:
            requested = min(size, stop - position)
            samples = mean_of_channels(file.read(requested, dtype="float32"))
            check_amplitude(path, samples, position / rate, rate)
            position += len(samples)
            is_last = len(samples) < requested or position == stop
            if resampler is not None:
                samples = resampler.resample_chunk(samples, last=is_last)
            num_samples += len(samples)
            if len(samples):
                yield samples
    except soundfile.SoundFileError as error:
        raise not_decoded(path, error) from error
    check_end(path, position, stop, rate)
    check_not_empty(path, num_samples, SAMPLE_RATE)


def _read_media(path: str, offset: Seconds, duration: Seconds | None, unknown: UnknownFormatError) -> Iterator[Samples]:
    """Blocks of a file that libsndfile cannot read, by FFmpeg."""
    try:
        with extra("media", "This format"):
            import av
    except MissingExtraError as error:
        raise AudioError(
            f"{unknown} M4A, WebM and video need the extra `media`: pip install 'ctcdro[media]'"
        ) from error
    start = round(offset * SAMPLE_RATE)
    stop = np.inf if duration is None else round((offset + duration) * SAMPLE_RATE)
    position = 0
    try:
        with av.open(path, options={"format_whitelist": CONTAINERS, "protocol_whitelist": "file"}) as container:
            if not container.streams.audio:
                raise AudioError(f"{path}: no audio track. {REMEDY}")
            for block in _decode_frames(container, av.AudioResampler("fltp", rate=SAMPLE_RATE)):
                check_amplitude(path, block, position / SAMPLE_RATE, SAMPLE_RATE)
                kept = block[max(0, start - position) : max(0, min(len(block), stop - position))]
                position += len(block)
                if len(kept):
                    yield kept
                if position >= stop:
                    break
    except av.FFmpegError as error:
        reason = f"{unknown} FFmpeg cannot read it either" if position == 0 else f"{path}: damaged"
        raise AudioError(f"{reason} ({error.strerror}).") from error
    if position <= start:
        raise AudioError(f"{path}: audio ends at {position / SAMPLE_RATE:.3f} s. {REMEDY}")
    if stop != np.inf:
        check_end(path, position, int(stop), SAMPLE_RATE)


def _decode_frames(container: Any, resampler: Any) -> Iterator[Samples]:
    """Joins the short frames of FFmpeg into blocks."""
    parts: list[Samples] = []
    for frame in _with_end(container.decode(audio=0)):
        # FFmpeg's own mono is louder than the mean of the channels, and clips.
        parts += [mean_of_channels(resampled.to_ndarray().T) for resampled in resampler.resample(frame)]
        if frame is None or sum(map(len, parts)) >= SAMPLES_PER_BLOCK // 8:
            if parts:
                yield np.concatenate(parts)
            parts = []


def _with_end(frames: Iterator[Any]) -> Iterator[Any]:
    """The frames, then None, which flushes the resampler."""
    yield from frames
    yield None
