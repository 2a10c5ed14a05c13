"""The script of a synthetic corpus: the sentences of each split and their speakers.

It depends only on specs, seed and installed packages. Mixtures of languages are drawn last, so they do not change other
sentences. To predict durations, a few sentences per speaker are rendered
first, and a linear function of the number of words and of phonemes is fitted.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ..speech.audio import SAMPLE_RATE
from .code_switching import is_mixture, languages_of
from .rendering import Pool, ReadJob, SpeakJob
from .spec import LONGEST, SHORTEST, SpeechSpec
from .voices import LANGUAGES, VARIANTS
from .words import compose, frequent_words, is_read_well, join, num_sounds

SPLITS = ("test", "dev", "train")  # in this order, sentences are drawn
NUM_MEASURED = 8  # sentences per speaker to render for the fit of durations
NUM_TRIES = 50  # to find a new sentence
PITCHES = (35, 65)
SHORTEST_WORD = 0.05  # seconds
SEGMENT_EVENNESS = 4.0  # of the Dirichlet distribution of segments in a mixture; most shares are from 0.2 to 0.8

Key: TypeAlias = tuple[str, str, int]
"""Language or mixture, split and number of a sentence."""


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


class SpokenPart(NamedTuple):
    """What one speaker says."""

    language: str
    speaker: Speaker
    words: tuple[str, ...]

    @property
    def text(self) -> str:
        return join(self.words, LANGUAGES[self.language])

    def job(self) -> SpeakJob:
        return self.speaker.say(self.words)


class Sentence(NamedTuple):
    segments: tuple[SpokenPart, ...]
    """One, or several if the sentence changes its language."""

    @property
    def text(self) -> str:
        return " ".join(segment.text for segment in self.segments)

    @property
    def speaker(self) -> str:
        return "+".join(dict.fromkeys(segment.speaker.name for segment in self.segments))


def plan(specs: Mapping[str, SpeechSpec], seed: int, pool: Pool) -> dict[Key, Sentence]:
    """The sentences of all splits, without duplicates."""
    languages = {name: spec for name, spec in specs.items() if not is_mixture(name)}
    vocabularies = readable_words(languages, pool)
    speakers = {language: draw_speakers(language, spec, seed) for language, spec in languages.items()}
    writer = _Writer(vocabularies, speakers, _measure(vocabularies, speakers, pool))
    sentences = {}
    for name, spec in sorted(specs.items(), key=lambda pair: (is_mixture(pair[0]), pair[0])):
        write = writer.write_mixed if is_mixture(name) else writer.write
        for split in SPLITS:
            rng = rng_of(seed, name, split)
            for number, target in enumerate(draw_durations(spec, getattr(spec, f"{split}_minutes"), rng)):
                sentences[name, split, number] = write(name, target, rng)
    return sentences


class _Writer:
    """Writes sentences of given durations, of which no two are equal."""

    def __init__(
        self,
        vocabularies: Mapping[str, Sequence[Word]],
        speakers: Mapping[str, Sequence[Speaker]],
        paces: Mapping[Speaker, SpeakerPace],
    ) -> None:
        self._words = {language: [word.text for word in words] for language, words in vocabularies.items()}
        self._speakers = speakers
        self._paces = paces
        self._seen: set[str] = set()

    def write(self, language: str, target: float, rng: np.random.Generator) -> Sentence:
        speaker = self._speaker(language, rng)
        return self._new(language, target, lambda seconds: Sentence((self._segment(language, speaker, seconds, rng),)))

    def write_mixed(self, name: str, target: float, rng: np.random.Generator) -> Sentence:
        """One speaker per language; the first language may be heard again at the end."""
        order = rng.permutation(languages_of(name)).tolist()
        speakers = {language: self._speaker(language, rng) for language in order}
        order += order[: rng.integers(2)]
        shares = rng.dirichlet([SEGMENT_EVENNESS] * len(order)).tolist()

        def draw(seconds: float) -> Sentence:
            parts = zip(order, shares, strict=True)
            return Sentence(
                tuple(self._segment(language, speakers[language], share * seconds, rng) for language, share in parts)
            )

        return self._new(name, target, draw)

    def _speaker(self, language: str, rng: np.random.Generator) -> Speaker:
        return self._speakers[language][int(rng.integers(len(self._speakers[language])))]

    def _segment(self, language: str, speaker: Speaker, seconds: float, rng: np.random.Generator) -> SpokenPart:
        words, pace = self._words[language], self._paces[speaker]
        chosen = tuple(words[index] for index in compose(pace.seconds, seconds - pace.base, rng))
        return SpokenPart(language, speaker, chosen)

    def _new(self, name: str, target: float, draw: Callable[[float], Sentence]) -> Sentence:
        """Draws a sentence of about `target` seconds that is not in `seen`, and adds it."""
        for tried in range(NUM_TRIES):
            # There are few sentences of one short word; when they run out, longer ones are drawn.
            sentence = draw(target * (1 + tried / 100))
            if sentence.text not in self._seen:
                self._seen.add(sentence.text)
                return sentence
        num_words = min(len(self._words[language]) for language in languages_of(name))
        raise ValueError(
            f"{name!r} has too few words ({num_words}): no new sentence of {target:.1f} seconds was found in "
            f"{NUM_TRIES} attempts. Raise `num_words` or `duration` in its spec, or reduce the minutes."
        )


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
