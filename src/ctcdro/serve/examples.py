"""The worst utterances of the development set, to listen to and to recognize again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ..report.read_runs import RunResult, read_runs
from ..report.study import make_study
from ..report.worst_utterances import rank_utterances
from ..runs.folder import RunFolder
from ..speech.audio import AudioError, Samples, read_audio
from ..speech.utterance import Utterance
from ..storage.paths import PathLike
from .uploads import UploadError

SPLIT = "dev"


@dataclass(frozen=True)
class Example:
    utterance: Utterance
    cer: float
    """Mean over the runs."""

    def read(self) -> Samples:
        """The audio of the utterance, 16 kHz mono."""
        try:
            return read_audio(self.utterance.audio_filepath, self.utterance.offset, self.utterance.duration)
        except AudioError as error:
            raise UploadError.of(error, self.utterance.audio_filepath) from error


def find_examples(runs: Iterable[PathLike], num_per_language: int) -> list[Example]:
    """The utterances of each language with the highest CER, highest first.

    Runs that were not evaluated on the development set have none, nor have runs whose dataset was moved.
    """
    folders = [RunFolder(run) for run in runs]
    scored = [
        folder.path
        for folder in folders
        if all(file.is_file() for file in (folder.config, folder.scores(SPLIT), folder.predictions(SPLIT)))
    ]
    if not scored or not num_per_language:
        return []
    examples: list[Example] = []
    for methods in make_study(read_runs(scored, SPLIT).runs).test_sets:
        examples += _worst_of_each_language([run for method in methods for run in method.runs], num_per_language)
    return sorted(examples, key=lambda example: -example.cer)


def _worst_of_each_language(runs: Sequence[RunResult], number: int) -> Iterator[Example]:
    order, rates = rank_utterances(runs)
    num_chosen: Counter[str] = Counter()
    for index in order:
        prediction = runs[0].predictions[index]
        utterance = runs[0].dataset.utterances.get(prediction.id)
        if utterance is not None and num_chosen[prediction.lang] < number:
            num_chosen[prediction.lang] += 1
            yield Example(utterance, float(rates[index]))
