"""Durations and texts like those of the paper's language set 1, for the benchmarks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ctcdro.sampling.batch_arrays import Durations, Indices

BATCH_DURATION = 50.0

# Mean and standard deviation of the durations in seconds, from the paper's table of dataset statistics.
SET_1 = {
    "ces": (4.0, 1.7),
    "cmn": (10.4, 3.5),
    "nan": (2.6, 0.7),
    "pol": (7.5, 3.0),
    "ron": (12.6, 3.1),
    "spa": (8.1, 2.2),
}

# Letters of made-up words; Mandarin has a part of its characters, and no spaces.
LETTERS = {
    "ces": "aábcčdďeéěfghiíjklmnňoóprřsštťuúůvyýzž",
    "cmn": "".join(map(chr, range(0x4E00, 0x4E00 + 500))),
    "nan": "abceghijklmnopstu" + "áàâāéèêēíìîīóòôōúùûū",
    "pol": "aąbcćdeęfghijklłmnńoóprsśtuwyzźż",
    "ron": "aăâbcdefghiîjlmnoprsștțuvxz",
    "spa": "aábcdeéfghiíjlmnñoópqrstuúüvxyz",
}


def like_set_1(num_utterances: int, seed: int = 0) -> tuple[Durations, Indices]:
    """Normally distributed durations between 0.5 and 20 seconds, and groups of the same size."""
    rng = np.random.default_rng(seed)
    groups = np.arange(num_utterances) % len(SET_1)
    means, spreads = np.array(list(SET_1.values())).T
    return rng.normal(means[groups], spreads[groups]).clip(0.5, 20.0), groups


def texts_like_set_1(
    num_texts: int, languages: Sequence[str] = tuple(SET_1), seed: int = 0
) -> tuple[list[str], list[str]]:
    """Texts of 4 to 12 made-up words, and their languages, with the same number of texts per language."""
    rng = np.random.default_rng(seed)
    words = {language: _words(LETTERS[language], 2000, rng) for language in languages}
    of_text = [languages[number % len(languages)] for number in range(num_texts)]
    texts = [
        ("" if language == "cmn" else " ").join(rng.choice(words[language], rng.integers(4, 13)))
        for language in of_text
    ]
    return texts, of_text


def _words(letters: str, num_words: int, rng: np.random.Generator) -> list[str]:
    longest = 3 if len(letters) > 100 else 10
    return ["".join(rng.choice(list(letters), rng.integers(1, longest))) for _ in range(num_words)]
