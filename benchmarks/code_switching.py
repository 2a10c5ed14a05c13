"""Do soft labels help utterances that switch between languages? benchmarks/code_switching.py runs/soft runs/hard

Compares two sweeps of the recipe `study/code-switching`, with soft and with hard labels in training. Test utterances
have the shares of their languages in both. Prints the CER of mixed and of other utterances, the change from the
baseline with hard labels, and the change from hard to soft labels, with intervals over seeds (paired t-test).
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from measuring import ResultTable

from ctcdro.objectives.methods import METHODS
from ctcdro.runs.config import read_config
from ctcdro.runs.folder import RunFolder
from ctcdro.scoring.scores import count
from ctcdro.scoring.seeds import paired_t_test
from ctcdro.scoring.transcripts import read_predictions

Rates = dict[str, float]
"""CER in percent: by language of utterances in one language, `worst` and `mean` of these, by mixture, and `mixed`."""

BASELINE = "erm"


def rates_of(run: Path) -> Rates:
    """The CER of the test utterances of a run."""
    predictions = read_predictions(RunFolder(run).predictions("test"))
    edits = count(predictions).characters
    names = np.array(["+".join(sorted(one.languages)) for one in predictions])

    def cer(selected: np.ndarray) -> float:
        return float(100 * edits.total[selected].sum() / edits.reference[selected].sum())

    rates = {str(name): cer(names == name) for name in np.unique(names)}
    alone = [rate for name, rate in rates.items() if "+" not in name]
    return rates | {"mixed": cer(np.char.find(names, "+") >= 0), "worst": max(alone), "mean": sum(alone) / len(alone)}


def read_sweep(folder: Path) -> dict[str, dict[int, Rates]]:
    """The rates of all scored runs, by objective and seed."""
    rates: dict[str, dict[int, Rates]] = {}
    for run in sorted((folder / "runs").iterdir()):
        if RunFolder(run).scores("test").exists():
            config = read_config(RunFolder(run).config)
            rates.setdefault(config.objective.name, {})[config.seed] = rates_of(run)
    return rates


def describe(before: Mapping[int, Rates], after: Mapping[int, Rates], name: str) -> str:
    """The mean change over the seeds of both, with its interval."""
    seeds = sorted(set(before) & set(after))
    if len(seeds) < 2:
        return "–"
    test = paired_t_test([before[seed][name] for seed in seeds], [after[seed][name] for seed in seeds])
    return f"{test.value:+.1f} ({test.low:+.1f} to {test.high:+.1f})".replace("-", "−")


def main(soft: Path, hard: Path) -> dict[str, ResultTable]:
    sweeps = {"hard": read_sweep(hard), "soft": read_sweep(soft)}
    first = next(iter(sweeps["hard"][BASELINE].values()))
    names = [
        "mixed",
        *(name for name in first if "+" in name),
        "worst",
        "mean",
        *(one for one in first if len(one) == 3),
    ]
    rates = ResultTable("method", "labels", "seeds", *names)
    changes = ResultTable("method", "labels", "compared with", *names)
    for method in sweeps["hard"]:
        title = METHODS[method].title
        for labels, found in sweeps.items():
            runs = found.get(method, {})
            means = (f"{np.mean([one[name] for one in runs.values()]):.1f}" for name in names)
            rates.add(title, labels, f"{len(runs)}", *(means if runs else ["–"] * len(names)))
            baseline = sweeps["hard"][BASELINE]
            if (method, labels) != (BASELINE, "hard"):
                cells = [describe(baseline, runs, name) for name in names]
                changes.add(title, labels, "baseline, hard", *cells)
        before, after = sweeps["hard"][method], sweeps["soft"].get(method, {})
        changes.add(title, "soft", "same, hard", *(describe(before, after, name) for name in names))
    return {"code-switching": rates, "code-switching-changes": changes}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("soft", type=Path, help="sweep with soft labels")
    parser.add_argument("hard", type=Path, help="sweep with hard labels")
    chosen = parser.parse_args()
    main(chosen.soft, chosen.hard)
