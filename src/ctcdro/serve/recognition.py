"""Recognizes one recording with several models."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..decoding.transcribe import Transcriber
from ..decoding.transcript import RecordingTranscript
from ..runs.folder import find_model
from ..runtime.progress import Track, untracked
from ..scoring.scores import count
from ..scoring.transcripts import Prediction
from ..speech.audio import SAMPLE_RATE, AudioError, Samples
from ..storage.paths import PathLike
from .posteriorgram import posteriorgram
from .uploads import UploadError

# Seconds that a posteriorgram shows: more would not be readable at the width of a page.
MAX_FIGURE_SECONDS = 12.0


@dataclass(frozen=True)
class ServedModel:
    name: str
    transcriber: Transcriber

    @property
    def languages(self) -> list[str]:
        return self.transcriber.vocabulary.languages


@dataclass(frozen=True)
class Recognition:
    """What one model recognized, or why it could not."""

    name: str
    transcript: RecordingTranscript | None = None
    cer: float | None = None
    """Compared with the reference, if there is one with characters."""
    figure: str = ""
    """An SVG element."""
    figure_note: str = ""
    problem: str = ""


def load_models(runs: Iterable[PathLike], device: str = "auto", track: Track = untracked) -> list[ServedModel]:
    """Loads the model of each run. Names are those of the folders, numbered if several are equal."""
    paths = [Path(run) for run in runs]
    loaded = track(paths, "loading models", len(paths))
    names = _unique([Path(os.path.abspath(path)).name for path in paths])
    return [
        ServedModel(name, Transcriber(find_model(path), device=device))
        for name, path in zip(names, loaded, strict=True)
    ]


def _unique(names: Sequence[str]) -> list[str]:
    seen: Counter[str] = Counter()
    unique = []
    for name in names:
        seen[name] += 1
        unique.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return unique


def recognize(
    models: Sequence[ServedModel], samples: Samples, language: str | None = None, reference: str = ""
) -> Iterator[Recognition]:
    """Yields the result of each model as soon as it has one.

    Args:
        samples: (n,) 16 kHz samples.
        language: the language of the recording; None identifies it.
        reference: what was said, if known.

    Raises:
        UploadError: if no model can transcribe the recording, such as one that is too short.
    """
    for number, model in enumerate(models):
        if language is not None and language not in model.languages:
            yield Recognition(model.name, problem="This model was not trained on the chosen language.")
            continue
        transcriber = model.transcriber.in_language(language)
        try:
            transcript = transcriber.samples(samples)
        except AudioError as error:
            raise UploadError.of(error, "samples") from error
        yield Recognition(
            model.name,
            transcript,
            character_error_rate(reference, transcript.text),
            *_figure(transcriber, samples, f"posteriorgram-{number}"),
        )


def character_error_rate(reference: str, text: str) -> float | None:
    """The CER of a text, under the scoring profile `plain`; None without a reference."""
    characters = count([Prediction("recording", "und", reference, None, text)]).characters
    return float(characters.total[0] / characters.reference[0]) if characters.reference[0] else None


def _figure(transcriber: Transcriber, samples: Samples, name: str) -> tuple[str, str]:
    """The posteriorgram of the start of a recording, and a note if that is not all of it."""
    seconds = min(MAX_FIGURE_SECONDS, transcriber.window)
    beginning = samples[: round(seconds * SAMPLE_RATE)]
    log_probs = transcriber.log_probs(beginning)
    model = transcriber.model
    figure = posteriorgram(
        log_probs, model.frame_times(len(log_probs)), model.frame_seconds, transcriber.vocabulary, name
    )
    note = f"The figure shows the first {seconds:g} seconds." if len(beginning) < len(samples) else ""
    return figure.to_svg(), note
