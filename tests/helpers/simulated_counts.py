"""Counts of simulated systems whose true error rates are known."""

from dataclasses import replace

import numpy as np

from ctcdro.scoring.edits import Edits
from ctcdro.scoring.scores import Counts, count
from ctcdro.scoring.transcripts import Prediction


def simulated(generator, rates, num_utterances, length=30, profile="plain"):
    """Counts of languages with these character error rates; a word is as wrong as a character."""
    language = np.repeat(np.arange(len(rates)), num_utterances)
    names = [f"l{number:02}" for number in range(len(rates))]
    lengths = generator.integers(1, 2 * length, size=len(language))
    wrong = generator.binomial(lengths, np.asarray(rates)[language])
    none = np.zeros_like(wrong)
    edits = Edits(wrong, none, none, lengths)
    return Counts(
        profile=profile,
        ids=[str(number) for number in range(len(language))],
        languages=names,
        language=language,
        predicted=[names[own] if right else None for own, right in zip(language, wrong < lengths / 2, strict=True)],
        characters=edits,
        words=edits,
    )


def better(generator, counts, share):
    """The same utterances, with that share of the errors."""
    wrong = generator.binomial(counts.characters.substitutions, share)
    edits = replace(counts.characters, substitutions=wrong)
    return replace(counts, characters=edits, words=edits)


def recognized(*texts):
    """Counts of (language, reference, hypothesis)."""
    return count(Prediction(str(n), lang, text, lang, said) for n, (lang, text, said) in enumerate(texts))
