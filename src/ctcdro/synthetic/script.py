"""The plan of a synthetic corpus: who says what, in each split.

The plan is a function of specs, seed and installed packages. To fill a given time with words, one must know how long
each speaker takes for them. So a few sentences are said first, and a line is fitted: seconds as a function of the
number of words and of sounds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from .rendering import SAMPLE_RATE, Pool, ReadJob, SpeakJob
from .spec import LONGEST, SHORTEST, SpeechSpec
from .voices import VARIANTS, find_language
from .words import compose, frequent_words, is_read_well, join, num_sounds

SPLITS = ("test", "dev", "train")  # in the order in which sentences are drawn
NUM_MEASURED = 8  # sentences said by each speaker, to learn how long words take
NUM_TRIES = 50  # at a sentence that is not there yet
PITCHES = (35, 65)
SHORTEST_WORD = 0.05  # seconds

Key: TypeAlias = tuple[str, str, int]
"""Language, split and number of a sentence."""


@dataclass(frozen=True)
class Speaker:
    """Who speaks: a variant of the language's voice, with a pitch and a pace."""

    name: str
    voice: str
    pitch: int
    rate: int

    def say(self, words: Sequence[str]) -> SpeakJob:
        # Also where words are written together: what looks like one word of hundreds of bytes would be cut off.
        return SpeakJob(voice=self.voice, text=" ".join(words), rate=self.rate, pitch=self.pitch)


@dataclass(frozen=True)
class Word:
    """A word and the length of its reading, in sounds."""

    text: str
    num_sounds: int


@dataclass(frozen=True)
class SpeakerPace:
    """How long a speaker takes."""

    base: float
    """Seconds of a sentence without words."""
    seconds: npt.NDArray[np.float64]
    """(n,) of each word."""


@dataclass(frozen=True)
class Sentence:
    """An utterance before it is spoken."""

    speaker: Speaker
    words: tuple[str, ...]
    text: str
    """As it is written."""


def plan(specs: Mapping[str, SpeechSpec], seed: int, pool: Pool) -> dict[Key, Sentence]:
    """The sentences of all splits, no text twice.

    Raises:
        ValueError: naming the language, if its words do not suffice for so many different sentences.

    Example:
        >>> spec = SpeechSpec(duration=1.0, spread=0.2, train_minutes=0.1, dev_minutes=0.05, test_minutes=0.05)
        >>> with Pool(num_workers=1) as pool:
        ...     sentences = plan({"ces": spec}, seed=0, pool=pool)
        >>> len(sentences), sentences["ces", "test", 0].speaker.name
        (12, 'ces-...')
    """
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
                sentences[language, split, number] = Sentence(speaker, chosen, join(chosen, find_language(language)))
    return sentences


def rng_of(*of: int | str) -> np.random.Generator:
    """A generator for a purpose, named by numbers and words; the same in every process.

    Example:
        >>> bool(rng_of(0, "ces", "test").integers(10**9) == rng_of(0, "ces", "test").integers(10**9))
        True
    """
    digest = hashlib.sha256(repr(of).encode()).digest()
    return np.random.default_rng(int.from_bytes(digest, "little"))


def readable_words(specs: Mapping[str, SpeechSpec], pool: Pool) -> dict[str, list[Word]]:
    """The words of each language that its voice reads as words: `num_words`, or all where there are fewer."""
    languages = sorted(specs)
    candidates = [frequent_words(language)[: 4 * specs[language].num_words + 100] for language in languages]
    jobs = [ReadJob(find_language(code).voice, words) for code, words in zip(languages, candidates, strict=True)]
    readings = dict(pool.run(jobs))
    readable = {}
    for number, code in enumerate(languages):
        pairs = zip(candidates[number], readings[number], strict=True)
        words = [Word(word, num_sounds(said)) for word, said in pairs if is_read_well(said, find_language(code))]
        readable[code] = words[: specs[code].num_words]
    return readable


def draw_speakers(language: str, spec: SpeechSpec, seed: int) -> list[Speaker]:
    """The speakers of a language.

    Example:
        >>> [speaker.name for speaker in draw_speakers("ces", SpeechSpec(num_speakers=2), seed=0)]
        ['ces-0', 'ces-1']
    """
    rng = rng_of(seed, language, "speakers")
    variants = rng.permutation(VARIANTS)
    voice = find_language(language).voice
    return [
        Speaker(
            name=f"{language}-{number}",
            voice=f"{voice}+{variants[number % len(variants)]}",
            pitch=int(rng.integers(*PITCHES, endpoint=True)),
            rate=round(rng.uniform(*spec.words_per_minute)),
        )
        for number in range(spec.num_speakers)
    ]


def draw_durations(spec: SpeechSpec, minutes: float, rng: np.random.Generator) -> list[float]:
    """Durations of a gamma distribution that sum to nearly `minutes`, clipped to what an utterance may have.

    Example:
        >>> durations = draw_durations(SpeechSpec(duration=4.0, spread=1.7), minutes=60, rng=rng_of(0))
        >>> len(durations), round(float(np.mean(durations)), 3), round(float(np.std(durations)), 1)
        (900, 4.0, 1.7)
    """
    drawn = np.full(max(int(minutes > 0), round(60 * minutes / spec.duration)), spec.duration)
    if not len(drawn):
        return []
    if spec.spread > 0:
        drawn = rng.gamma((spec.duration / spec.spread) ** 2, size=len(drawn))
    for _ in range(8):  # clipping moves the mean
        drawn = np.clip(drawn * (spec.duration / drawn.mean()), SHORTEST, LONGEST)
    return [float(duration) for duration in drawn]


def _measure(
    words: Mapping[str, Sequence[Word]], speakers: Mapping[str, Sequence[Speaker]], pool: Pool
) -> dict[Speaker, SpeakerPace]:
    """Has each speaker say a few sentences, of one to eight words, and fits a line."""
    texts = {}
    for language, everyone in sorted(speakers.items()):
        for speaker in everyone:
            rng = rng_of("pace", speaker.name)
            places = [rng.integers(len(words[language]), size=1 + number % 8) for number in range(NUM_MEASURED)]
            texts[speaker] = [[words[language][place] for place in some] for some in places]
    jobs = [speaker.say([word.text for word in text]) for speaker, said in texts.items() for text in said]
    lengths = np.array([length for _, length in sorted(pool.run(jobs))]).reshape(-1, NUM_MEASURED)
    fits = {}
    for (speaker, said), length in zip(texts.items(), lengths, strict=True):
        known = np.array([[1.0, len(text), sum(word.num_sounds for word in text)] for text in said])
        # Rounded, so that the last bits, which may differ between machines, do not change the plan.
        fits[speaker] = np.linalg.lstsq(known, length / SAMPLE_RATE, rcond=None)[0].round(3)
    paces = {}
    for language, everyone in speakers.items():
        sounds = np.array([word.num_sounds for word in words[language]])
        for speaker in everyone:
            base, per_word, per_sound = fits[speaker].tolist()
            paces[speaker] = SpeakerPace(base, np.maximum(per_word + per_sound * sounds, SHORTEST_WORD))
    return paces


def _new_sentence(
    language: str, words: Sequence[str], pace: SpeakerPace, target: float, seen: set[str], rng: np.random.Generator
) -> tuple[str, ...]:
    """A sentence of nearly `target` seconds that is not in `seen`, to which it is added."""
    for tried in range(NUM_TRIES):
        # There are few sentences of one short word; once they are used up, two words have to do.
        longer = target * (1 + tried / 100)
        chosen = tuple(words[place] for place in compose(pace.seconds, longer - pace.base, rng))
        text = join(chosen, find_language(language))
        if text not in seen:
            seen.add(text)
            return chosen
    raise ValueError(
        f"The {len(words)} words of {language!r} do not suffice: no new sentence of {target:.1f} seconds was found in "
        f"{NUM_TRIES} tries. Raise `num_words` or `duration` in its spec, or ask for fewer minutes."
    )
