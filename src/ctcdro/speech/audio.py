"""Audio files: their headers, and their samples as 16 kHz mono.

Reads the formats of libsndfile, such as WAV, FLAC, Ogg Vorbis, Opus and MP3. An `AudioError` names the file, the
problem and the remedy.

Guarantees: samples are float32 and finite, and there is at least one. Audio before a segment is not decoded if the
format allows it. A segment equals the same slice of the whole file: bit for bit for WAV, FLAC and Vorbis, up to
rounding for MP3, and approximately for Opus, whose decoder needs a few frames to converge. Resampling changes the first
and last few milliseconds.

A truncated WAV, FLAC or Ogg file is an error, except for a segment with a `duration` that it contains.
"""

from __future__ import annotations

import io
import os
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ..runtime.extras import extra
from ..storage.paths import PathLike
from ..storage.remote import download, is_url
from .channels import mean_of_channels
from .truncation import is_truncated

with extra("data", "Reading audio"):
    import soundfile
    import soxr

Seconds: TypeAlias = float
Samples: TypeAlias = npt.NDArray[np.float32]

SAMPLE_RATE = 16_000

# The receptive field of wav2vec 2.0 and similar encoders: shorter audio yields no frame.
MIN_DURATION = 0.025

# Seconds by which a file may be shorter than its header or a manifest says: durations are rounded, and the headers of
# some Opus files are a few milliseconds too long.
TOLERANCE = 0.05

# Outside this range a header is damaged, and resampling could exhaust the memory.
SAMPLE_RATES = range(1_000, 1_000_001)

# Samples to request at a time, because a header can claim any number of frames and channels.
SAMPLES_PER_READ = 2**22

# Maximum number of samples, before or after resampling: nine hours at 16 kHz, 2 GB. Silence compresses so well that a
# file of a few kilobytes can hold days of it.
MAX_SAMPLES = 2**29

# The number of frames if the header does not have it, for example in a FLAC file that was written to a pipe.
UNKNOWN = 2**63 - 1

# Relative to full scale. Valid floating-point samples may exceed it by a few decibels; larger ones are scaled wrongly.
MAX_AMPLITUDE = 8.0

REMEDY = "Replace the file, or omit it."


class AudioError(ValueError):
    """An unusable audio file: the problem and the remedy, in one line."""

    def __init__(self, message: str) -> None:
        # A `DataLoader` raises the error of a worker process again, with a traceback that ends with the message.
        if message.startswith(f"Caught {type(self).__name__} in "):
            message = message.rstrip().rpartition(f"{type(self).__name__}: ")[2]
        super().__init__(message)


class UnknownFormatError(AudioError):
    """A file in a format that libsndfile cannot read."""


class UnreachableError(AudioError):
    """An object store that cannot be read now. Its audio may be intact, so it is not skipped."""


class AudioHeader(NamedTuple):
    duration: Seconds
    sample_rate: int
    num_channels: int


class AudioFile(soundfile.SoundFile):  # type: ignore[misc]
    """A file that is read sequentially.

    After each read, soundfile seeks to its current position if the file is seekable. That takes time, and fails at the
    end of some files, which would lose the samples just read.
    """

    def seekable(self) -> bool:
        return False


def header(path: PathLike) -> AudioHeader:
    """Reads the header of a file without decoding it.

    The duration of an MP3 file with variable bit rate is an estimate if its first frame lacks the number of frames.
    """
    path = os.fspath(path)
    with open_audio(path) as file:
        return _header(path, file)


def read_audio(
    path: PathLike, offset: Seconds = 0.0, duration: Seconds | None = None, sample_rate: int = SAMPLE_RATE
) -> Samples:
    """Reads a file, or a segment of it, as the mean of its channels.

    Args:
        offset: start of the segment, in seconds.
        duration: length of the segment, in seconds; by default the rest of the file. It may exceed the file by up to
            `TOLERANCE`.

    Returns:
        (n,) samples, from -1 to 1; those of floating-point files may be larger, up to `MAX_AMPLITUDE`.

    Raises:
        AudioError: if the segment cannot be read completely, or a sample is NaN, infinite or too large.
    """
    path = os.fspath(path)
    check_segment(offset, duration)
    with open_audio(path) as file:
        if duration is None:
            check_complete(path, file)
        return _read_mono(path, file, offset, duration, sample_rate)


def read_to_end(path: PathLike) -> tuple[Samples, int]:
    """All samples of a file whose header has its length, as the mean of its channels, and its own sample rate."""
    path = os.fspath(path)
    with open_audio(path) as file:
        rate = _header(path, file).sample_rate
        return _read_mono(path, file, 0.0, None, rate), rate


def decode_audio(content: bytes, name: str, duration: Seconds | None = None) -> Samples:
    """Like `read_audio`, of a file in memory; `name` is for messages."""
    with _open_in_memory(content, name) as file:
        return _read_mono(name, file, 0.0, duration, SAMPLE_RATE)


def audio_duration(content: bytes, name: str) -> Seconds:
    """The duration of a file in memory, from its header; `name` is for messages."""
    with _open_in_memory(content, name) as file:
        return _header(name, file).duration


def _header(name: str, file: AudioFile) -> AudioHeader:
    if file.frames == UNKNOWN:
        raise AudioError(f"{name}: the header has no length. Convert the file again, not through a pipe.")
    check_complete(name, file)
    return AudioHeader(file.frames / file.samplerate, file.samplerate, file.channels)


def _open_in_memory(content: bytes, name: str) -> AudioFile:
    try:
        file = AudioFile(io.BytesIO(content))
    except (soundfile.SoundFileError, OSError, TypeError, ValueError) as error:
        raise AudioError(f"{name}: not audio that libsndfile can read ({_reason(error)}). {REMEDY}") from error
    _check_header(name, file)
    return file


def _read_mono(path: str, file: AudioFile, offset: Seconds, duration: Seconds | None, sample_rate: int) -> Samples:
    rate = file.samplerate
    max_frames = int(MAX_SAMPLES / max(file.channels, sample_rate / rate))
    samples = mean_of_channels(_read_segment(path, file, offset, duration, max_frames))
    check_amplitude(path, samples, offset, rate)
    if rate != sample_rate:
        samples = soxr.resample(samples, rate, sample_rate)
    check_not_empty(path, len(samples), sample_rate)
    return samples


def check_not_empty(path: str, num_samples: int, sample_rate: int) -> None:
    """Rejects segments of which resampling leaves no sample."""
    if num_samples == 0:
        raise AudioError(f"{path}: segment too short: no samples left after resampling to {sample_rate} Hz. {REMEDY}")


def check_segment(offset: Seconds, duration: Seconds | None) -> None:
    """Rejects bounds of a segment that are not numbers of seconds."""
    if not 0 <= offset < np.inf:
        raise ValueError(f"`offset` must be a non-negative number of seconds; got {offset!r}.")
    if duration is not None and not 0 < duration < np.inf:
        raise ValueError(f"`duration` must be a positive number of seconds, or None for all; got {duration!r}.")


def check_amplitude(path: str, samples: Samples, offset: Seconds, rate: int) -> None:
    """Rejects samples, the first of them at `offset`, of which one is NaN, infinite or too large."""
    if len(samples) and not max(samples.max(), -samples.min()) <= MAX_AMPLITUDE:  # also if one is not a number
        index = np.flatnonzero(~(np.abs(samples) <= MAX_AMPLITUDE))[0]
        value = samples[index]
        problem = f"{value:.3g}, far beyond full scale (1.0)" if np.isfinite(value) else "NaN or infinite"
        raise AudioError(f"{path}: the sample at {offset + index / rate:.3f} s is {problem}. {REMEDY}")


def open_audio(path: str) -> AudioFile:
    """Opens a file and checks its header.

    Raises:
        UnknownFormatError: if libsndfile does not recognize the format.
        AudioError: if the file cannot be read for another reason.
    """
    if is_url(path):
        try:
            return _open_in_memory(download(path), path)
        except OSError as error:
            raise not_read(path, error) from error
    if not os.path.isfile(path):  # opening a pipe would wait for its writer
        raise AudioError(f"{path}: {_why_not_opened(path)}")
    try:
        file = AudioFile(os.path.join(".", path) if path == "-" else path)  # libsndfile reads standard input from "-"
    except (soundfile.SoundFileError, OSError, TypeError, ValueError) as error:
        kind = UnknownFormatError if os.access(path, os.R_OK) and os.path.getsize(path) else AudioError
        raise kind(f"{path}: {_why_not_opened(path, error)}") from error
    _check_header(path, file)
    return file


def not_read(location: str, error: OSError) -> AudioError:
    """The error for a file, or an object of a store, that cannot be read."""
    if is_url(location):
        return (AudioError if isinstance(error, FileNotFoundError) else UnreachableError)(str(error))
    return AudioError(f"{location}: cannot be read ({error}). Has it been moved?")


def _check_header(path: str, file: AudioFile) -> None:
    if file.samplerate not in SAMPLE_RATES:
        raise AudioError(f"{path}: damaged header: sample rate {file.samplerate} Hz. {REMEDY}")
    if file.frames <= 0:
        raise AudioError(f"{path}: no audio after the header. {REMEDY}")


def _why_not_opened(path: str, error: Exception | None = None) -> str:
    if os.path.isdir(path):
        return "is a folder; expected an audio file."
    if not os.path.exists(path):
        return "no such file. Has it been moved?"
    if not os.path.isfile(path):
        return "is a pipe or device; expected an audio file."
    if not os.access(path, os.R_OK):
        return "permission denied. Change its permissions."
    if os.path.getsize(path) == 0:
        return f"empty file. {REMEDY}"
    return f"not audio that libsndfile can read ({_reason(error)}). Convert it to WAV or FLAC, or replace it."


def segment_bounds(path: str, file: AudioFile, offset: Seconds, duration: Seconds | None) -> tuple[int, int]:
    """First frame of a segment and the frame after its last, which is `UNKNOWN` if the header has no length."""
    rate, num_frames = file.samplerate, file.frames
    start = round(min(offset * rate, UNKNOWN))
    stop = num_frames if duration is None else round(min((offset + duration) * rate, 2 * UNKNOWN))
    if start >= num_frames:
        raise AudioError(
            f"{path}: `offset` is {offset:g} s, but the file is {num_frames / rate:.3f} s long. Fix the manifest."
        )
    if stop - num_frames > TOLERANCE * rate:
        raise AudioError(
            f"{path}: the file is {num_frames / rate:.3f} s long, but the segment ends at {stop / rate:.3f} s. Fix "
            "`offset` and `duration` in the manifest, or replace the file."
        )
    return start, min(stop, num_frames)


def _read_segment(path: str, file: AudioFile, offset: Seconds, duration: Seconds | None, max_frames: int) -> Samples:
    """(frames,) or (frames, channels), at the sample rate of the file."""
    rate = file.samplerate
    start, stop = segment_bounds(path, file, offset, duration)
    too_long = AudioError(
        f"{path}: longer than the limit of {max_frames / rate:.0f} s. Use segments with `offset` and `duration`, or "
        "split the file."
    )
    if stop != UNKNOWN and stop - start > max_frames:
        raise too_long
    try:
        if start:
            file.seek(start)
        samples = _read_frames(file, min(stop - start, max_frames + 1))
    except soundfile.SoundFileError as error:
        raise not_decoded(path, error) from error
    if len(samples) > max_frames:
        raise too_long
    check_end(path, start + len(samples), stop, rate)
    return samples


def not_decoded(path: str, error: Exception) -> AudioError:
    return AudioError(f"{path}: damaged: cannot be decoded ({_reason(error)}). {REMEDY}")


def check_complete(path: str, file: AudioFile) -> None:
    """Rejects a file that is truncated, which libsndfile may read as a shorter one."""
    if is_truncated(file.name):
        raise AudioError(f"{path}: damaged: truncated after {file.frames / file.samplerate:.3f} s. {REMEDY}")


def check_end(path: str, end: int, stop: int, rate: int) -> None:
    """Rejects audio that ends at another frame than its header or the manifest says."""
    if stop != UNKNOWN and stop - end > TOLERANCE * rate:
        raise AudioError(f"{path}: damaged: audio ends at {end / rate:.3f} s of {stop / rate:.3f} s. {REMEDY}")


def _read_frames(file: AudioFile, num_frames: int) -> Samples:
    pieces: list[Samples] = []
    while True:
        requested = min(num_frames, max(1, SAMPLES_PER_READ // file.channels))
        pieces.append(file.read(requested, dtype="float32"))
        num_frames -= requested
        if num_frames == 0 or len(pieces[-1]) < requested:
            return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)


def _reason(error: Any) -> str:
    return str(getattr(error, "error_string", error)).rstrip(".")
