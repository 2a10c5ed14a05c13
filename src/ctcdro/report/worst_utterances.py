"""The utterances that are recognized worst: what was said and what was recognized, one above the other, and the audio.

Alignments are of the texts that were scored, letter by letter, with marks joined to the letters they stand on. Clips
are small MP3 files, which all browsers play, written into the page.
"""

from __future__ import annotations

import base64
import io
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

import numpy as np
import numpy.typing as npt

from ..scoring.edits import Integers
from ..scoring.profiles import PROFILES
from ..speech.utterance import Utterance
from .read_runs import RunResult
from .study import Study

MOST_SECONDS = 20.0
"""Of a clip; longer ones are cut off."""


@dataclass(frozen=True, slots=True)
class Aligned:
    """A stretch of the reference, and what was recognized in its place."""

    kind: str
    """equal, replace, delete or insert."""
    reference: str
    hypothesis: str


@dataclass(frozen=True)
class Clip:
    """Audio as an address that holds it."""

    address: str
    seconds: float
    is_cut: bool


@dataclass(frozen=True)
class Recognized:
    """What a run made of an utterance."""

    label: str
    language: str | None
    text: str
    cer: float
    alignment: list[Aligned]


@dataclass(frozen=True)
class WorstUtterance:
    """An utterance that is recognized badly."""

    id: str
    language: str
    text: str
    cer: float
    """The mean over all runs."""
    recognized: list[Recognized]
    clip: Clip | None
    why_no_clip: str


def worst_utterances(study: Study, num_worst: int = 5, with_audio: bool = True) -> list[list[WorstUtterance]]:
    """For each test set the utterances with the highest CER over all its runs; one run of each method is shown.

    Only the longer half of each language is looked at: a wrong letter of two says little.
    """
    found = []
    for methods in study.test_sets:
        runs = [run for method in methods for run in method.runs]
        shown = [method.first for method in methods]
        edits = np.mean([run.counts.characters.total for run in runs], axis=0)
        lengths = runs[0].counts.characters.reference
        is_long = lengths >= np.maximum(_medians(lengths, runs[0].counts.language), 1)
        rates = np.divide(edits, lengths, out=np.full(len(lengths), -1.0), where=is_long)
        order = np.lexsort((-lengths, -rates))[:num_worst]  # of equally bad ones the longest first
        chosen = [int(place) for place in order if is_long[place]]
        found.append([_worst(place, float(rates[place]), study, shown, with_audio) for place in chosen])
    return found


def _medians(lengths: Integers, languages: Integers) -> npt.NDArray[np.float64]:
    """Of each utterance the median length of its language."""
    medians = {language: float(np.median(lengths[languages == language])) for language in np.unique(languages).tolist()}
    return np.array([medians[language] for language in languages.tolist()])


def _worst(place: int, cer: float, study: Study, runs: Sequence[RunResult], with_audio: bool) -> WorstUtterance:
    first = runs[0].predictions[place]
    clip, why_not = _clip_of(first.id, runs) if with_audio else (None, "")
    recognized = [_recognized(place, run, study.label(run)) for run in runs]
    return WorstUtterance(first.id, first.lang, first.text, cer, recognized, clip, why_not)


def _recognized(place: int, run: RunResult, label: str) -> Recognized:
    prediction = run.predictions[place]
    reference, hypothesis = PROFILES[run.counts.profile].normalize(prediction)
    edits = run.counts.characters
    cer = float(edits.total[place] / edits.reference[place])
    return Recognized(label, prediction.hyp_lang, prediction.hyp_text, cer, align(reference, hypothesis))


def align(reference: str, hypothesis: str) -> list[Aligned]:
    """Brings two texts together with the fewest edits; what is equal comes word by word, the rest letter by letter.

    Example:
        >>> [(one.kind, one.reference, one.hypothesis) for one in align("dobrý den", "dobry  en")]
        [('equal', 'dobr', 'dobr'), ('replace', 'ý', 'y'), ('equal', ' ', ' '), ('replace', 'd', ' '),
         ('equal', 'en', 'en')]
    """
    from rapidfuzz.distance import Levenshtein

    ours, theirs = letters(reference), letters(hypothesis)
    aligned = []
    for step in Levenshtein.opcodes(ours, theirs):
        own, other = ours[step.src_start : step.src_end], theirs[step.dest_start : step.dest_end]
        if step.tag == "equal":
            aligned += [Aligned(step.tag, word, word) for word in _words("".join(own))]
        else:
            aligned += [Aligned(step.tag, *pair) for pair in zip_longest(own, other, fillvalue="")]
    return aligned


def letters(text: str) -> list[str]:
    r"""Characters with the marks that stand on them.

    Example:
        >>> [len(one) for one in letters("ne\u0301!")]
        [1, 2, 1]
    """
    found: list[str] = []
    for one in text:
        if found and (unicodedata.category(one).startswith("M") or found[-1].endswith("\u200d")):
            found[-1] += one
        else:
            found.append(one)
    return found


def _words(text: str) -> list[str]:
    """Words, each with the space after it, so that a line can break between them."""
    found: list[str] = []
    for one in text:
        if found and not found[-1].endswith(" "):
            found[-1] += one
        else:
            found.append(one)
    return found


def _clip_of(utterance_id: str, runs: Sequence[RunResult]) -> tuple[Clip | None, str]:
    utterance = next(
        (run.dataset.utterances[utterance_id] for run in runs if utterance_id in run.dataset.utterances), None
    )
    if utterance is None:
        return None, "The audio is not at hand: the dataset has been moved or changed."
    from ..speech.audio import AudioError

    try:
        return make_clip(utterance), ""
    except AudioError as error:
        return None, f"The audio cannot be read: {error}"


def make_clip(utterance: Utterance) -> Clip:
    """The audio of an utterance, or its beginning.

    Raises:
        AudioError: if it cannot be read.
    """
    import soundfile

    from ..speech.audio import SAMPLE_RATE, read_audio

    samples = read_audio(utterance.audio_filepath, utterance.offset, utterance.duration)
    is_cut = len(samples) > MOST_SECONDS * SAMPLE_RATE
    samples = np.clip(samples[: int(MOST_SECONDS * SAMPLE_RATE)], -1.0, 1.0)
    file = io.BytesIO()
    soundfile.write(file, samples, SAMPLE_RATE, format="MP3", subtype="MPEG_LAYER_III")
    encoded = base64.b64encode(file.getvalue()).decode("ascii")
    return Clip(f"data:audio/mpeg;base64,{encoded}", utterance.duration, is_cut)
