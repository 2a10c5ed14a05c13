"""Transcribes recordings of any length with a trained model.

transcriber = Transcriber("runs/first/model")
for transcript in transcriber.files(["a.wav", "interview.mp3"]):
    print(transcript.path, transcript.language, transcript.text)

A recording that fits the window is recognized as a whole, with the result of `evaluate`, up to rounding. A longer one
is split at its pauses. Each piece has its own language, and a long gap between two characters is a space. Pieces of all
recordings are recognized together, in batches of similar length; transcripts have the order of the recordings. Memory
does not grow with the length of a recording.
"""

from __future__ import annotations

import copy
import logging
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch

from ..runtime.convolution_cache import limit_convolution_cache
from ..runtime.devices import select_device
from ..runtime.extras import extra
from ..speech.vocabulary import Vocabulary
from ..storage.field_checks import MAX_SECONDS
from ..storage.paths import PathLike

with extra("train", "Transcribing"):
    import safetensors  # noqa: F401  # needed to load a model
    import soxr

    from ..models.encoders.base import PretrainedEncoder
    from ..models.recognizer import Recognizer, load
    from ..speech.audio import SAMPLE_RATE, SAMPLE_RATES, AudioError, Samples
    from ..speech.audio_blocks import read_blocks
    from ..speech.batch import LoadedUtterance, collate
    from .alignment import Path, align_words, language_probabilities, restrict
    from .beam_search import Search
    from .decode import group_by_length
    from .pauses import MIN_PIECE_SECONDS, Piece, split_at_pauses
    from .recordings import AudioInput
    from .transcript import RecordingTranscript, Segment

logger = logging.getLogger(__name__)

# Seconds of the default window: as long as the longest training utterance, within these limits.
SHORTEST_WINDOW, LONGEST_WINDOW = 5.0, 30.0

# Seconds without a character after which a new word begins, if a recording is split. Models learn spaces within
# utterances; between two utterances in one piece, they often emit none.
LONGEST_GAP = 0.4

# Seconds of audio from which batches are formed: enough for little padding, while transcripts appear early.
SECONDS_AHEAD = 300.0

# Of a piece, relative to the longest one in its batch.
MOST_PADDING_ON_CPU = 0.03


class Transcriber:
    """A model that is loaded once and transcribes any number of recordings.

    Args:
        model_folder: folder of a saved recognizer, such as `runs/first/model`.
        beam: beam search with the vocabulary of the model; by default greedy decoding.
        language: the language of all recordings. Tokens and characters of other languages are then impossible. By
            default the model identifies the language of each piece.
        window: seconds that are recognized at once. Longer recordings are split. By default as long as the longest
            training utterance, between 5 and 30 s. The limit of the encoder applies too, such as 30 s for Whisper.
        batch_duration: seconds of padded audio per batch; by default 50 on a GPU, and 10 on a CPU, where batches of 50
            took up to twice as long.
        device: "cpu", "cuda", "cuda:1", or "auto" for a GPU if there is one.

    Raises:
        ValueError: if the folder holds no valid model, or an argument does not fit it.
    """

    def __init__(
        self,
        model_folder: PathLike,
        *,
        beam: Search | None = None,
        language: str | None = None,
        window: float | None = None,
        batch_duration: float | None = None,
        device: str = "auto",
    ) -> None:
        limit_convolution_cache()
        self.model, self.vocabulary = load_for_decoding(model_folder, beam, device)
        if isinstance(self.model.encoder, PretrainedEncoder):
            self.model.encoder.speed_up_inference()
        if window is None:
            trained_on = self.model.settings.longest_seconds or LONGEST_WINDOW
            window = min(max(trained_on, SHORTEST_WINDOW), LONGEST_WINDOW)
        if not MIN_PIECE_SECONDS <= window < MAX_SECONDS:
            raise ValueError(
                f"`window` must be at least {MIN_PIECE_SECONDS} seconds, and below {MAX_SECONDS:g}; got {window!r}."
            )
        longest = self.model.encoder.max_samples
        self.window = window if longest is None else min(window, longest / SAMPLE_RATE)
        self.beam = beam
        is_cpu = next(self.model.parameters()).device.type == "cpu"
        self.batch_duration = batch_duration or (10.0 if is_cpu else 50.0)
        # A CPU gains little from large batches, and pads at its usual speed.
        self._most_padding = MOST_PADDING_ON_CPU if is_cpu else 1.0
        self._labels = None if language is None else self.vocabulary.labels_of(language)
        if language is not None and self.vocabulary.characters_by_language is None:
            logger.warning(
                "%s does not store the characters of each language, so the text may have characters of other languages "
                "than %s. Models trained with this version store them.",
                *(os.fspath(model_folder), language),
            )

    def files(
        self,
        recordings: Iterable[PathLike | AudioInput | AudioError],
        *,
        on_error: Callable[[AudioError], None] | None = None,
        on_progress: Callable[[float], None] | None = None,
    ) -> Iterator[RecordingTranscript]:
        """Transcribes files. `recordings.find_recordings` finds those of folders and manifests.

        Args:
            on_error: called with the error of a recording that cannot be transcribed, which is then skipped. By default
                the error is raised.
            on_progress: called with the seconds of audio of each batch that has been recognized.
        """
        for job in self._run(map(self._open, recordings), on_progress):
            if job.error is None:
                yield self._transcript(job)
            elif on_error is None:
                raise job.error
            else:
                on_error(job.error)

    def samples(self, samples: npt.ArrayLike, sample_rate: int = SAMPLE_RATE) -> RecordingTranscript:
        """Transcribes an array: (n,) samples of one channel, from -1 to 1, at any sample rate."""
        audio = np.asarray(samples, dtype=np.float32)
        if audio.ndim != 1 or not len(audio) or not np.isfinite(audio).all():
            raise ValueError(f"`samples` must be finite numbers of shape (n,), at least one; got {audio.shape}.")
        if sample_rate not in SAMPLE_RATES:
            raise ValueError(f"`sample_rate` must be from 1,000 to 1,000,000 Hz; got {sample_rate!r}.")
        if sample_rate != SAMPLE_RATE:
            audio = soxr.resample(audio, sample_rate, SAMPLE_RATE)
        [job] = self._run([_Job(AudioInput("samples"), iter([audio]))])
        if job.error is not None:
            raise job.error
        return self._transcript(job)

    def in_language(self, language: str | None) -> Transcriber:
        """The same model, not loaded again, for recordings in another language; None identifies the language."""
        other = copy.copy(self)
        other._labels = None if language is None else self.vocabulary.labels_of(language)
        return other

    def log_probs(self, samples: Samples) -> npt.NDArray[np.float32]:
        """(F, V) log probabilities of 16 kHz samples that fit the window; see `Recognizer.frame_times`."""
        [log_probs] = self._log_probs([Piece(0, samples, range(len(samples)), continues=False)])
        return log_probs

    def _open(self, given: PathLike | AudioInput | AudioError) -> _Job:
        if isinstance(given, AudioError):
            return _Job(AudioInput(""), iter([]), error=given)
        recording = given if isinstance(given, AudioInput) else AudioInput(os.fspath(given))
        return _Job(recording, read_blocks(recording.path, recording.offset, recording.duration))

    def _run(self, jobs: Iterable[_Job], on_progress: Callable[[float], None] | None = None) -> Iterator[_Job]:
        """Recognizes the pieces of all jobs, and yields finished jobs in order."""
        waiting: list[tuple[_Job, Piece]] = []
        unfinished: list[_Job] = []
        seconds = 0.0
        for job in jobs:
            unfinished.append(job)
            for piece in self._pieces(job):
                waiting.append((job, piece))
                seconds += len(piece.samples) / SAMPLE_RATE
                if seconds >= SECONDS_AHEAD:
                    self._recognize(waiting, on_progress)
                    waiting, seconds = [], 0.0
                    yield from unfinished[:-1]
                    unfinished = [job]
        self._recognize(waiting, on_progress)
        yield from unfinished

    def _pieces(self, job: _Job) -> Iterator[Piece]:
        """The pieces of a job that are long enough. An error ends the job."""
        least = self.model.encoder.min_samples
        try:
            for piece in split_at_pauses(job.counted_blocks(), self.window):
                if len(piece.samples) >= least:
                    yield piece
            if job.error is None and job.num_samples < least:
                duration = job.num_samples / SAMPLE_RATE
                raise AudioError(
                    f"{job.recording.path}: too short: {duration:.3f} s; the model needs {least / SAMPLE_RATE:.3f} s."
                )
        except AudioError as error:
            job.error = type(error)(str(error))  # a new one, because the raised one keeps its stack frames alive

    def _recognize(self, waiting: list[tuple[_Job, Piece]], on_progress: Callable[[float], None] | None) -> None:
        durations = np.array([len(piece.samples) / SAMPLE_RATE for _, piece in waiting])
        for indices in group_by_length(durations, self.batch_duration, self._most_padding):
            pieces = [waiting[index][1] for index in indices]
            for index, log_probs in zip(indices, self._log_probs(pieces), strict=True):
                job, piece = waiting[index]
                job.recognized[piece.start] = self._decode(log_probs, piece)
            if on_progress is not None:
                on_progress(sum(len(piece.kept) for piece in pieces) / SAMPLE_RATE)

    def _log_probs(self, pieces: list[Piece]) -> Iterator[npt.NDArray[np.float32]]:
        """(F, V) log probabilities of each piece."""
        batch = collate([LoadedUtterance(piece.samples, [], 0, 0) for piece in pieces])
        device = next(self.model.parameters()).device
        with torch.inference_mode():
            output = self.model(batch.inputs.to(device), batch.lengths)
            log_probs = output.logits.float().log_softmax(-1).cpu().numpy()
        for row, num_frames in zip(log_probs, output.num_frames.tolist(), strict=True):
            yield row[:num_frames] if self._labels is None else restrict(row[:num_frames], self._labels)

    def _decode(self, log_probs: npt.NDArray[np.float32], piece: Piece) -> _Recognized:
        labels = log_probs.argmax(-1) if self.beam is None else np.array(self.beam.best_path(log_probs))
        languages = language_probabilities(log_probs, self.vocabulary)
        confidences = np.exp(log_probs[np.arange(len(labels)), labels])
        times = piece.start / SAMPLE_RATE + self.model.frame_times(len(labels))
        path = Path(labels, confidences, times)
        recognized, _ = self.vocabulary.decode_frames(labels.tolist())
        kept = piece.kept.start / SAMPLE_RATE, piece.kept.stop / SAMPLE_RATE
        if piece.kept.stop == piece.start + len(piece.samples):  # the last frame may be centered after the last sample
            path = path.between(kept[0], np.inf)
        else:
            path = path.between(*kept)
        language = recognized or next(iter(languages), None)
        return _Recognized(*kept, path, language, languages, piece.continues)

    def _transcript(self, job: _Job) -> RecordingTranscript:
        runs: list[list[_Recognized]] = []
        for start in sorted(job.recognized):
            piece = job.recognized[start]
            if piece.continues and runs:
                runs[-1].append(piece)
            else:
                runs.append([piece])
        duration = job.num_samples / SAMPLE_RATE
        longest_gap = LONGEST_GAP if len(job.recognized) > 1 else np.inf
        segments = tuple(self._segment(run, longest_gap) for run in runs)
        return RecordingTranscript(job.recording.path, duration, segments, job.recording.id, job.recording.offset)

    def _segment(self, run: list[_Recognized], longest_gap: float) -> Segment:
        """Pieces without a pause between them are one segment, in the language of the first."""
        path = Path.join([piece.path for piece in run])
        words = align_words(path, self.vocabulary, self.model.frame_seconds, longest_gap)
        return Segment(run[0].start, run[-1].end, run[0].language, run[0].languages, words)


@dataclass(frozen=True)
class _Recognized:
    """A piece, after recognition."""

    start: float
    end: float
    path: Path
    language: str | None
    languages: dict[str, float]
    continues: bool


@dataclass
class _Job:
    """A recording, and what has been recognized of it so far."""

    recording: AudioInput
    blocks: Iterator[Samples]
    num_samples: int = 0
    recognized: dict[int, _Recognized] = field(default_factory=dict)
    """Pieces by their first sample."""
    error: AudioError | None = None

    def counted_blocks(self) -> Iterator[Samples]:
        for block in self.blocks:
            self.num_samples += len(block)
            yield block


def load_for_decoding(
    model_folder: PathLike, beam: Search | None, device: str = "auto"
) -> tuple[Recognizer, Vocabulary]:
    """Loads a model to a device, and checks that a beam search has its vocabulary."""
    chosen = select_device(device)
    model, vocabulary = load(model_folder)
    if beam is not None and beam.vocabulary != vocabulary:
        raise ValueError(
            f"`beam` has other labels ({beam.vocabulary!r}) than the model ({vocabulary!r}). Create it with "
            f"`Vocabulary.load` from {model_folder}/vocab.json."
        )
    return model.to(chosen), vocabulary
