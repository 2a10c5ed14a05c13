"""Transcribes audio files with a trained model.

for transcript in transcribe("run/model", ["a.wav", "b.mp3"]):
    print(transcript.path, transcript.language, transcript.text)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import torch

from ..runtime.devices import select_device
from ..runtime.extras import extra
from ..speech.vocabulary import Vocabulary
from ..storage.paths import PathLike

with extra("train", "Transcribing"):
    import safetensors  # noqa: F401  # needed to load a model

    from ..models.recognizer import Recognizer, RecognizerOutput, load
    from ..speech.audio import AudioError, read_audio
    from .beam_search import BeamSearch
    from .decode import best_texts


class FileTranscript(NamedTuple):
    path: str
    language: str | None
    text: str


def transcribe(
    model_folder: PathLike,
    paths: Sequence[PathLike],
    beam: BeamSearch | None = None,
    *,
    device: str = "auto",
    on_error: Callable[[AudioError], None] | None = None,
) -> Iterator[FileTranscript]:
    """Transcribes files one at a time, with greedy decoding unless a beam search is given.

    Args:
        device: "cpu", "cuda", "cuda:1", or "auto" for a GPU if there is one.
        on_error: called with the error of a file that cannot be transcribed, which is then skipped. By default the
            error is raised.
    """
    model, vocabulary = load_for_decoding(model_folder, beam, device)
    for path in paths:
        try:
            output = _recognize(model, path)
        except AudioError as error:
            if on_error is None:
                raise
            on_error(error)
            continue
        [(language, text)] = best_texts(output, vocabulary, beam)
        yield FileTranscript(str(path), language, text)


def load_for_decoding(
    model_folder: PathLike, beam: BeamSearch | None, device: str = "auto"
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


def _recognize(model: Recognizer, path: PathLike) -> RecognizerOutput:
    audio = torch.from_numpy(read_audio(path)).to(next(model.parameters()).device)
    try:
        with torch.inference_mode():
            return model(audio[None], torch.tensor([len(audio)]))
    except ValueError as error:  # too short or too long
        raise AudioError(f"{path}: {error}") from error
