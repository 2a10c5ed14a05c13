"""Does the search for subgroups raise false alarms, and does it find what is there? benchmarks/subgroup_search.py

Test sets have four languages with different rates, six speakers per language, two corpora, three durations and three
levels of noise. The error rate of an utterance varies around that of its language. Without an effect, any subgroup that
the search finds is a false alarm. With one, noisy utterances of one language have a higher error rate; they are a
twelfth of the data. A case counts as found if the first subgroup is exactly this one.
"""

from __future__ import annotations

import argparse

import numpy as np
from measuring import ResultTable

from ctcdro.scoring.subgroups import SubgroupSearch, find_subgroups

RATES = np.array([0.05, 0.15, 0.3, 0.5])
WORST = 2
DURATIONS, LEVELS = ("short", "medium", "long"), ("quiet", "medium", "noisy")


def simulate(num_utterances: int, excess: float, rng: np.random.Generator) -> SubgroupSearch:
    language, corpus, noise = (rng.integers(number, size=num_utterances) for number in (len(RATES), 2, 3))
    speaker = language * 6 + rng.integers(6, size=num_utterances)
    lengths = rng.integers(5, 90, num_utterances)
    duration = np.digitize(lengths / rng.uniform(10, 16, num_utterances), [2.0, 4.0])
    rates = RATES[language] * rng.gamma(3.0, 1 / 3, num_utterances)
    rates = rates + excess * ((language == WORST) & (noise == 2))
    edits = rng.binomial(lengths, np.clip(rates, 0, 1))
    attributes = {
        "language": list(map(str, language)),
        "corpus": list(map(str, corpus)),
        "speaker": list(map(str, speaker)),
        "duration": [DURATIONS[number] for number in duration],
        "noise": [LEVELS[number] for number in noise],
    }
    return find_subgroups(edits.astype(np.float64), lengths.astype(np.float64), language, attributes)


def main(simulations: int = 100, seed: int = 0) -> dict[str, ResultTable]:
    table = ResultTable("utterances", "excess", "anything found", "planted subgroup found first", "in its interval")
    planted = {"language": str(WORST), "noise": "noisy"}
    for num_utterances in (500, 2000):
        for excess in (0.0, 0.05, 0.1, 0.2):
            rng = np.random.default_rng([seed, num_utterances, round(100 * excess)])
            searches = [simulate(num_utterances, excess, rng) for _ in range(simulations)]
            first = [search.found[0] for search in searches if search.found]
            right = [one for one in first if one.conditions == planted]
            # The rest of the language has two thirds of its characters, and no excess.
            within = sum(one.excess.low <= 2 / 3 * excess <= one.excess.high for one in right)
            shares = [len(first) / simulations, len(right) / simulations, within / len(right) if right else None]
            if not excess:
                shares[1:] = [None, None]
            cells = ["–" if share is None else f"{share:.0%}" for share in shares]
            table.add(f"{num_utterances:,}", f"{100 * excess:.0f} points", *cells)
    return {"subgroup-search": table}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--simulations", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    main(chosen.simulations, chosen.seed)
