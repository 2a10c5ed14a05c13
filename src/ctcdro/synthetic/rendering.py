"""Parallel rendering of speech: worker processes, each of which forks for every utterance.

    python -m ctcdro.synthetic.rendering    (a worker: jobs on standard input, answers on standard output)

Guarantees:

* the same job gives the same bytes, with any number of workers and in any order;
* audio files are written atomically;
* the calling process, which may have threads, is never forked; workers end when it ends or is killed;
* rendering an utterance has a time limit, and the death of a worker raises an error.

Workers do not import torch.
"""

from __future__ import annotations

import gc
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import wave
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import SimpleQueue
from types import TracebackType
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ..speech.audio import SAMPLE_RATE
from ..speech.noise import add_noise
from ..storage.atomic import atomic_write_bytes
from .acoustics import Samples, add_room, set_level
from .espeak import ESpeak
from .spec import SHORTEST

MARGIN = 0.05  # seconds of silence before and after
TIME_LIMIT = 60  # seconds per utterance, which usually takes ten milliseconds


@dataclass(frozen=True)
class ReadJob:
    """A job whose answer is the phonemes of words."""

    voice: str
    words: Sequence[str]


@dataclass(frozen=True)
class SpeakJob:
    """A job that renders a text. The answer is the number of samples."""

    voice: str
    text: str
    rate: int
    pitch: int
    snr: float | None = None
    reverberation: float = 0.0
    seed: int = 0
    """Seed for reverberation and noise."""
    path: str | None = None
    """Absolute path of the file to write, or None."""


@dataclass(frozen=True)
class JoinJob:
    """A job that renders texts one after another, in one room. The answer is the number of samples: the sum of those
    of the texts."""

    parts: Sequence[SpeakJob]
    """They are joined at the same level."""
    snr: float | None = None
    reverberation: float = 0.0
    seed: int = 0
    """Seed for reverberation and noise."""
    path: str | None = None
    """Absolute path of the file to write, or None."""


AudioJob: TypeAlias = SpeakJob | JoinJob
Job: TypeAlias = ReadJob | AudioJob


class Pool:
    """Worker processes, as a context manager."""

    def __init__(self, num_workers: int) -> None:
        self._workers = [_Worker() for _ in range(num_workers)]

    @property
    def pids(self) -> list[int]:
        return [worker.pid for worker in self._workers]

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        for worker in self._workers:
            worker.close(at_once=error is not None)

    def run(self, jobs: Sequence[Job]) -> Iterator[Any]:
        """Yields the answers, in the order of the jobs. Errors name voice and text."""
        idle: SimpleQueue[_Worker] = SimpleQueue()
        for worker in self._workers:
            idle.put(worker)

        def answer(job: Job) -> Any:
            worker = idle.get()
            try:
                return worker.answer(job)
            finally:
                idle.put(worker)

        with ThreadPoolExecutor(len(self._workers)) as threads:
            yield from threads.map(answer, jobs)


class _Worker:
    """The caller's side of a worker process."""

    def __init__(self) -> None:
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115, closed by `close`
        one_thread = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}  # because it forks
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", __spec__.name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            env={**os.environ, **one_thread, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._jobs, self._answers = self._process.stdin, self._process.stdout
        self.pid = self._process.pid

    def answer(self, job: Job) -> Any:
        try:
            self._jobs.write(json.dumps([type(job).__name__, asdict(job)]).encode() + b"\n")
            self._jobs.flush()
            line = self._answers.readline()
        except BrokenPipeError:
            line = b""
        if not line:
            raise self._death(job)
        answer = json.loads(line)
        if "error" in answer:
            raise RuntimeError(f"Cannot render {_describe(job)}: {answer['error']}.")
        return answer["result"]

    def _death(self, job: Job) -> RuntimeError:
        status = self._process.wait()
        ending = f"signal {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
        self._stderr.seek(0)
        messages = self._stderr.read().decode(errors="replace").strip().splitlines()
        return RuntimeError(
            f"A worker died while rendering {_describe(job)} ({': '.join([ending, *messages[-1:]])}). Run the same "
            "command again to resume."
        )

    def close(self, at_once: bool) -> None:
        with suppress(BrokenPipeError):
            self._jobs.close()  # the worker ends at the end of its input
        try:
            self._process.wait(timeout=0.5 if at_once else TIME_LIMIT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._answers.close()
        self._stderr.close()


def _describe(job: Job) -> str:
    if isinstance(job, JoinJob):
        return " and ".join(map(_describe, job.parts))
    return f"{job.text!r} by voice {job.voice}" if isinstance(job, SpeakJob) else f"words by voice {job.voice}"


def work() -> None:
    """Runs a worker process: answers jobs until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C reaches all processes in a terminal
    with os.fdopen(os.dup(1), "wb") as answers:
        os.dup2(2, 1)  # the library may print
        espeak = ESpeak()
        gc.freeze()  # prevents copies of memory in forks
        for line in sys.stdin.buffer:
            answers.write(json.dumps(_answer(espeak, _parse(*json.loads(line)))).encode() + b"\n")
            answers.flush()


def _parse(kind: str, fields: dict[str, Any]) -> Job:
    if kind == "JoinJob":
        return JoinJob(**fields | {"parts": [SpeakJob(**part) for part in fields["parts"]]})
    return ReadJob(**fields) if kind == "ReadJob" else SpeakJob(**fields)


def _answer(espeak: ESpeak, job: Job) -> dict[str, Any]:
    try:
        if isinstance(job, ReadJob):
            return {"result": json.loads(in_fork(lambda: _call(espeak, job)))}
        if isinstance(job, JoinJob):
            spoken = np.concatenate([set_level(_speak(espeak, part)) for part in job.parts])
        else:
            spoken = _speak(espeak, job)
        samples = _finish(spoken, job)
        if job.path is not None:
            _write(job.path, samples)
        return {"result": len(samples)}
    except Exception as error:
        return {"error": str(error)}


def in_fork(function: Callable[[], bytes]) -> bytes:
    """Calls a function in a forked process. Raises a RuntimeError with its error, or the signal that ended it."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            signal.alarm(TIME_LIMIT)  # ends the process
            with os.fdopen(writing, "wb") as file:
                try:
                    file.write(b"+" + function())
                except Exception as error:
                    file.write(f"-{type(error).__name__}: {error}".encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        received = file.read()  # until the process ends
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        raise RuntimeError(f"eSpeak NG was killed by signal {signal.Signals(os.WTERMSIG(status)).name}")
    if not received.startswith(b"+"):
        raise RuntimeError(received[1:].decode() or "no answer")
    return received[1:]


def _call(espeak: ESpeak, job: ReadJob | SpeakJob) -> bytes:
    espeak.set_voice(job.voice)
    if isinstance(job, ReadJob):
        return json.dumps([espeak.read(word) for word in job.words]).encode()
    return espeak.say(job.text, job.rate, job.pitch).tobytes()


def _speak(espeak: ESpeak, job: SpeakJob) -> Samples:
    """Speech between short pauses, without room and noise."""
    import soxr

    spoken = np.frombuffer(in_fork(lambda: _call(espeak, job)), dtype=np.int16)
    samples = soxr.resample(spoken / 32768.0, espeak.sample_rate, SAMPLE_RATE)
    # Short utterances are padded with silence.
    missing = round(SHORTEST * SAMPLE_RATE) - len(samples)
    return np.pad(samples, max(round(MARGIN * SAMPLE_RATE), (missing + 1) // 2))


def _finish(samples: Samples, job: AudioJob) -> npt.NDArray[np.int16]:
    rng = np.random.default_rng(job.seed)
    samples = add_room(samples, job.reverberation, SAMPLE_RATE, rng)
    if job.snr is not None:
        samples = add_noise(samples, job.snr, rng)
    return np.rint(set_level(samples) * 32767).astype("<i2")


WAV_HEADER = 44  # bytes of the header that `wave` writes


def _write(path: str, samples: npt.NDArray[np.int16]) -> None:
    # WAV: FLAC takes three times as long to write and six times as long to read, and saves only a quarter of the size.
    content = io.BytesIO()
    with wave.open(content, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(SAMPLE_RATE)
        file.writeframes(samples.tobytes())
    atomic_write_bytes(path, content.getvalue())


def num_samples(path: Path) -> int | None:
    """The number of samples of a rendered audio file; None if it is missing or truncated."""
    try:
        with wave.open(str(path), "rb") as file:
            number = file.getnframes()
        return number if path.stat().st_size == WAV_HEADER + 2 * number else None
    except (OSError, EOFError, wave.Error):
        return None


if __name__ == "__main__":
    work()
