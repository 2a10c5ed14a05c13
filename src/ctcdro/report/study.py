"""Which runs are of one method, what a method is called, and how it compares with the baseline.

Runs whose configurations differ only in the seed belong to one method; of several with the same seed, the first counts.
A method is compared with the baseline on the same test data. Each run is compared with the baseline's run of the same
seed, utterance by utterance, which shows the variation over test utterances. Over seeds, methods are compared with a
paired t-test, which shows the variation over training runs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain, count
from pathlib import Path
from typing import Any

from ..runs.config import by_key
from ..scoring.comparisons import Difference, compare
from ..scoring.intervals import Uncertainty
from ..scoring.seeds import RunMean, TTest, mean_over_runs, over_runs, paired_t_test
from .read_runs import Dataset, RunResult

OBJECTIVES = {
    "erm": "ERM",
    "group-dro": "Group DRO",
    "ctc-dro-unsmoothed": "CTC-DRO without smoothing",
    "ctc-dro": "CTC-DRO",
}
"""How objectives are shown, in the order in which they come."""

# What changes how a run is done, but not what it gives.
_WITHOUT_EFFECT = (
    "seed",
    "batches.num_workers",
    "training.trackers",
    "training.checkpoint_every",
    "training.keep_checkpoints",
)


@dataclass(frozen=True)
class MethodRuns:
    """Runs that differ only in their seed, and the name of the method."""

    name: str
    runs: list[RunResult]
    """One per seed."""
    repeated: list[RunResult] = field(default_factory=list)
    """Further runs of the same seeds, which count in no figure."""

    @property
    def first(self) -> RunResult:
        return self.runs[0]

    @property
    def seeds(self) -> list[int]:
        return [run.config.seed for run in self.runs]

    @property
    def objective(self) -> str:
        return self.first.config.objective.name

    @property
    def step_size(self) -> float | None:
        return None if self.objective == "erm" else self.first.config.objective.step_size

    @property
    def smoothing(self) -> float | None:
        return self.first.config.objective.smoothing if self.objective == "ctc-dro" else None

    def over_runs(self) -> dict[str, RunMean]:
        """Mean and deviation of the figures of `Scores.summary`."""
        return over_runs([run.scores for run in self.runs])

    def rates(self, rate: str) -> dict[str, RunMean]:
        """Mean and deviation of a rate of each language."""
        rates = [run.scores.rates(rate) for run in self.runs]
        means = {name: mean_over_runs([of_run.get(name) for of_run in rates]) for name in self.first.scores.languages}
        return {name: mean for name, mean in means.items() if mean is not None}


@dataclass(frozen=True)
class RunComparison:
    """A run less the baseline's run of the same seed."""

    run: RunResult
    against: RunResult
    found: Uncertainty[Difference]
    over_languages: TTest | None
    """Of the CER; None for a single language."""


@dataclass(frozen=True)
class SeedComparison:
    """A method less the baseline, over the seeds that both have."""

    method: MethodRuns
    against: MethodRuns
    figure: str
    """A name of `Scores.summary`."""
    seeds: list[int]
    test: TTest


@dataclass(frozen=True)
class Repetition:
    """A run with the configuration and seed of another."""

    run: RunResult
    counted: RunResult
    is_identical: bool
    """Whether both have the same predictions."""


@dataclass(frozen=True)
class Study:
    """All runs, by method, and how they are called."""

    methods: list[MethodRuns]
    labels: dict[str, str]
    """How runs are called, by their names."""
    baselines: dict[str, MethodRuns]
    """What methods are compared with, by their names; a baseline has none."""

    @property
    def runs(self) -> list[RunResult]:
        return [run for method in self.methods for run in method.runs]

    @property
    def repetitions(self) -> list[Repetition]:
        """Runs that are not counted, because another has the same configuration and seed."""
        return [
            Repetition(run, counted, run.predictions == counted.predictions)
            for method in self.methods
            for run in method.repeated
            for counted in [_by_seed(method)[run.config.seed]]
        ]

    def has_unequal_seeds(self, method: MethodRuns) -> bool:
        """Whether another method of the same test data has other seeds."""
        return any(one.seeds != method.seeds for one in self.methods if one.first.test_data == method.first.test_data)

    @property
    def test_sets(self) -> list[list[MethodRuns]]:
        """Methods that were tested on the same data, together."""
        found: dict[int, list[MethodRuns]] = {}
        for method in self.methods:
            found.setdefault(method.first.test_data, []).append(method)
        return list(found.values())

    @property
    def datasets(self) -> dict[str, Dataset]:
        """Datasets whose training utterances are known, by names for files and anchors."""
        found = {run.dataset.path: run.dataset for run in self.runs if run.dataset.durations}
        return dict(zip(slugs(dataset.name for dataset in found.values()), found.values(), strict=True))

    def label(self, run: RunResult) -> str:
        return self.labels[run.name]

    def pairs(self, method: MethodRuns) -> list[tuple[RunResult, RunResult]]:
        """Runs of a method, each with the baseline's run of the same seed, or with its first run if there is none."""
        if method.name not in self.baselines:
            return []
        baseline = self.baselines[method.name]
        by_seed = _by_seed(baseline)
        return [(run, by_seed.get(run.config.seed, baseline.first)) for run in method.runs]


def make_study(runs: Sequence[RunResult], baseline: str | None = None) -> Study:
    """Puts runs together by method, and settles what each is compared with.

    Args:
        runs: at least one.
        baseline: the name or folder of a run, or an objective; by default `erm` if there is such a run, else the first.

    Raises:
        ValueError: if there is no such baseline.
    """
    grouped: dict[str, list[RunResult]] = {}
    for run in runs:
        grouped.setdefault(_method_key(run), []).append(run)
    groups = sorted((sorted(own, key=lambda run: run.config.seed) for own in grouped.values()), key=_order_of(runs))
    methods = [_method(name, own) for name, own in zip(_method_names(groups), groups, strict=True)]
    return Study(methods, _labels(methods), _baselines(methods, baseline))


def _method(name: str, runs: Sequence[RunResult]) -> MethodRuns:
    """Counts the first run of each seed."""
    counted: dict[int, RunResult] = {}
    repeated = []
    for run in runs:
        if run.config.seed in counted:
            repeated.append(run)
        else:
            counted[run.config.seed] = run
    return MethodRuns(name, list(counted.values()), repeated)


def _order_of(runs: Sequence[RunResult]) -> Callable[[Sequence[RunResult]], tuple[int, int, int]]:
    """Data and encoders in the order they came, as the paper's tables have them, then objectives."""
    data = list(dict.fromkeys(run.test_data for run in runs))
    encoders = list(dict.fromkeys(run.config.model.encoder for run in runs))
    objectives = [*OBJECTIVES, *(run.config.objective.name for run in runs)]

    def order(own: Sequence[RunResult]) -> tuple[int, int, int]:
        first = own[0]
        return (
            data.index(first.test_data),
            encoders.index(first.config.model.encoder),
            objectives.index(first.config.objective.name),
        )

    return order


def flat_config(run: RunResult) -> dict[str, Any]:
    """The configuration of a run by keys, as `objective.step_size`; what its objective does not use is None."""
    values = dict(by_key(run.config.model_dump(mode="json")))
    name = run.config.objective.name
    if name == "erm":
        values["objective.step_size"] = None
    if name != "ctc-dro":
        values["objective.smoothing"] = None
    if values.get("batches.sampler") == "length-matched":
        values["batches.batch_size"] = None
    return values


def _method_key(run: RunResult) -> str:
    values = {key: value for key, value in flat_config(run).items() if key not in _WITHOUT_EFFECT}
    return json.dumps([values, run.test_data], sort_keys=True)


def _method_names(groups: Sequence[Sequence[RunResult]]) -> list[str]:
    """Objectives, with the settings that it takes to tell those apart which have the same."""
    first = [own[0] for own in groups]
    names = [OBJECTIVES.get(run.config.objective.name, run.config.objective.name) for run in first]
    for objective in {run.config.objective.name for run in first}:
        alike = [place for place, run in enumerate(first) if run.config.objective.name == objective]
        configs = {place: flat_config(first[place]) for place in alike}
        # What is in the tables anyway comes first.
        keys = sorted(configs[alike[0]], key=lambda key: key not in ("dataset", "model.encoder"))
        for key in (key for key in keys if key not in _WITHOUT_EFFECT):
            settings = {place: _setting(key, configs[place].get(key), first[place]) for place in alike}
            longer = {place: f"{names[place]}, {settings[place]}" for place in alike}
            if len(set(longer.values())) > len({names[place] for place in alike}):
                names = [longer.get(place, name) for place, name in enumerate(names)]
    if len(set(names)) < len(names):
        return [f"{name} ({run.name})" for name, run in zip(names, first, strict=True)]
    return names


def _setting(key: str, value: Any, run: RunResult) -> str:
    """A setting in a name: data and encoders by their own names, others with what they are."""
    if key in ("dataset", "model.encoder"):
        return run.data_name if key == "dataset" else run.model_name
    shown = f"{value:g}" if isinstance(value, float) else str(value)
    return f"{key.rpartition('.')[2].replace('_', ' ')} {shown}"


def _labels(methods: Sequence[MethodRuns]) -> dict[str, str]:
    labels = {}
    is_seed_told = any(len(method.runs) > 1 for method in methods)
    for method in methods:
        for run in method.runs:
            labels[run.name] = f"{method.name}, seed {run.config.seed}" if is_seed_told else method.name
    return labels


def _baselines(methods: Sequence[MethodRuns], wanted: str | None) -> dict[str, MethodRuns]:
    candidates = _wanted(methods, wanted)
    found = {}
    for method in methods:
        alike = [one for one in candidates if one.first.test_data == method.first.test_data]
        if alike and method not in candidates:
            found[method.name] = min(alike, key=lambda one: _num_differences(one, method))
    return found


def _wanted(methods: Sequence[MethodRuns], wanted: str | None) -> list[MethodRuns]:
    if wanted is None:
        return [method for method in methods if method.objective == "erm"] or list(methods[:1])
    named = [
        method
        for method in methods
        if method.objective == wanted
        or any(
            wanted == run.name or Path(wanted).resolve() == run.path.resolve()
            for run in (*method.runs, *method.repeated)
        )
    ]
    if not named:
        names = ", ".join(run.name for method in methods for run in method.runs)
        raise ValueError(
            f"`baseline` must be one of the runs ({names}), or an objective that one of them has "
            f"({', '.join(sorted({method.objective for method in methods}))}); got {wanted!r}."
        )
    return named


def _num_differences(one: MethodRuns, other: MethodRuns) -> int:
    """In how many settings two methods differ, so that a method is compared with what is most like it."""
    ours, theirs = flat_config(one.first), flat_config(other.first)
    return sum(ours.get(key) != theirs.get(key) for key in {**ours, **theirs})


def compare_runs(study: Study) -> list[RunComparison]:
    """Each run against the baseline's run of the same seed, utterance by utterance."""
    found = []
    for method in study.methods:
        for run, against in study.pairs(method):
            ours, theirs = against.scores.rates("cer"), run.scores.rates("cer")
            test = paired_t_test(list(ours.values()), list(theirs.values())) if len(ours) > 1 else None
            compared = compare(against.counts, run.counts)
            found.append(RunComparison(run, against, compared, test))
    return found


def compare_seeds(study: Study) -> list[SeedComparison]:
    """The paired t-test over seeds of each method against its baseline; of methods that share two seeds or more."""
    found = []
    for method in study.methods:
        against = study.baselines.get(method.name)
        if against is None:
            continue
        ours, theirs = _by_seed(against), _by_seed(method)
        seeds = sorted(set(ours) & set(theirs))
        if len(seeds) < 2:
            continue
        for figure in ("worst_cer", "mean_cer", "best_cer", "mean_lid"):
            first = [ours[seed].scores.summary()[figure] for seed in seeds]
            second = [theirs[seed].scores.summary()[figure] for seed in seeds]
            there = [(a, b) for a, b in zip(first, second, strict=True) if a is not None and b is not None]
            if len(there) == len(seeds):
                test = paired_t_test([a for a, _ in there], [b for _, b in there])
                found.append(SeedComparison(method, against, figure, seeds, test))
    return found


def _by_seed(method: MethodRuns) -> dict[int, RunResult]:
    return {run.config.seed: run for run in method.runs}


def slugs(texts: Iterable[str]) -> list[str]:
    """Names for files and anchors; where they would be equal, further ones have a number.

    Example:
        >>> slugs(["CTC-DRO, step size 0.001", "data", "Data"])
        ['ctc-dro-step-size-0-001', 'data', 'data-2']
    """
    found: dict[str, None] = {}
    for text in texts:
        plain = "-".join("".join(one if one.isalnum() else " " for one in text.lower()).split())
        numbered = (f"{plain}-{number}" for number in count(2))
        found[next(name for name in chain([plain], numbered) if name not in found)] = None
    return list(found)
