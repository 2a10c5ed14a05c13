"""Character and word error rates and language accuracy, read from edits that are counted once per utterance.

`count` compares each hypothesis with its reference under a scoring profile (see `profiles`) and returns `Counts`, from
which everything else is computed: `Counts.scores` has the rates per language and over languages, `intervals` and
`comparisons` their confidence intervals and differences. Rates are fractions.
"""

from __future__ import annotations

import math
import os
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..storage.json_files import read_json
from ..storage.paths import PathLike
from .edits import Edits, Integers
from .formatting import format_tied
from .mixed import Parts, split
from .profiles import PROFILES, RateTerms, check_profile
from .transcripts import Prediction

RATES = ("cer", "wer", "lid")

NO_LANGUAGE = "none"
"""Stands for the language of a hypothesis without one in confusion counts."""

WORST_LANGUAGES = 15
"""Number of worst languages that the ML-SUPERB 2.0 challenge averages over."""

FEW_UTTERANCES = 20
"""Languages with fewer test utterances have only rough intervals."""


@dataclass(frozen=True)
class Counts:
    """Edits and languages of n utterances."""

    profile: str
    ids: list[str]
    languages: list[str]
    """Languages of the references, sorted."""
    language: Integers
    """(n,) index of the reference's language in `languages`; of several, the one with the largest share."""
    predicted: list[str | None]
    """(n,) language of the hypothesis."""
    characters: Edits
    words: Edits
    mixed_parts: Parts | None = None
    """The parts of all utterances by language, if some are in several languages."""

    @property
    def parts(self) -> Parts:
        """The parts of utterances by language: one per utterance, or several for one in several languages."""
        return Parts.whole(self.language) if self.mixed_parts is None else self.mixed_parts

    def terms_by_part(self) -> dict[str, RateTerms]:
        """The terms of each part in `cer`, `wer` and `lid`."""
        parts = self.parts
        index, share = parts.utterance, parts.share
        factors = {"cer": (parts.of_edits, parts.of_reference)}
        result = {}
        for name, terms in self.terms().items():
            of_numerator, of_denominator = factors.get(name, (share, share))
            result[name] = RateTerms(terms.numerator[index] * of_numerator, terms.denominator[index] * of_denominator)
        return result

    def terms(self) -> dict[str, RateTerms]:
        """The terms of each utterance in `cer`, `wer` and `lid`."""
        profile = PROFILES[self.profile]
        is_judged = (self.characters.reference > 0) | (not profile.lid_needs_text)
        pairs = zip(self.parts.utterance.tolist(), self.parts.language.tolist(), strict=True)
        spoken = {(index, self.languages[number]) for index, number in pairs}
        is_right = np.array([pair in spoken for pair in enumerate(self.predicted)])
        return {
            "cer": profile.terms(self.characters),
            "wer": profile.terms(self.words),
            "lid": RateTerms((is_right & is_judged).astype(np.float64), is_judged.astype(np.float64)),
        }

    def scores(self) -> Scores:
        terms, parts = self.terms_by_part(), self.parts
        languages = {
            name: self._language_scores(terms, parts, parts.language == number)
            for number, name in enumerate(self.languages)
        }
        together = self._language_scores(self.terms(), Parts.whole(self.language), np.full(len(self.ids), True))
        return Scores(self.profile, languages, together, self._confusion())

    def _language_pairs(self) -> list[tuple[str, str | None]]:
        return [(self.languages[number], name) for number, name in zip(self.language, self.predicted, strict=True)]

    def _confusion(self) -> dict[str, dict[str, int]]:
        pairs = Counter((spoken, NO_LANGUAGE if name is None else name) for spoken, name in self._language_pairs())
        confusion: dict[str, dict[str, int]] = {spoken: {} for spoken in self.languages}
        for (spoken, name), number in sorted(pairs.items()):
            confusion[spoken][name] = number
        return confusion

    def _language_scores(
        self, terms: Mapping[str, RateTerms], parts: Parts, selected: npt.NDArray[np.bool_]
    ) -> LanguageScores:
        rates = {}
        for name, of_rate in terms.items():
            denominator = of_rate.denominator[selected].sum()
            rates[name] = float(of_rate.numerator[selected].sum() / denominator) if denominator > 0 else None
        own = parts.of(selected)
        characters = self.characters.sum(own.utterance, own.of_edits, own.of_reference)
        words = self.words.sum(own.utterance, own.share, own.share)
        return LanguageScores(**rates, num_utterances=int(selected.sum()), characters=characters, words=words)


def count(records: Iterable[Prediction], profile: str = "plain") -> Counts:
    """Counts the edits of each utterance under a scoring profile; each id must occur once."""
    check_profile(profile)
    records = list(records)
    if not records:
        raise ValueError("`records` must have at least one utterance; got none.")
    [(record_id, times)] = Counter(record.id for record in records).most_common(1)
    if times > 1:
        raise ValueError(f"`records` must have unique ids; {record_id!r:.60} occurs {times} times.")
    rules = PROFILES[profile]
    references, hypotheses = zip(*map(rules.normalize, records), strict=True)
    languages = sorted({name for record in records for name in record.languages})
    index = {name: number for number, name in enumerate(languages)}
    language = np.array([index[record.lang] for record in records], dtype=np.int64)
    is_mixed = any(record.lang_shares is not None for record in records)
    shares_of = [record.languages for record in records]
    return Counts(
        profile=profile,
        ids=[record.id for record in records],
        languages=languages,
        language=language,
        predicted=[rules.find_language(record) for record in records],
        characters=rules.count(references, hypotheses),
        words=rules.count([text.split() for text in references], [text.split() for text in hypotheses]),
        mixed_parts=split(shares_of, languages, references, hypotheses) if is_mixed else None,
    )


def score(records: Iterable[Prediction], profile: str = "plain") -> Scores:
    """Scores utterances under a scoring profile.

    Example:
        >>> scores = score([
        ...     Prediction("a1", "ces", "ahoj", hyp_lang="ces", hyp_text="ahoi"),
        ...     Prediction("b1", "cmn", "你好", hyp_lang=None, hyp_text="好"),
        ... ])
        >>> scores.worst("cer"), scores.mean("cer"), scores.mean("lid")
        (('cmn', 0.5), 0.375, 0.5)
        >>> scores.confusion
        {'ces': {'ces': 1}, 'cmn': {'none': 1}}
    """
    return count(records, profile).scores()


@dataclass(frozen=True, slots=True)
class LanguageScores:
    """Rates and edits of a language, or of all utterances. A rate is None if there is no reference text."""

    cer: float | None
    wer: float | None
    lid: float | None
    """Fraction of hypotheses with the correct language; of several languages, any of them."""
    num_utterances: int
    characters: Edits
    words: Edits

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> LanguageScores:
        cer, wer, lid = (None if record[name] is None else float(record[name]) for name in RATES)
        characters, words = (
            Edits(**{name: int(number) for name, number in record[unit].items()}) for unit in ("characters", "words")
        )
        return cls(cer, wer, lid, int(record["num_utterances"]), characters, words)


@dataclass(frozen=True)
class Scores:
    """Scores of a system: of each language, of all utterances, and over languages.

    The methods take the name of a rate, "cer", "wer" or "lid", and return None if no language has that rate.
    """

    profile: str
    languages: dict[str, LanguageScores]
    together: LanguageScores
    confusion: dict[str, dict[str, int]]
    """Number of hypotheses by reference language, then by predicted language."""

    def rates(self, name: str) -> dict[str, float]:
        rates = {language: getattr(scores, name) for language, scores in self.languages.items()}
        return {language: rate for language, rate in rates.items() if rate is not None}

    def _from_worst(self, name: str) -> list[tuple[str, float]]:
        """Languages and rates, worst first; ties are in alphabetical order."""
        return sorted(self.rates(name).items(), key=lambda item: item[1] if name == "lid" else -item[1])

    def worst(self, name: str = "cer") -> tuple[str, float] | None:
        """The worst language and its rate; the first in alphabetical order if there is a tie."""
        return next(iter(self._from_worst(name)), None)

    def best(self, name: str = "cer") -> tuple[str, float] | None:
        """The best language and its rate; see `worst`."""
        ranked = self._from_worst(name)
        return next((item for item in ranked if item[1] == ranked[-1][1]), None)

    def worst_label(self, show: Callable[[str], str] = str) -> str:
        """The languages that share the highest CER, for tables; their number if there are more than three.

        Args:
            show: text for a language, such as `language_name`; by default its code.
        """
        return self._tied(0, show)

    def best_label(self, show: Callable[[str], str] = str) -> str:
        """The languages that share the lowest CER; see `worst_label`."""
        return self._tied(-1, show)

    def _tied(self, place: int, show: Callable[[str], str]) -> str:
        ranked = self._from_worst("cer")
        return format_tied([show(language) for language, rate in ranked if rate == ranked[place][1]])

    @property
    def small_languages(self) -> list[str]:
        """Languages with too few utterances for more than rough intervals."""
        return [name for name, scores in self.languages.items() if scores.num_utterances < FEW_UTTERANCES]

    @property
    def is_empty(self) -> bool:
        """Whether every hypothesis is empty, for example because the model predicts only blanks."""
        characters = self.together.characters
        return bool(characters.reference and characters.deletions == characters.reference and not characters.insertions)

    def mean(self, name: str = "cer") -> float | None:
        """The macro average over languages."""
        return self.worst_mean(name, len(self.languages))

    def worst_mean(self, name: str = "cer", num_languages: int = WORST_LANGUAGES) -> float | None:
        """The mean over the worst languages, or over all if there are fewer."""
        rates = [rate for _, rate in self._from_worst(name)[:num_languages]]
        return math.fsum(rates) / len(rates) if rates else None

    def spread(self, name: str = "cer") -> float | None:
        """The standard deviation over languages (over n - 1); None for a single language."""
        rates = self.rates(name).values()
        return statistics.stdev(rates) if len(rates) > 1 else None

    def summary(self) -> dict[str, float | None]:
        """Figures by name: over languages, such as `worst_cer`, and over all utterances, such as `overall_cer`."""
        summary: dict[str, float | None] = {}
        for name in RATES:
            worst, best = self.worst(name), self.best(name)
            summary |= {
                f"worst_{name}": worst and worst[1],
                f"best_{name}": best and best[1],
                f"mean_{name}": self.mean(name),
                f"spread_{name}": self.spread(name),
                f"worst_{WORST_LANGUAGES}_{name}": self.worst_mean(name),
                f"overall_{name}": getattr(self.together, name),
            }
        return summary

    def to_record(self) -> dict[str, Any]:
        """The object in `scores/<split>.json`."""
        worst, best = self.worst(), self.best()
        return {
            "profile": self.profile,
            "num_utterances": self.together.num_utterances,
            "worst_language": worst and worst[0],
            "best_language": best and best[0],
            "summary": self.summary(),
            "together": asdict(self.together),
            "languages": {language: asdict(scores) for language, scores in self.languages.items()},
            "confusion": self.confusion,
        }

    @classmethod
    def from_record(cls, record: Any) -> Scores:
        """Reads the result of `to_record`; ignores derived figures and unknown fields."""
        try:
            check_profile(record["profile"])
            return cls(
                record["profile"],
                {name: LanguageScores.from_record(scores) for name, scores in record["languages"].items()},
                LanguageScores.from_record(record["together"]),
                {spoken: {name: int(n) for name, n in row.items()} for spoken, row in record["confusion"].items()},
            )
        except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
            raise ValueError(f"not scores written by ctcdro: {type(error).__name__}: {error!s:.500}") from error


def read_scores(path: PathLike) -> Scores:
    """Reads `scores/<split>.json` of a run."""
    record = read_json(path)
    try:
        return Scores.from_record(record)
    except ValueError as error:
        raise ValueError(f"{os.fspath(path)}: {error}") from error
