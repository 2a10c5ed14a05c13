"""CER by a field of the test manifest, such as languages that training did not see. Prints a row for docs/results.json.

    .venv/bin/python benchmarks/strata.py SWEEP --test data/hidden/test.jsonl --by language

The sweep has one setting and several seeds.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from ctcdro import Manifest
from ctcdro.runs.folder import RunFolder
from ctcdro.scoring.scores import Scores, score
from ctcdro.scoring.transcripts import read_predictions


def score_strata(run: Path, stratum_of: dict[str, str]) -> Scores:
    """The scores of a run on test, with strata in place of languages."""
    predictions = read_predictions(RunFolder(run).predictions("test"))
    return score(replace(one, lang=stratum_of[one.id], lang_shares=None) for one in predictions)


def summarize(runs: list[Path], stratum_of: dict[str, str]) -> dict[str, Any]:
    """Worst and mean CER over strata, and that of each stratum, in percent, one value per run."""
    scores = [score_strata(run, stratum_of) for run in runs]
    rates = [one.rates("cer") for one in scores]
    return {
        "worst": [round(100 * max(one.values()), 3) for one in rates],
        "mean": [round(100 * sum(one.values()) / len(one), 3) for one in rates],
        "languages": {name: [round(100 * one[name], 3) for one in rates] for name in rates[0]},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sweep", type=Path, help="folder of a sweep")
    parser.add_argument("--test", type=Path, required=True, help="test manifest")
    parser.add_argument("--by", required=True, help="field of the test manifest")
    options = parser.parse_args()
    stratum_of = {str(one.id): str(one.value(options.by)) for one in Manifest.read(options.test)}
    runs = sorted(path.parents[1] for path in options.sweep.glob("runs/*/predictions/test.jsonl"))
    print(json.dumps(summarize(runs, stratum_of), ensure_ascii=False))


if __name__ == "__main__":
    main()
