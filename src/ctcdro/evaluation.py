"""A trained model and audio -> predictions -> scores.

evaluate("run", "test")                       writes predictions/test.jsonl and scores/test.json
transcribe("run/model", ["a.wav", "b.mp3"])   language and text of each file
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import torch

from .config import read_config
from .data.audio import read_audio
from .decoding import decode
from .files import PathLike
from .metrics import Scores, score
from .model import load
from .model import transcribe as transcribe_batch
from .progress import Track, untracked
from .runfolder import RunFolder, write_json
from .transcripts import write_predictions
from .utterance import Manifest


def evaluate(
    run: PathLike,
    split: str = "test",
    *,
    profile: str = "plain",
    dataset: PathLike | None = None,
    batch_duration: float = 50.0,
    num_workers: int = 0,
    skip_faults: bool = False,
    track: Track = untracked,
) -> Scores:
    """Decodes a split with the model of a run, scores it, and writes both to the run folder.

    Args:
        run: the folder of a finished run.
        split: the name of a manifest of the dataset.
        profile: of scoring.
        dataset: its folder; by default that of the run's configuration.
        skip_faults: leave out audio that cannot be read; it counts as nothing recognised.

    Raises:
        ValueError: if the run is not finished, or the dataset has no such split.
    """
    folder = RunFolder(run)
    if not folder.is_finished:
        raise ValueError(f"{folder.path}: no model in it; finish the run first, with the command that started it.")
    path = Path(dataset or read_config(folder.config).dataset) / f"{split}.jsonl"
    if not path.is_file():
        raise ValueError(f"{path} is not there; expected the manifest of split {split!r}.")
    model, vocabulary = load(folder.model)
    model.to(_device())
    decoded = decode(
        model,
        vocabulary,
        Manifest.read(path),
        batch_duration=batch_duration,
        num_workers=num_workers,
        skip_faults=skip_faults,
        track=track,
    )
    scores = score(decoded.predictions, profile)
    folder.predictions(split).parent.mkdir(parents=True, exist_ok=True)
    write_predictions(folder.predictions(split), decoded.predictions)
    write_json(folder.scores(split), scores.to_record())
    return scores


class Transcript(NamedTuple):
    """What is said in a file."""

    path: str
    language: str | None
    text: str


def transcribe(model_folder: PathLike, paths: Sequence[PathLike]) -> Iterator[Transcript]:
    """Language and text of each file, one at a time.

    Raises:
        AudioError: naming a file that cannot be read.
    """
    model, vocabulary = load(model_folder)
    device = _device()
    model.to(device)
    for path in paths:
        audio = torch.from_numpy(read_audio(path)).to(device)
        [said] = transcribe_batch(model, vocabulary, audio[None], torch.tensor([len(audio)], device=device))
        yield Transcript(str(path), *said)


def _device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")
