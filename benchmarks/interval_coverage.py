"""How often do confidence intervals contain the truth? .venv/bin/python benchmarks/interval_coverage.py

Test sets are drawn from six languages whose true rates are known. Tables have the percentage of 95% intervals that
contain the truth. An utterance has 5 to 60 characters and a fifth as many words. Its difficulty is drawn from a normal
distribution; the chance of an error is a logistic function of difficulty and length. The slope is 1 ("even") or 2
("skewed": most utterances are nearly right, and a few are very wrong). Rows of single languages average over the six.

Differences are those of two systems with the same true rates on the same utterances. There, 100 minus the coverage is
how often p < 0.05 reports a difference that does not exist. In the scenario "worst improved" the second system brings
the worst language down to the level of the next. Difficulties for the two systems have a correlation of 0.8.

Differences over seeds and over languages are normal variables, and their intervals those of paired t-tests.
"""

from __future__ import annotations

import argparse
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from statistics import NormalDist

import numpy as np
import numpy.typing as npt
from measuring import ResultTable

from ctcdro.scoring.comparisons import Difference, compare
from ctcdro.scoring.edits import Edits
from ctcdro.scoring.intervals import Interval, confidence_intervals
from ctcdro.scoring.scores import RATES, Counts
from ctcdro.scoring.seeds import paired_t_test

Array = npt.NDArray[np.float64]

CHARACTERS = np.arange(5, 61)
WORDS = CHARACTERS // 5
SHARED = 0.8
LID = (0.85, 0.9, 0.9, 0.95, 0.98, 0.99)


@dataclass(frozen=True)
class Scenario:
    """True CERs of languages under one system, or two."""

    name: str
    first: Sequence[float]
    second: Sequence[float] = field(default=())

    def truth(self, system: int) -> dict[str, Array]:
        cer = np.array(self.second if system and self.second else self.first)
        return {"cer": cer, "wer": 1.5 * cer, "lid": np.array(LID)}


SCENARIOS = (
    Scenario("one clearly worst", (0.6, 0.35, 0.3, 0.25, 0.2, 0.15)),
    Scenario("two equally bad", (0.45, 0.45, 0.3, 0.25, 0.2, 0.15)),
    Scenario("six equally bad", (0.3,) * 6),
    Scenario("six close", (0.36, 0.34, 0.32, 0.3, 0.28, 0.26)),
    Scenario("worst improved", (0.6, 0.35, 0.3, 0.25, 0.2, 0.15), (0.36, 0.35, 0.3, 0.25, 0.2, 0.15)),
)


def chance(level: float | Array, slope: float, difficulty: Array, characters: npt.NDArray[np.int64]) -> Array:
    """The chance of an error."""
    return 1 / (1 + np.exp(-(level + slope * difficulty + 0.3 * np.log(characters / 25))))


@cache
def level_of(rate: float, slope: float, of_words: bool) -> float:
    """The level that gives this rate in the limit of many utterances."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    number = WORDS if of_words else CHARACTERS
    low, high = -30.0, 30.0
    while high - low > 1e-10:
        middle = (low + high) / 2
        found = weights @ chance(middle, slope, nodes[:, None], CHARACTERS) @ number / weights.sum() / number.sum()
        low, high = (middle, high) if found < rate else (low, middle)
    return (low + high) / 2


def draw(scenario: Scenario, slope: float, num_utterances: int, rng: np.random.Generator) -> list[Counts]:
    """The counts of both systems on the same utterances."""
    language = np.repeat(np.arange(len(scenario.first)), num_utterances)
    names = [f"l{number}" for number in range(len(scenario.first))]
    place = rng.integers(len(CHARACTERS), size=len(language))
    shared = rng.standard_normal((2, len(language)))
    found = []
    for system in (0, 1):
        truth = scenario.truth(system)
        difficulty, confusion = SHARED * shared + math.sqrt(1 - SHARED**2) * rng.standard_normal(shared.shape)
        edits = []
        for rate, numbers in (("cer", CHARACTERS), ("wer", WORDS)):
            levels = np.array([level_of(one, slope, rate == "wer") for one in truth[rate].tolist()])
            chances = chance(levels[language], slope, difficulty, CHARACTERS[place])
            errors = rng.binomial(numbers[place], chances)
            edits.append(Edits(errors, np.zeros_like(errors), np.zeros_like(errors), numbers[place]))
        limits = np.array([NormalDist().inv_cdf(share) for share in LID])
        is_right = confusion < limits[language]
        predicted = [names[own] if right else None for own, right in zip(language, is_right, strict=True)]
        found.append(
            Counts("plain", list(map(str, range(len(language)))), names, language, predicted, edits[0], edits[1])
        )
    return found


def figures(truth: Array, rate: str) -> dict[str, float]:
    """The true figures over languages, which have the same number of utterances."""
    worst, best = (min, max) if rate == "lid" else (max, min)
    mean = float(truth.mean())
    return {"worst": worst(truth), "best": best(truth), "mean": mean, "overall": mean}


def judged(scenario: Scenario, systems: list[Counts]) -> Iterator[tuple[str, bool]]:
    """The name of each interval, and whether it contains the truth."""
    first, difference = confidence_intervals(systems[0]), compare(systems[0], systems[1])
    for rate in RATES:
        ours, theirs = scenario.truth(0)[rate], scenario.truth(1)[rate]
        for place, name in enumerate(systems[0].languages):
            yield f"{rate} of a language", contains(first.languages[name][rate], ours[place])
            change = theirs[place] - ours[place]
            yield f"difference in {rate} of a language", contains(difference.languages[name][rate], change)
        before, after = figures(ours, rate), figures(theirs, rate)
        for figure, value in before.items():
            yield f"{figure} {rate}", contains(first.summary[f"{figure}_{rate}"], value)
            change = after[figure] - value
            yield f"difference in {figure} {rate}", contains(difference.summary[f"{figure}_{rate}"], change)


def contains(found: Interval | Difference, truth: float) -> bool:
    return found.low - 1e-12 <= truth <= found.high + 1e-12


def coverage(
    scenario: Scenario, slope: float, num_utterances: int, num_simulations: int, seed: int
) -> dict[str, float]:
    """The percentage of intervals that contain the truth, by name."""
    rng = np.random.default_rng([seed, num_utterances, SCENARIOS.index(scenario), int(slope)])
    hits: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for _ in range(num_simulations):
        for name, hit in judged(scenario, draw(scenario, slope, num_utterances, rng)):
            hits[name] += hit
            total[name] += 1
    return {name: 100 * hits[name] / number for name, number in total.items()}


def coverage_of_t_tests(num_simulations: int, seed: int) -> dict[str, float]:
    """The same for t-tests over pairs of seeds or languages."""
    rng = np.random.default_rng(seed)
    found = {}
    for number, name in ((2, "2 seeds"), (3, "3 seeds"), (5, "5 seeds"), (6, "6 languages")):
        draws = rng.normal(0.4, 0.05, (2, num_simulations, number))
        draws[1] += rng.normal(-0.02, 0.02, draws[1].shape)
        tests = [paired_t_test(*map(np.ndarray.tolist, pair)) for pair in draws.transpose(1, 0, 2)]
        found[f"mean difference over {name}"] = 100 * float(np.mean([one.low <= -0.02 <= one.high for one in tests]))
    return found


def main(num_simulations: int = 400, seed: int = 0, sizes: Sequence[int] = (20, 100, 300)) -> dict[str, ResultTable]:
    shapes = {
        f"{number}{skewed}": (number, slope) for slope, skewed in ((1.0, ""), (2.0, ", skewed")) for number in sizes
    }
    table = ResultTable("scenario", "interval", *shapes)
    for scenario in SCENARIOS:
        columns = [coverage(scenario, slope, number, num_simulations, seed) for number, slope in shapes.values()]
        for row in columns[0]:
            if not scenario.second or row.startswith("difference"):
                name = row.replace("cer", "CER").replace("wer", "WER").replace("lid", "LID")
                table.add(scenario.name, name, *(f"{column[row]:.1f}" for column in columns))
    tests = ResultTable("paired t-test", "coverage (%)")
    for name, covered in coverage_of_t_tests(max(num_simulations, 4000), seed).items():
        tests.add(name, f"{covered:.1f}")
    return {"interval-coverage": table, "t-test-coverage": tests}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--simulations", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    main(chosen.simulations, chosen.seed)
