"""Comparisons with the baseline: over test utterances for each run, and over seeds for each method."""

from __future__ import annotations

from dataclasses import dataclass

from ..scoring.comparisons import Difference, compare
from ..scoring.intervals import Uncertainty
from ..scoring.seeds import TTest, paired_t_test, t_test_over_languages
from .read_runs import RunResult
from .study import MethodRuns, Study


@dataclass(frozen=True)
class RunComparison:
    """A run minus the baseline's run of the same seed, or minus its first run if it has no such seed."""

    run: RunResult
    against: RunResult
    differences: Uncertainty[Difference]
    over_languages: TTest | None
    """Of the CER; None for a single language."""


@dataclass(frozen=True)
class SeedComparison:
    """A method minus the baseline, over the seeds that both have."""

    method: MethodRuns
    against: MethodRuns
    figure: str
    """A name of `Scores.summary`."""
    seeds: list[int]
    test: TTest


def compare_runs(study: Study) -> list[RunComparison]:
    """Compares each run with the baseline, utterance by utterance: the variation over test utterances."""
    comparisons = []
    for method in study.methods:
        if (baseline := study.baselines.get(method.name)) is not None:
            for run in method.runs:
                against = baseline.by_seed().get(run.config.seed, baseline.first)
                test = t_test_over_languages(against.scores, run.scores)
                comparisons.append(RunComparison(run, against, compare(against.counts, run.counts), test))
    return comparisons


def compare_seeds(study: Study) -> list[SeedComparison]:
    """Tests each method that shares two or more seeds with its baseline: the variation over training runs."""
    comparisons = []
    for method in study.methods:
        if (baseline := study.baselines.get(method.name)) is None:
            continue
        first, second = baseline.by_seed(), method.by_seed()
        seeds = sorted(set(first) & set(second))
        for figure in ("worst_cer", "mean_cer", "best_cer", "mean_lid"):
            values = [[runs[seed].scores.summary()[figure] for seed in seeds] for runs in (first, second)]
            before, after = ([value for value in of_method if value is not None] for of_method in values)
            if len(seeds) > 1 and [before, after] == values:
                comparisons.append(SeedComparison(method, baseline, figure, seeds, paired_t_test(before, after)))
    return comparisons
