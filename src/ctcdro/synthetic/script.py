"""The script of a synthetic corpus: the sentences of each split and their speakers.

It depends only on specs, seed and installed packages. To predict durations, a few sentences per speaker are rendered
first, and a linear function of the number of words and of phonemes is fitted.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ..speech.audio import SAMPLE_RATE
from .rendering import Pool, ReadJob, SpeakJob
from .spec import LONGEST, SHORTEST, SpeechSpec
from .voices import LANGUAGES, VARIANTS
from .words import compose, frequent_words, is_read_well, join, num_sounds

SPLITS = ("test", "dev", "train")  # in this order, sentences are drawn
NUM_MEASURED = 8  # sentences per speaker to render for the fit of durations
NUM_TRIES = 50  # to find a new sentence
PITCHES = (35, 65)
SHORTEST_WORD = 0.05  # seconds

Key: TypeAlias = tuple[str, str, int]
"""Language, split and number of a sentence."""


class Speaker(NamedTuple):
    """A variant of the language's voice, with a pitch and a rate."""

    name: str
    voice: str
    pitch: int
    rate: int

    def say(self, words: Sequence[str]) -> SpeakJob:
        # Spaces even in languages without them: eSpeak NG truncates words of hundreds of bytes.
        return SpeakJob(voice=self.voice, text=" ".join(words), rate=self.rate, pitch=self.pitch)


class Word(NamedTuple):
    text: str
    num_sounds: int


class SpeakerPace(NamedTuple):
    base: float
    """Seconds of a sentence without words."""
    seconds: npt.NDArray[np.float64]
    """(n,) seconds of each word."""


class Sentence(NamedTuple):
    speaker: Speaker
    words: tuple[str, ...]
    text: str


def plan(specs: Mapping[str, SpeechSpec], seed: int, pool: Pool) -> dict[Key, Sentence]:
    """The sentences of all splits, without duplicates."""
    vocabularies = readable_words(specs, pool)
    speakers = {language: draw_speakers(language, spec, seed) for language, spec in specs.items()}
    paces = _measure(vocabularies, speakers, pool)
    seen: set[str] = set()
    sentences = {}
    for language, spec in sorted(specs.items()):
        words = [word.text for word in vocabularies[language]]
        for split in SPLITS:
            rng = rng_of(seed, language, split)
            for number, target in enumerate(draw_durations(spec, getattr(spec, f"{split}_minutes"), rng)):
                speaker = speakers[language][rng.integers(spec.num_speakers)]
                chosen = _new_sentence(language, words, paces[speaker], target, seen, rng)
                sentences[language, split, number] = Sentence(speaker, chosen, join(chosen, LANGUAGES[language]))
    return sentences


def rng_of(*name: int | str) -> np.random.Generator:
    """A random generator seeded with a name, the same in every process."""
    digest = hashlib.sha256(repr(name).encode()).digest()
    return np.random.default_rng(int.from_bytes(digest, "little"))


def readable_words(specs: Mapping[str, SpeechSpec], pool: Pool) -> dict[str, list[Word]]:
    """The words of each language that its voice reads well: `num_words`, or all if there are fewer."""
    languages = sorted(specs)
    candidates = [frequent_words(language)[: 4 * specs[language].num_words + 100] for language in languages]
    jobs = [ReadJob(LANGUAGES[code].voice, words) for code, words in zip(languages, candidates, strict=True)]
    readable = {}
    for code, words, readings in zip(languages, candidates, pool.run(jobs), strict=True):
        pairs = zip(words, readings, strict=True)
        good = [Word(word, num_sounds(reading)) for word, reading in pairs if is_read_well(reading, LANGUAGES[code])]
        readable[code] = good[: specs[code].num_words]
    return readable


def draw_speakers(language: str, spec: SpeechSpec, seed: int) -> list[Speaker]:
    rng = rng_of(seed, language, "speakers")
    variants = rng.permutation(VARIANTS)
    return [
        Speaker(
            name=f"{language}-{number}",
            voice=f"{LANGUAGES[language].voice}+{variants[number % len(variants)]}",
            pitch=int(rng.integers(*PITCHES, endpoint=True)),
            rate=round(rng.uniform(*spec.words_per_minute)),
        )
        for number in range(spec.num_speakers)
    ]


def draw_durations(spec: SpeechSpec, minutes: float, rng: np.random.Generator) -> list[float]:
    """Durations from a gamma distribution, clipped to the allowed range, with a sum close to `minutes`."""
    drawn = np.full(max(int(minutes > 0), round(60 * minutes / spec.duration)), spec.duration)
    if not len(drawn):
        return []
    if spec.spread > 0:
        drawn = rng.gamma((spec.duration / spec.spread) ** 2, size=len(drawn))
    for _ in range(8):  # clipping shifts the mean
        drawn = np.clip(drawn * (spec.duration / drawn.mean()), SHORTEST, LONGEST)
    return drawn.tolist()


def _measure(
    words: Mapping[str, Sequence[Word]], speakers: Mapping[str, Sequence[Speaker]], pool: Pool
) -> dict[Speaker, SpeakerPace]:
    """Renders a few sentences of one to eight words per speaker, and fits the durations."""
    pairs = [(language, speaker) for language, everyone in sorted(speakers.items()) for speaker in everyone]
    trials = [_draw_trials(words[language], speaker) for language, speaker in pairs]
    jobs = [
        speaker.say([word.text for word in sentence])
        for (_, speaker), sentences in zip(pairs, trials, strict=True)
        for sentence in sentences
    ]
    seconds = np.array(list(pool.run(jobs))).reshape(-1, NUM_MEASURED) / SAMPLE_RATE
    paces = {}
    for (language, speaker), sentences, durations in zip(pairs, trials, seconds, strict=True):
        sizes = np.array([[1.0, len(sentence), sum(word.num_sounds for word in sentence)] for sentence in sentences])
        # Rounded, because the last bits may differ between machines, and would change the script.
        base, per_word, per_sound = np.linalg.lstsq(sizes, durations, rcond=None)[0].round(3).tolist()
        sounds = np.array([word.num_sounds for word in words[language]])
        paces[speaker] = SpeakerPace(base, np.maximum(per_word + per_sound * sounds, SHORTEST_WORD))
    return paces


def _draw_trials(words: Sequence[Word], speaker: Speaker) -> list[list[Word]]:
    rng = rng_of("pace", speaker.name)
    return [[words[index] for index in rng.integers(len(words), size=1 + n % 8)] for n in range(NUM_MEASURED)]


def _new_sentence(
    language: str, words: Sequence[str], pace: SpeakerPace, target: float, seen: set[str], rng: np.random.Generator
) -> tuple[str, ...]:
    """Draws a sentence of about `target` seconds that is not in `seen`, and adds it."""
    for tried in range(NUM_TRIES):
        # There are few sentences of one short word; when they run out, longer ones are drawn.
        longer = target * (1 + tried / 100)
        chosen = tuple(words[index] for index in compose(pace.seconds, longer - pace.base, rng))
        text = join(chosen, LANGUAGES[language])
        if text not in seen:
            seen.add(text)
            return chosen
    raise ValueError(
        f"{language!r} has too few words ({len(words)}): no new sentence of {target:.1f} seconds was found in "
        f"{NUM_TRIES} attempts. Raise `num_words` or `duration` in its spec, or reduce the minutes."
    )
