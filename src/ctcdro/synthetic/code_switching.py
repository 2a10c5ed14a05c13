"""Mixtures of languages within utterances, as in code-switching: names such as "cmn+eng", and their specs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from statistics import fmean

from .spec import SpeechSpec

SIGN = "+"


def is_mixture(name: str) -> bool:
    return SIGN in name


def languages_of(name: str) -> list[str]:
    return name.split(SIGN)


def mixture_spec(name: str, specs: Mapping[str, SpeechSpec]) -> SpeechSpec:
    """The means of the durations, noise, reverberation and minutes of the languages.

    Words, speakers and speaking rates are those of the languages, so these fields of the spec have no effect.

    Raises:
        ValueError: if the name does not have two languages of `specs`.
    """
    check_mixtures([name], specs)
    chosen = [specs[language] for language in languages_of(name)]
    noise = [spec.snr for spec in chosen if spec.snr is not None]
    return replace(
        chosen[0],
        duration=fmean(spec.duration for spec in chosen),
        spread=fmean(spec.spread for spec in chosen),
        snr=(fmean(low for low, _ in noise), fmean(high for _, high in noise)) if noise else None,
        reverberation=fmean(spec.reverberation for spec in chosen),
        train_minutes=fmean(spec.train_minutes for spec in chosen),
        dev_minutes=fmean(spec.dev_minutes for spec in chosen),
        test_minutes=fmean(spec.test_minutes for spec in chosen),
    )


def check_mixtures(names: Iterable[str], languages: Iterable[str]) -> None:
    """Rejects names of mixtures without two or more different languages of the corpus."""
    known = [language for language in languages if not is_mixture(language)]
    for name in names:
        parts = languages_of(name)
        if len(set(parts)) < max(2, len(parts)) or not set(parts) <= set(known):
            raise ValueError(
                "Code-switching must name two or more languages of the corpus, separated by plus signs, such as "
                f"cmn+eng; got {name!r}.{_unknown(parts, known)} Languages: {', '.join(known)}."
            )


def _unknown(parts: Iterable[str], known: Iterable[str]) -> str:
    missing = [part for part in parts if part not in set(known)]
    return f" Not in the corpus: {', '.join(map(repr, missing))}." if missing else ""
