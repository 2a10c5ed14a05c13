"""Edits counted once for each utterance; character and word error rates and language accuracy read from the counts.

`count` compares each hypothesis with its reference under a scoring profile and keeps what it found by utterance, as
`Counts`. `Counts.scores` adds up: for each language, over all, the worst, the best, the mean and the spread. What can
be said of chance is read from the same counts, in `significance`. Rates are fractions. Profiles:

- `plain`: texts are normalized by `normalization.clean`; the rate of a language is all its edits over all its reference
  characters (or words). The language is no part of the text.
- `ml-superb2`: the rules of the ML-SUPERB 2.0 challenge. No punctuation of any script, upper case, no spaces in
  Mandarin, Japanese, Thai and Cantonese; the rate of a language is the mean of the rates of its utterances, so that
  short ones count as much as long ones; utterances without reference characters are left out, of language accuracy
  too. Two things differ where the challenge's program would not say what is meant: a hypothesis that names no language
  keeps all its text (there it loses five characters), and of fewer than 15 languages the worst 15 are all (there their
  sum is still divided by 15). The challenge has no word error rate; ours is of the same texts.
- `paper`: what the authors' scripts do with the output of NIST's sclite. The space after the language token counts as
  one more character of reference and hypothesis; alignments are sclite's, which count a substitution as 4 and an
  insertion or deletion as 3; the rate of each utterance is rounded to 0.1 % before they are averaged by their
  lengths. Approximate are: alignments of the same cost with different numbers of edits, of which we take the fewest
  (sclite does so in 999 of 1000 cases); runs of spaces, which are one here; hypotheses, which are normalized here as
  references are; and languages with several corpora, whose mean the authors take over corpora, we over utterances.
"""

from __future__ import annotations

import math
import os
import re
import statistics
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ..runtime.extras import extra
from ..speech import normalization
from ..storage.json_files import read_json
from ..storage.paths import PathLike

with extra("data", "Counting edits"):
    from rapidfuzz.distance import Levenshtein

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

NO_LANGUAGE = "none"
"""What stands in a confusion for a hypothesis that names no language."""

WORST_LANGUAGES = 15
"""How many of the worst languages the ML-SUPERB 2.0 challenge averages over."""

UNSPACED = frozenset({"cmn", "jpn", "tha", "yue"})
"""Languages whose spaces the ML-SUPERB 2.0 challenge leaves out."""


class Recognized(Protocol):
    """What was said and what was recognized; `transcripts.Prediction` is one."""

    @property
    def id(self) -> str: ...
    @property
    def lang(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def hyp_lang(self) -> str | None: ...
    @property
    def hyp_text(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Edits:
    """What leads from references to hypotheses: of each utterance (arrays), or of several together (numbers)."""

    substitutions: Any
    deletions: Any
    insertions: Any
    reference: Any
    """Characters or words of the references."""

    @property
    def total(self) -> Any:
        return self.substitutions + self.deletions + self.insertions

    def of(self, chosen: Any) -> Edits:
        """Those of chosen utterances, together."""
        return Edits(*(int(getattr(self, name)[chosen].sum()) for name in self.__slots__))


def count_characters(references: Sequence[str], hypotheses: Sequence[str]) -> Edits:
    """The fewest edits between characters; the space between words is one, spaces at either end are none.

    Example:
        >>> count_characters(["dobrý den", ""], ["dobrí dn", "x"]).total
        array([2, 1])
    """
    return _counted([text.strip() for text in references], [text.strip() for text in hypotheses])


def count_words(references: Sequence[str], hypotheses: Sequence[str]) -> Edits:
    """The fewest edits between words.

    Example:
        >>> count_words(["dobrý den"], ["den"])
        Edits(substitutions=array([0]), deletions=array([1]), insertions=array([0]), reference=array([2]))
    """
    return _counted(_split(references), _split(hypotheses))


def _counted(references: Sequence[Sequence[str]], hypotheses: Sequence[Sequence[str]]) -> Edits:
    edits = [
        Counter(edit.tag for edit in Levenshtein.editops(reference, hypothesis))
        for reference, hypothesis in zip(references, hypotheses, strict=True)
    ]
    columns = ([one[kind] for one in edits] for kind in ("replace", "delete", "insert"))
    return Edits(*(np.array(column, dtype=np.int64) for column in (*columns, [len(text) for text in references])))


def count_as_sclite(references: Sequence[Sequence[str]], hypotheses: Sequence[Sequence[str]]) -> Edits:
    """Edits of the alignment that NIST's sclite looks for: 4 for a substitution, 3 for an insertion or deletion.

    Such an alignment can have more edits than need be, but never more substitutions. Of several with the same cost, the
    one with the fewest edits is taken.

    Example:
        >>> count_as_sclite([list("abc")], [list("axc")])
        Edits(substitutions=array([1]), deletions=array([0]), insertions=array([0]), reference=array([3]))
    """
    counts = [_aligned(reference, hypothesis) for reference, hypothesis in zip(references, hypotheses, strict=True)]
    columns = np.array(counts, dtype=np.int64).reshape(-1, 4).T
    return Edits(*columns)


def _aligned(reference: Sequence[str], hypothesis: Sequence[str]) -> tuple[int, int, int, int]:
    # Cost and number of edits are digits of one distance: every edit weighs one on top of `scale` times its cost.
    scale = len(reference) + len(hypothesis) + 1
    indel, substitution = 3 * scale + 1, 4 * scale + 1
    distance = Levenshtein.distance(reference, hypothesis, weights=(indel, indel, substitution))
    cost, edits = divmod(distance, scale)
    substitutions = cost - 3 * edits
    longer = len(hypothesis) - len(reference)
    insertions = (edits - substitutions + longer) // 2
    return substitutions, insertions - longer, insertions, len(reference)


@dataclass(frozen=True)
class Shares:
    """What each utterance adds to a rate: the rate of several is the sum of `errors` over the sum of `weights`."""

    errors: Floats
    weights: Floats


def _over_all(edits: Edits) -> Shares:
    return Shares(edits.total.astype(np.float64), edits.reference.astype(np.float64))


def _over_utterances(edits: Edits) -> Shares:
    is_scored = edits.reference > 0
    return Shares(np.where(is_scored, edits.total / np.maximum(edits.reference, 1), 0.0), is_scored.astype(np.float64))


def _over_rounded(edits: Edits) -> Shares:
    # In whole numbers, half upwards, as sclite rounds: 5 of 16 are 31.3 %.
    lengths = np.maximum(edits.reference, 1)
    rounded = (2000 * edits.total + lengths) // (2 * lengths) / 1000
    return Shares(rounded * edits.reference, edits.reference.astype(np.float64))


@dataclass(frozen=True)
class Profile:
    """A way to score: what is compared, and how the edits of utterances make the rate of a language."""

    normalize: Callable[[Recognized], tuple[str, str]]
    """Reference and hypothesis to compare."""
    characters: Callable[[Sequence[str], Sequence[str]], Edits]
    words: Callable[[Sequence[str], Sequence[str]], Edits]
    shares: Callable[[Edits], Shares]
    language: Callable[[Recognized], str | None] = lambda record: record.hyp_lang
    """The language that the hypothesis names."""
    judges_unscored_languages: bool = True
    """Whether language accuracy has the utterances without reference characters, too."""


def _cleaned(record: Recognized) -> tuple[str, str]:
    return normalization.clean(record.text), normalization.clean(record.hyp_text)


def _as_challenge(record: Recognized) -> tuple[str, str]:
    """No punctuation, upper case, and spaces only where they tell words apart."""

    def normalized(text: str) -> str:
        text = "".join(text.split()) if record.lang in UNSPACED else text.strip()
        kept = (character for character in text if not unicodedata.category(character).startswith("P"))
        return "".join(kept).upper().strip()

    return normalized(record.text), normalized(record.hyp_text)


_LANGUAGE_TOKEN = re.compile(r"\[([a-z]{3}(?:_[a-z]{3})?)\]")


def _as_authors(record: Recognized) -> tuple[str, str]:
    """Upper case, no ASCII punctuation; behind a language token stands a space."""
    reference = normalization.paper(record.text)
    hypothesis = normalization.paper(_LANGUAGE_TOKEN.sub("", record.hyp_text))
    return _after_token(reference, True), _after_token(hypothesis, _named_first(record) is not None)


def _after_token(text: str, has_token: bool) -> str:
    return f" {text}" if text and has_token else text


def _named_first(record: Recognized) -> str | None:
    """The language named, or the first code in brackets anywhere in the text."""
    found = _LANGUAGE_TOKEN.search(record.hyp_text) if record.hyp_lang is None else None
    return found[1] if found else record.hyp_lang


def _split(texts: Iterable[str]) -> list[list[str]]:
    return [text.split() for text in texts]


PROFILES: dict[str, Profile] = {
    "plain": Profile(_cleaned, count_characters, count_words, _over_all),
    "ml-superb2": Profile(
        _as_challenge, count_characters, count_words, _over_utterances, judges_unscored_languages=False
    ),
    "paper": Profile(
        _as_authors,
        count_as_sclite,
        lambda references, hypotheses: count_as_sclite(_split(references), _split(hypotheses)),
        _over_rounded,
        language=_named_first,
    ),
}


@dataclass(frozen=True)
class Counts:
    """What was found of each of n utterances, in the order they came."""

    profile: str
    ids: list[str]
    languages: list[str]
    """Sorted; all that references have."""
    language: Integers
    """(n,) place of the reference's language among `languages`."""
    predicted: list[str | None]
    """(n,) language that the hypothesis names."""
    characters: Edits
    words: Edits

    def shares(self) -> dict[str, Shares]:
        """What each utterance adds to the rates: `cer`, `wer`, and `lid`, whose errors are those it gets right."""
        profile = PROFILES[self.profile]
        is_judged = (self.characters.reference > 0) | profile.judges_unscored_languages
        is_right = np.array(
            [self.languages[own] == named for own, named in zip(self.language, self.predicted, strict=True)]
        )
        return {
            "cer": profile.shares(self.characters),
            "wer": profile.shares(self.words),
            "lid": Shares((is_right & is_judged).astype(np.float64), is_judged.astype(np.float64)),
        }

    def scores(self) -> Scores:
        """All figures of languages, and of all utterances together."""
        shares = self.shares()
        by_language = {
            name: self._figures(shares, self.language == number) for number, name in enumerate(self.languages)
        }
        together = self._figures(shares, np.full(len(self.ids), True))
        return Scores(self.profile, by_language, together, self.confusion())

    def confusion(self) -> dict[str, dict[str, int]]:
        """How often hypotheses name which language, by the language of the reference; only what happened."""
        found = Counter(
            (self.languages[own], NO_LANGUAGE if named is None else named)
            for own, named in zip(self.language, self.predicted, strict=True)
        )
        return {
            name: {named: number for (own, named), number in sorted(found.items()) if own == name}
            for name in self.languages
        }

    def _figures(self, shares: Mapping[str, Shares], chosen: npt.NDArray[np.bool_]) -> Figures:
        rates = {name: _rate(one.errors[chosen].sum(), one.weights[chosen].sum()) for name, one in shares.items()}
        return Figures(
            **rates,
            num_utterances=int(chosen.sum()),
            characters=self.characters.of(chosen),
            words=self.words.of(chosen),
        )


def _rate(errors: float, weight: float) -> float | None:
    return float(errors / weight) if weight > 0 else None


def count(records: Iterable[Recognized], profile: str = "plain") -> Counts:
    """Counts the edits of each utterance under a scoring profile.

    Raises:
        ValueError: if there are no utterances, an id comes twice, or there is no such profile.

    Example:
        >>> from ctcdro.scoring.transcripts import Prediction
        >>> counts = count([Prediction("a1", "ces", "Dobrý den!", hyp_lang="slk", hyp_text="dobry den")])
        >>> counts.characters.total, counts.predicted
        (array([1]), ['slk'])
    """
    if profile not in PROFILES:
        raise ValueError(f"`profile` must be one of {', '.join(PROFILES)}; got {profile!r}.")
    listed = list(records)
    if not listed:
        raise ValueError("`records` must have at least one utterance; got none.")
    for record_id, times in Counter(record.id for record in listed).most_common(1):
        if times > 1:
            raise ValueError(f"`records` must have different ids; {record_id!r:.60} comes {times} times.")
    rules = PROFILES[profile]
    references, hypotheses = zip(*(rules.normalize(record) for record in listed), strict=True)
    languages = sorted({record.lang for record in listed})
    place = {name: number for number, name in enumerate(languages)}
    return Counts(
        profile=profile,
        ids=[record.id for record in listed],
        languages=languages,
        language=np.array([place[record.lang] for record in listed], dtype=np.int64),
        predicted=[rules.language(record) for record in listed],
        characters=rules.characters(references, hypotheses),
        words=rules.words(references, hypotheses),
    )


def score(records: Iterable[Recognized], profile: str = "plain") -> Scores:
    """Counts, and adds up.

    Example:
        >>> from ctcdro.scoring.transcripts import Prediction
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
class Figures:
    """The figures of a language, or of all utterances together; a rate over nothing is None."""

    cer: float | None
    wer: float | None
    lid: float | None
    """How many hypotheses name the right language."""
    num_utterances: int
    characters: Edits
    words: Edits


RATES = ("cer", "wer", "lid")


@dataclass(frozen=True)
class Scores:
    """The figures of a system: of each language, of all utterances, and over languages.

    Figures over languages take the name of a rate, "cer", "wer" or "lid", and are None if no language has it.
    """

    profile: str
    languages: dict[str, Figures]
    together: Figures
    confusion: dict[str, dict[str, int]]

    def rates(self, name: str) -> dict[str, float]:
        """The rate of each language that has one."""
        found = {language: getattr(figures, name) for language, figures in self.languages.items()}
        return {language: rate for language, rate in found.items() if rate is not None}

    def worst(self, name: str = "cer") -> tuple[str, float] | None:
        """The worst language and its rate; the first of the alphabet, of several."""
        rates = self.rates(name)
        sign = -1 if name == "lid" else 1
        return max(rates.items(), key=lambda item: sign * item[1]) if rates else None

    def worst_languages(self, name: str = "cer") -> list[str]:
        """All languages that share the worst rate."""
        worst = self.worst(name)
        return [language for language, rate in self.rates(name).items() if worst and rate == worst[1]]

    def worst_label(self, name: str = "cer") -> str:
        """The languages that share the worst rate, for tables; their number if there are more than three.

        Example:
            >>> from ctcdro.scoring.transcripts import Prediction
            >>> score([Prediction(one, one, "ano", one, "") for one in ("ces", "slk")]).worst_label()
            'ces, slk'
        """
        languages = self.worst_languages(name)
        return ", ".join(languages) if len(languages) <= 3 else f"{len(languages)} languages tied"

    @property
    def is_empty(self) -> bool:
        """Whether every hypothesis is empty, as for a model that predicts only blanks."""
        characters = self.together.characters
        return bool(characters.reference and characters.deletions == characters.reference and not characters.insertions)

    def best(self, name: str = "cer") -> tuple[str, float] | None:
        """The best language and its rate; the first of the alphabet, of several."""
        rates = self.rates(name)
        sign = -1 if name == "lid" else 1
        return min(rates.items(), key=lambda item: sign * item[1]) if rates else None

    def mean(self, name: str = "cer") -> float | None:
        """The mean over languages, each counting the same."""
        rates = self.rates(name).values()
        return math.fsum(rates) / len(rates) if rates else None

    def spread(self, name: str = "cer") -> float | None:
        """The standard deviation over languages (over n - 1); None for a single language."""
        rates = self.rates(name).values()
        return statistics.stdev(rates) if len(rates) > 1 else None

    def worst_mean(self, name: str = "cer", num_languages: int = WORST_LANGUAGES) -> float | None:
        """The mean over the worst languages, or over all where there are fewer."""
        rates = sorted(self.rates(name).values(), reverse=name != "lid")[:num_languages]
        return math.fsum(rates) / len(rates) if rates else None

    def summary(self) -> dict[str, float | None]:
        """The figures over languages by name, as `worst_cer`, and those over all utterances, as `overall_cer`."""
        found: dict[str, float | None] = {}
        for name in RATES:
            worst, best = self.worst(name), self.best(name)
            found |= {
                f"worst_{name}": worst and worst[1],
                f"best_{name}": best and best[1],
                f"mean_{name}": self.mean(name),
                f"spread_{name}": self.spread(name),
                f"worst_{WORST_LANGUAGES}_{name}": self.worst_mean(name),
                f"overall_{name}": getattr(self.together, name),
            }
        return found

    def to_record(self) -> dict[str, Any]:
        """The object to write to `scores/<split>.json`."""
        worst, best = self.worst(), self.best()
        return {
            "profile": self.profile,
            "num_utterances": self.together.num_utterances,
            "worst_language": worst and worst[0],
            "best_language": best and best[0],
            "summary": self.summary(),
            "together": asdict(self.together),
            "languages": {language: asdict(figures) for language, figures in self.languages.items()},
            "confusion": self.confusion,
        }

    @classmethod
    def from_record(cls, record: Any) -> Scores:
        """Reads what `to_record` gave; what follows from the rest is worked out again, further fields are passed over.

        Raises:
            ValueError: if it is something else.
        """
        try:
            languages = {language: _figures_of(figures) for language, figures in record["languages"].items()}
            confusion = {
                own: {named: int(number) for named, number in found.items()}
                for own, found in record["confusion"].items()
            }
            if record["profile"] not in list(PROFILES):
                raise ValueError(f"`profile` must be one of {', '.join(PROFILES)}; got {record['profile']!r:.60}")
            return cls(record["profile"], languages, _figures_of(record["together"]), confusion)
        except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
            raise ValueError(f"not scores of this package: {type(error).__name__}: {error!s:.500}") from error


def read_scores(path: PathLike) -> Scores:
    """Reads `scores/<split>.json` of a run.

    Raises:
        OSError: if the file does not exist or cannot be read.
        ValueError: naming the file, if it contains something else.
    """
    record = read_json(path)
    try:
        return Scores.from_record(record)
    except ValueError as error:
        raise ValueError(f"{os.fspath(path)}: {error}") from error


def _figures_of(record: Mapping[str, Any]) -> Figures:
    cer, wer, lid = (None if record[name] is None else float(record[name]) for name in RATES)
    characters, words = (
        Edits(**{name: int(number) for name, number in record[of].items()}) for of in ("characters", "words")
    )
    return Figures(cer, wer, lid, int(record["num_utterances"]), characters, words)
