"""The utterances with the highest CER: aligned references and hypotheses, and audio clips.

Normalized texts are aligned letter by letter, with combining marks attached to their letters. Clips are embedded MP3
files, which all browsers play.
"""

from __future__ import annotations

import base64
import io
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

import numpy as np

from ..scoring.edits import Floats
from ..scoring.profiles import PROFILES
from ..speech.utterance import Utterance
from .read_runs import RunResult
from .study import Study

MOST_SECONDS = 20.0
"""Maximum length of a clip; longer ones are cut."""


Alignment = list[tuple[str, str, str]]
"""Kind (equal, replace, delete or insert), part of the reference, and the matching part of the hypothesis."""


@dataclass(frozen=True)
class Hypothesis:
    label: str
    language: str | None
    text: str
    cer: float
    alignment: Alignment


@dataclass(frozen=True)
class WorstUtterance:
    data_name: str
    id: str
    language: str
    text: str
    cer: float
    """Mean over all runs."""
    hypotheses: list[Hypothesis]
    audio: str
    """A data URL; empty without audio."""
    audio_note: str


def worst_utterances(study: Study, num_worst: int = 5, with_audio: bool = True) -> list[list[WorstUtterance]]:
    """The utterances of each test set with the highest mean CER over all runs, with one hypothesis per method.

    Only the longer half of each language is considered: one wrong letter in a text of two means little.
    """
    groups = []
    for methods in study.test_sets:
        order, rates = rank_utterances([run for method in methods for run in method.runs])
        shown = [method.first for method in methods]
        chosen = order[:num_worst]
        groups.append([_worst(index, float(rates[index]), study, shown, with_audio) for index in chosen])
    return groups


def rank_utterances(runs: Sequence[RunResult]) -> tuple[list[int], Floats]:
    """The utterances of the longer half of each language, the highest mean CER over runs first; and all mean CERs.

    The runs must have the same test data.
    """
    edits = np.mean([run.counts.characters.total for run in runs], axis=0)
    lengths = runs[0].counts.characters.reference
    language = runs[0].counts.language
    medians = np.array([np.median(lengths[language == number]) for number in range(language.max() + 1)])
    is_long = lengths >= np.maximum(medians[language], 1)
    rates = np.divide(edits, lengths, out=np.full(len(lengths), -1.0), where=is_long)
    order = np.lexsort((-lengths, -rates))  # the longest first among equal rates
    return [int(index) for index in order if is_long[index]], rates


def _worst(index: int, cer: float, study: Study, runs: Sequence[RunResult], with_audio: bool) -> WorstUtterance:
    first = runs[0].predictions[index]
    audio = _audio_of(first.id, runs) if with_audio else ("", "")
    hypotheses = [_hypothesis(index, run, study.label(run)) for run in runs]
    return WorstUtterance(runs[0].dataset.name, first.id, first.lang, first.text, cer, hypotheses, *audio)


def _hypothesis(index: int, run: RunResult, label: str) -> Hypothesis:
    prediction = run.predictions[index]
    edits = run.counts.characters
    cer = float(edits.total[index] / edits.reference[index])
    alignment = align(*PROFILES[run.counts.profile].normalize(prediction))
    return Hypothesis(label, prediction.hyp_lang, prediction.hyp_text, cer, alignment)


def align(reference: str, hypothesis: str) -> Alignment:
    """Aligns two texts with the fewest edits. Equal parts are split into words, other parts into letters."""
    from rapidfuzz.distance import Levenshtein

    first, second = letters(reference), letters(hypothesis)
    aligned: Alignment = []
    for step in Levenshtein.opcodes(first, second):
        before, after = first[step.src_start : step.src_end], second[step.dest_start : step.dest_end]
        if step.tag == "equal":
            words = re.findall(r"[^ ]* |[^ ]+", "".join(before))  # words with their spaces, so that lines can break
            aligned += [(step.tag, word, word) for word in words]
        else:
            aligned += [(step.tag, *pair) for pair in zip_longest(before, after, fillvalue="")]
    return aligned


def letters(text: str) -> list[str]:
    """Splits a text into characters with their combining marks."""
    split: list[str] = []
    for character in text:
        if split and (unicodedata.category(character).startswith("M") or split[-1].endswith("\u200d")):
            split[-1] += character
        else:
            split.append(character)
    return split


def _audio_of(utterance_id: str, runs: Sequence[RunResult]) -> tuple[str, str]:
    from ..speech.audio import AudioError

    utterances = (run.dataset.utterances.get(utterance_id) for run in runs)
    utterance = next((utterance for utterance in utterances if utterance is not None), None)
    if utterance is None:
        return "", "The audio is not available: the dataset has been moved or changed."
    try:
        is_cut = utterance.duration > MOST_SECONDS
        note = f"The clip is the beginning of {utterance.duration:.0f} s of audio." if is_cut else ""
        return make_clip(utterance), note
    except AudioError as error:
        return "", f"The audio cannot be read: {error}"


def make_clip(utterance: Utterance) -> str:
    """The audio of an utterance, or its beginning, as a data URL."""
    import soundfile

    from ..speech.audio import SAMPLE_RATE, read_audio

    samples = read_audio(utterance.audio_filepath, utterance.offset, min(utterance.duration, MOST_SECONDS))
    file = io.BytesIO()
    soundfile.write(file, np.clip(samples, -1.0, 1.0), SAMPLE_RATE, format="MP3", subtype="MPEG_LAYER_III")
    return f"data:audio/mpeg;base64,{base64.b64encode(file.getvalue()).decode('ascii')}"
