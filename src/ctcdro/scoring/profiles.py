"""Scoring profiles: how texts are normalized, and how the edits of utterances become the rate of a language.

- `plain`: texts are normalized by `normalization.clean`. The rate of a language is all its edits divided by all its
  reference characters (or words). The language token is not part of the text.
- `ml-superb2`: the rules of the ML-SUPERB 2.0 challenge. Texts are upper case without punctuation of any script, and
  without spaces in Mandarin, Japanese, Thai and Cantonese. The rate of a language is the mean of the rates of its
  utterances, so that short ones count as much as long ones. Utterances without reference characters are skipped, for
  language accuracy too. Two details differ from the challenge's script: a hypothesis without a language keeps all its
  text (the script drops five characters), and with fewer than 15 languages the mean of the worst 15 is over all of them
  (the script still divides by 15). The challenge has no word error rate; ours uses the same texts.
- `paper`: the authors' scripts applied to the output of NIST's sclite. The space after the language token counts
  as one character of reference and hypothesis; alignments are those of `count_as_sclite`; the rate of each utterance is
  rounded to 0.1% before rates are averaged with the lengths as weights. Four details are approximate. Among alignments
  of equal cost, sclite chooses the one with the fewest edits in 999 of 1000 cases, this profile always. Repeated spaces
  are merged. Hypotheses are normalized like references. Languages with several corpora are not averaged over corpora.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ..speech import normalization
from .edits import Edits, Floats, count_as_sclite, count_fewest
from .transcripts import Prediction

UNSPACED_LANGUAGES = frozenset({"cmn", "jpn", "tha", "yue"})
"""Languages whose spaces the ML-SUPERB 2.0 challenge removes."""

_LANGUAGE_TOKEN = re.compile(r"\[([a-z]{3}(?:_[a-z]{3})?)\]")


@dataclass(frozen=True)
class RateTerms:
    """The terms of each utterance in a rate, which is the sum of numerators over the sum of denominators."""

    numerator: Floats
    denominator: Floats


@dataclass(frozen=True)
class Profile:
    normalize: Callable[[Prediction], tuple[str, str]]
    """Returns the reference and the hypothesis to compare."""
    count: Callable[[Sequence[Sequence[str]], Sequence[Sequence[str]]], Edits]
    terms: Callable[[Edits], RateTerms]
    find_language: Callable[[Prediction], str | None] = lambda record: record.hyp_lang
    lid_needs_text: bool = False
    """Whether language accuracy skips utterances without reference characters."""


def _corpus_terms(edits: Edits) -> RateTerms:
    return RateTerms(edits.total.astype(np.float64), edits.reference.astype(np.float64))


def _utterance_terms(edits: Edits) -> RateTerms:
    has_text = edits.reference > 0
    rates = np.where(has_text, edits.total / np.maximum(edits.reference, 1), 0.0)
    return RateTerms(rates, has_text.astype(np.float64))


def _rounded_terms(edits: Edits) -> RateTerms:
    # Integer arithmetic that rounds half up, like sclite: 5 of 16 are 31.3%.
    lengths = np.maximum(edits.reference, 1)
    rounded = (2000 * edits.total + lengths) // (2 * lengths) / 1000
    return RateTerms(rounded * edits.reference, edits.reference.astype(np.float64))


def _normalize_plain(record: Prediction) -> tuple[str, str]:
    return normalization.clean(record.text), normalization.clean(record.hyp_text)


def _normalize_challenge(record: Prediction) -> tuple[str, str]:
    def normalize(text: str) -> str:
        text = "".join(text.split()) if record.lang in UNSPACED_LANGUAGES else text.strip()
        kept = (character for character in text if not unicodedata.category(character).startswith("P"))
        return "".join(kept).upper().strip()

    return normalize(record.text), normalize(record.hyp_text)


def _normalize_paper(record: Prediction) -> tuple[str, str]:
    reference = normalization.paper(record.text)
    hypothesis = normalization.paper(_LANGUAGE_TOKEN.sub("", record.hyp_text))
    space = " " if hypothesis and _first_language(record) is not None else ""
    return reference and f" {reference}", space + hypothesis


def _first_language(record: Prediction) -> str | None:
    """The language of the hypothesis, or the first language token anywhere in its text."""
    token = _LANGUAGE_TOKEN.search(record.hyp_text) if record.hyp_lang is None else None
    return token[1] if token else record.hyp_lang


PROFILES = {
    "plain": Profile(_normalize_plain, count_fewest, _corpus_terms),
    "ml-superb2": Profile(_normalize_challenge, count_fewest, _utterance_terms, lid_needs_text=True),
    "paper": Profile(_normalize_paper, count_as_sclite, _rounded_terms, find_language=_first_language),
}


def check_profile(name: object) -> None:
    if name not in list(PROFILES):
        raise ValueError(f"`profile` must be one of {', '.join(PROFILES)}; got {name!r:.60}.")
