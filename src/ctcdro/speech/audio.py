"""One file of audio: what its header says, and its samples as 16 kHz mono.

Reads what libsndfile reads: WAV, FLAC, Ogg Vorbis, Opus in Ogg, MP3 and others. Whatever is wrong with a file comes as
an `AudioError` that names the file, what is wrong, and what to do.

What one can rely on: samples are float32 and finite, and there is at least one; what lies before a stretch is not
decoded, as far as the format allows. A stretch is the same slice of the whole file: to the bit for WAV, FLAC and
Vorbis, to rounding for MP3, nearly so for Opus, whose decoder needs a moment to settle. Where it has to be resampled,
its first and last few milliseconds differ, for want of neighbors.

What libsndfile does not notice is not noticed here: WAV and Ogg files that broke off are shorter files to it, and only
a `duration` shows that something is missing.
"""

from __future__ import annotations

import os
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ..runtime.extras import extra
from ..storage.paths import PathLike

with extra("data", "Reading audio"):
    import soundfile
    import soxr

Seconds: TypeAlias = float
Samples: TypeAlias = npt.NDArray[np.float32]

SAMPLE_RATE = 16_000

# The receptive field of wav2vec 2.0 and its kin: below it an encoder has no frame to give.
MIN_DURATION = 0.025

# Seconds by which a file may be shorter than its header or a manifest says. Durations are rounded, and the headers of
# some Opus files promise some milliseconds more than come; a file that broke off lacks more.
TOLERANCE = 0.05

# Beyond these a header is damaged, and resampling would take all the memory there is.
SAMPLE_RATES = range(1_000, 1_000_001)

# Headers can promise any number of frames and channels; no more samples than this are asked for at a time.
SAMPLES_AT_A_TIME = 2**22

# And no more than this are read at all, as they are or resampled: nine hours at 16 kHz, 2 GB. Silence is packed so well
# that a file of some kilobytes may hold days of it.
MOST_SAMPLES = 2**29

# What libsndfile says where a header does not tell the number of frames, as that of a FLAC file written to a pipe.
UNKNOWN = 2**63 - 1

# Relative to full scale. Floating-point samples may exceed it by a few decibels; larger ones are mis-scaled or garbage.
LOUDEST = 8.0

_REMEDY = "Replace the file, or take it out of the manifest."


class AudioError(ValueError):
    """What is wrong with a file of audio, and what to do, in one line.

    Example:
        >>> str(AudioError("a.wav: no such file."))
        'a.wav: no such file.'
    """

    def __init__(self, message: str) -> None:
        # A `DataLoader` raises the error of a worker process anew, with the worker's traceback for a message. What a
        # reader wants of it is the last line, which is ours.
        if message.startswith("Caught AudioError in "):
            message = message.rstrip().rpartition("AudioError: ")[2]
        super().__init__(message)


class AudioHeader(NamedTuple):
    """What the header of a file says of its audio."""

    duration: Seconds
    sample_rate: int
    num_channels: int


class _File(soundfile.SoundFile):  # type: ignore[misc]
    """A file to read once, from some place on.

    After each read, soundfile seeks to where reading has ended, unless a file cannot seek. That takes time, and fails
    at the end of some files, so that samples already read are lost.
    """

    def seekable(self) -> bool:
        return False


def header(path: PathLike) -> AudioHeader:
    """Reads the header of a file, and decodes nothing.

    The duration of an MP3 file of varying bit rate is an estimate if its first frame does not tell how many there are.

    Raises:
        AudioError: if there is no audio, or the header does not say how much.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     soundfile.write(f"{folder}/a.wav", np.zeros((8000, 2)), 16_000)
        ...     header(f"{folder}/a.wav")
        AudioHeader(duration=0.5, sample_rate=16000, num_channels=2)
    """
    path = os.fspath(path)
    with _open(path) as file:
        if file.frames == UNKNOWN:
            raise AudioError(f"{path}: its header does not say how long it is. Convert it anew, not through a pipe.")
        return AudioHeader(file.frames / file.samplerate, file.samplerate, file.channels)


def read_audio(
    path: PathLike, offset: Seconds = 0.0, duration: Seconds | None = None, sample_rate: int = SAMPLE_RATE
) -> Samples:
    """Reads a file, or a stretch of it, as the mean of its channels, at the given sample rate.

    Args:
        path: the file.
        offset: where the stretch begins, in seconds.
        duration: how long it is, in seconds; by default all that is left. A stretch may end up to `TOLERANCE` after
            the file does, and is that much shorter then.
        sample_rate: of the result.

    Returns:
        (n,) samples, from -1 to 1; those of floating-point files may be larger, up to `LOUDEST`.

    Raises:
        AudioError: if the stretch cannot be read whole, or has samples that are not finite or beyond `LOUDEST`.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     soundfile.write(f"{folder}/a.wav", np.zeros((44_100, 2)), 44_100)
        ...     read_audio(f"{folder}/a.wav", offset=0.25, duration=0.5).shape
        (8000,)
    """
    path = os.fspath(path)
    if not 0 <= offset < np.inf:
        raise ValueError(f"`offset` must be zero or more seconds; got {offset!r}.")
    if duration is not None and not 0 < duration < np.inf:
        raise ValueError(f"`duration` must be positive seconds, or None for all that is left; got {duration!r}.")
    with _open(path) as file:
        rate = file.samplerate
        most = int(MOST_SAMPLES / max(file.channels, sample_rate / rate))
        samples = _mean_of_channels(_read_stretch(path, file, offset, duration, most))
    if len(samples) and not max(samples.max(), -samples.min()) <= LOUDEST:  # nor is a sample that is not a number
        number = np.flatnonzero(~(np.abs(samples) <= LOUDEST))[0]
        place, value = offset + number / rate, samples[number]
        wrong = f"{value:.3g}, far beyond full scale (1.0)" if np.isfinite(value) else "not a finite number"
        raise AudioError(f"{path}: the sample at {place:.3f} s is {wrong}. {_REMEDY}")
    if rate != sample_rate:
        samples = soxr.resample(samples, rate, sample_rate)
    if len(samples) == 0:
        raise AudioError(f"{path}: no sample at {sample_rate} Hz, so short is what was to be read. {_REMEDY}")
    return samples


def _open(path: str) -> _File:
    if not os.path.isfile(path):  # a pipe would be waited for
        raise AudioError(f"{path}: {_why_not_opened(path)}")
    try:
        file = _File(os.path.join(".", path) if path == "-" else path)  # which means standard input to libsndfile
    except (soundfile.SoundFileError, OSError, TypeError, ValueError) as error:
        raise AudioError(f"{path}: {_why_not_opened(path, error)}") from error
    if file.samplerate not in SAMPLE_RATES:
        raise AudioError(f"{path}: its header is damaged, with a sample rate of {file.samplerate} Hz. {_REMEDY}")
    if file.frames <= 0:
        raise AudioError(f"{path}: a header without audio. {_REMEDY}")
    return file


def _why_not_opened(path: str, error: Exception | None = None) -> str:
    if os.path.isdir(path):
        return "a folder; expected a file of audio."
    if not os.path.exists(path):
        return "no such file. Has it, or the list that names it, been moved?"
    if not os.path.isfile(path):
        return "a pipe or device; expected a file of audio."
    if not os.access(path, os.R_OK):
        return "this user may not read it. Change its permissions."
    if os.path.getsize(path) == 0:
        return f"an empty file. {_REMEDY}"
    return f"not audio that libsndfile can read ({_reason(error)}). Convert it to WAV or FLAC, or replace it."


def _read_stretch(path: str, file: _File, offset: Seconds, duration: Seconds | None, most_frames: int) -> Samples:
    """(frames,) or (frames, channels), at the file's own sample rate."""
    rate, num_frames = file.samplerate, file.frames
    start = round(min(offset * rate, UNKNOWN))
    stop = num_frames if duration is None else round(min((offset + duration) * rate, 2 * UNKNOWN))
    if start >= num_frames:
        raise AudioError(
            f"{path}: `offset` {offset:g} s is not before the end, {num_frames / rate:.3f} s. Mend it in the manifest."
        )
    if stop - num_frames > TOLERANCE * rate:
        raise AudioError(
            f"{path}: ends at {num_frames / rate:.3f} s; the stretch to read, at {stop / rate:.3f} s. "
            "Mend `duration` and `offset` in the manifest, or replace the file."
        )
    stop = min(stop, num_frames)
    too_long = AudioError(
        f"{path}: more than {most_frames / rate:.0f} s to be read at once. Give stretches of it, by `offset` and "
        "`duration`, or cut the file."
    )
    if stop != UNKNOWN and stop - start > most_frames:
        raise too_long
    try:
        if start:
            file.seek(start)
        samples = _read_frames(file, min(stop - start, most_frames + 1))
    except soundfile.SoundFileError as error:
        raise AudioError(f"{path}: damaged, it cannot be decoded ({_reason(error)}). {_REMEDY}") from error
    if len(samples) > most_frames:
        raise too_long
    if stop != UNKNOWN and stop - start - len(samples) > TOLERANCE * rate:
        raise AudioError(
            f"{path}: damaged, it breaks off at {(start + len(samples)) / rate:.3f} s of {stop / rate:.3f} s. {_REMEDY}"
        )
    return samples


def _read_frames(file: _File, num_frames: int) -> Samples:
    """So many frames, or those that there are."""
    pieces: list[Samples] = []
    while num_frames > 0:
        asked = min(num_frames, max(1, SAMPLES_AT_A_TIME // file.channels))
        pieces.append(file.read(asked, dtype="float32"))
        num_frames -= asked
        if len(pieces[-1]) < asked:
            break
    if len(pieces) == 1:
        return pieces[0]
    return np.concatenate(pieces) if pieces else np.empty(0, np.float32)


def _mean_of_channels(samples: Samples) -> Samples:
    if samples.ndim == 1:
        return samples
    # Column by column: many times as fast as `mean(axis=1)` over so few columns.
    total = samples[:, 0].copy()
    with np.errstate(over="ignore", invalid="ignore"):  # the caller looks for what is not finite
        for channel in range(1, samples.shape[1]):
            total += samples[:, channel]
    total /= samples.shape[1]
    return total


def _reason(error: Any) -> str:
    return str(getattr(error, "error_string", error)).rstrip(".")
