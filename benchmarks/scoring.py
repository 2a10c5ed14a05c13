"""How fast are transcripts scored? .venv/bin/python benchmarks/scoring.py

Made-up texts like those of the paper's set 1, the same number per language, with an error in about every eighth
character and the wrong language in every twelfth utterance. `scoring.scores.score` normalizes texts, counts edits by
character and by word, and computes CER, WER and language accuracy per language. It is compared with `jiwer.cer` and
`jiwer.wer`, called per utterance or once per language, and a loop that compares languages. jiwer gets texts that were
normalized before the clock starts, so another row has our counting alone. All rates agree to 12 digits. Contenders take
turns. Ratios compare utterances per second (ours over the other): medians of all rounds, with a 95% bootstrap interval.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

import jiwer
import numpy as np
from corpora import LETTERS, SET_1, texts_like_set_1
from measuring import ResultTable, seconds_in_turns, shown

from ctcdro.scoring.edits import count_fewest
from ctcdro.scoring.intervals import confidence_intervals
from ctcdro.scoring.scores import Scores, count, score
from ctcdro.scoring.transcripts import Prediction
from ctcdro.speech.normalization import clean

Rates: TypeAlias = dict[str, tuple[float, float, float]]
"""CER, WER and language accuracy by language."""


def make_predictions(num_utterances: int) -> list[Prediction]:
    rng = np.random.default_rng(1)
    languages = list(SET_1)
    predictions = []
    for number, (text, language) in enumerate(zip(*texts_like_set_1(num_utterances), strict=True)):
        named = language if rng.random() < 0.9 else languages[rng.integers(len(languages))]
        said = text.capitalize() + "."
        predictions.append(Prediction(str(number), language, said, named, with_errors(text, LETTERS[language], rng)))
    return predictions


def with_errors(text: str, letters: str, rng: np.random.Generator) -> str:
    """Deletes, inserts and replaces characters, including spaces, with a probability of 4% each."""
    kinds = rng.choice(4, len(text), p=[0.88, 0.04, 0.04, 0.04])
    others = rng.choice([*letters[:30], " "], len(text))
    changed = [
        (character, "", other + character, other)[kind]
        for character, kind, other in zip(text, kinds.tolist(), others.tolist(), strict=True)
    ]
    return "".join(changed)


def normalized(predictions: list[Prediction]) -> list[Prediction]:
    return [Prediction(one.id, one.lang, clean(one.text), one.hyp_lang, clean(one.hyp_text)) for one in predictions]


def rates_of(scores: Scores) -> Rates:
    rates = zip(*(scores.rates(name).values() for name in ("cer", "wer", "lid")), strict=True)
    return dict(zip(scores.languages, rates, strict=True))


def count_alone(predictions: list[Prediction]) -> None:
    texts = [one.text for one in predictions], [one.hyp_text for one in predictions]
    count_fewest(*texts)
    count_fewest(*([text.split() for text in side] for side in texts))


def by_utterance(predictions: list[Prediction]) -> Rates:
    """The rate of a language is the mean of the rates of its utterances, weighted by length."""
    found: dict[str, list[tuple[float, float, float, float, float]]] = {}
    for one in predictions:
        cer, wer = jiwer.cer(one.text, one.hyp_text), jiwer.wer(one.text, one.hyp_text)
        figures = (cer, len(one.text), wer, len(one.text.split()), one.lang == one.hyp_lang)
        found.setdefault(one.lang, []).append(figures)
    rates = {}
    for language in sorted(found):
        cers, characters, wers, words, is_right = np.array(found[language]).T
        rates[language] = (
            float(cers @ characters / characters.sum()),
            float(wers @ words / words.sum()),
            float(is_right.mean()),
        )
    return rates


def by_language(predictions: list[Prediction]) -> Rates:
    rates = {}
    for language in sorted({one.lang for one in predictions}):
        own = [one for one in predictions if one.lang == language]
        texts = [one.text for one in own], [one.hyp_text for one in own]
        num_right = sum(one.hyp_lang == language for one in own)
        rates[language] = (jiwer.cer(*texts), jiwer.wer(*texts), num_right / len(own))
    return rates


def are_same(one: Rates, other: Rates) -> bool:
    return list(one) == list(other) and all(np.allclose(one[name], other[name], rtol=0, atol=1e-12) for name in one)


def main(num_utterances: int = 12_000, num_rounds: int = 7) -> dict[str, ResultTable]:
    predictions = make_predictions(num_utterances)
    clean_ones = normalized(predictions)
    rates = rates_of(score(predictions))
    assert are_same(rates, by_utterance(clean_ones))
    assert are_same(rates, by_language(clean_ones))
    functions: dict[str, Callable[[], object]] = {
        "`score`": partial(score, predictions),
        "counting alone": partial(count_alone, clean_ones),
        "intervals": partial(confidence_intervals, count(predictions)),
        "utterance by utterance": partial(by_utterance, clean_ones),
        "language by language": partial(by_language, clean_ones),
    }
    seconds = dict(zip(functions, seconds_in_turns(list(functions.values()), num_rounds).T, strict=True))
    table = ResultTable(
        "function", "utterances per second", "relative to jiwer per utterance", "relative to jiwer per language"
    )
    for name in ("`score`", "counting alone"):
        over = [shown(seconds[peer] / seconds[name]) for peer in list(functions)[3:]]
        table.add(name, f"{num_utterances / np.median(seconds[name]):,.0f}", *over)
    print(f"Confidence intervals take {shown(seconds['intervals'] / seconds['`score`'])} times as long as `score`.")
    return {"scoring": table}


if __name__ == "__main__":
    main()
