"""Groups runs by method, and chooses names and baselines of the methods.

Runs whose configurations differ only in the seed belong to one method; among several with the same seed, only the first
counts. A method is compared with the most similar baseline on the same test data.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, count
from pathlib import Path
from typing import Any

import numpy as np

from ..objectives.methods import METHODS
from ..runs.parsing import describe_settings
from ..scoring.edits import Integers
from ..scoring.scores import NO_LANGUAGE
from ..scoring.seeds import RunMean, mean_over_runs, over_runs
from .read_runs import RunResult

# Settings that do not change the results of a run.
_WITHOUT_EFFECT = (
    "seed",
    "label",
    "data.num_workers",
    "model.feature_cache_dir",
    "training.trackers",
    "training.checkpoint_every_steps",
    "training.keep_checkpoints",
    "training.log_every_steps",
)


@dataclass(frozen=True)
class ConfusionMatrix:
    spoken: list[str]
    recognized: list[str]
    counts: Integers
    """(spoken, recognized) number of utterances."""


@dataclass(frozen=True)
class MethodRuns:
    """A method: runs that differ only in their seed."""

    name: str
    runs: list[RunResult]
    """One per seed."""
    repeated: list[RunResult] = field(default_factory=list)
    """Further runs with the same seeds, which do not count."""

    @property
    def first(self) -> RunResult:
        return self.runs[0]

    @property
    def seeds(self) -> list[int]:
        return [run.config.seed for run in self.runs]

    @property
    def objective(self) -> str:
        return self.first.config.objective.name

    def by_seed(self) -> dict[int, RunResult]:
        return dict(zip(self.seeds, self.runs, strict=True))

    def setting(self, name: str) -> Any:
        """A setting of the objective, such as "step_size"; None if the method does not use it."""
        return self.first.config.objective.settings.get(name)

    def over_runs(self) -> dict[str, RunMean]:
        return over_runs([run.scores for run in self.runs])

    @cached_property
    def cer(self) -> dict[str, RunMean]:
        rates = [run.scores.rates("cer") for run in self.runs]
        means = {name: mean_over_runs([of_run.get(name) for of_run in rates]) for name in self.first.scores.languages}
        return {name: mean for name, mean in means.items() if mean is not None}

    def confusion(self) -> ConfusionMatrix:
        """The sum of the confusions of all runs. The last column is for hypotheses without a language."""
        total: dict[str, Counter[str]] = {}
        for run in self.runs:
            for spoken, recognized in run.scores.confusion.items():
                total.setdefault(spoken, Counter()).update(recognized)
        others = {name for row in total.values() for name in row} - set(total)
        columns = [*total, *sorted(others, key=lambda name: (name == NO_LANGUAGE, name))]
        return ConfusionMatrix(
            list(total), columns, np.array([[row[name] for name in columns] for row in total.values()])
        )


@dataclass(frozen=True)
class Study:
    methods: list[MethodRuns]
    labels: dict[str, str]
    """By names of runs."""
    baselines: dict[str, MethodRuns]
    """By names of methods; a baseline has none."""

    @property
    def runs(self) -> list[RunResult]:
        return [run for method in self.methods for run in method.runs]

    @property
    def repetitions(self) -> list[tuple[RunResult, RunResult]]:
        """Runs that do not count, each with the run that has the same configuration and seed."""
        return [(run, method.by_seed()[run.config.seed]) for method in self.methods for run in method.repeated]

    def has_unequal_seeds(self, method: MethodRuns) -> bool:
        """Whether another method on the same test data has other seeds."""
        data = method.first.test_data
        return any(other.seeds != method.seeds for other in self.methods if other.first.test_data == data)

    def changes(self, method: MethodRuns) -> str:
        """The settings in which a method differs from its baseline, except those that have columns in tables."""
        if (baseline := self.baselines.get(method.name)) is None:
            return ""
        tuned = {f"objective.{name}" for known in METHODS.values() for name in known.tuned}
        shown = {"dataset", "model.encoder", "objective.name", *tuned, *_WITHOUT_EFFECT}
        keys = differing_settings([baseline.first, method.first])
        return _describe(method.first, [key for key in keys if key not in shown])

    @property
    def seeds_note(self) -> str:
        """A sentence for tables and figures if methods have different seeds."""
        if not any(map(self.has_unequal_seeds, self.methods)):
            return ""
        return "Methods have different seeds, so their means are over different runs; Significance uses shared seeds."

    @property
    def test_sets(self) -> list[list[MethodRuns]]:
        """Methods grouped by test data."""
        groups: dict[int, list[MethodRuns]] = {}
        for method in self.methods:
            groups.setdefault(method.first.test_data, []).append(method)
        return list(groups.values())

    def label(self, run: RunResult) -> str:
        return self.labels[run.name]


def make_study(runs: Sequence[RunResult], baseline: str | None = None) -> Study:
    """Groups runs by method, and selects baselines. `baseline` is the name or folder of a run, or an objective."""
    grouped: dict[str, list[RunResult]] = {}
    for run in runs:
        grouped.setdefault(json.dumps([_settings(run), run.test_data], sort_keys=True), []).append(run)
    # Sorted by data and encoders, in the given order, then by objective.
    data = [run.test_data for run in runs]
    encoders = [run.config.model.encoder for run in runs]
    groups = sorted(
        (sorted(group, key=lambda run: run.config.seed) for group in grouped.values()),
        key=lambda group: (
            data.index(group[0].test_data),
            encoders.index(group[0].config.model.encoder),
            list(METHODS).index(group[0].config.objective.name),
        ),
    )
    methods = [_count_seeds_once(*item) for item in zip(_method_names(groups), groups, strict=True)]
    return Study(methods, _labels(methods), _baselines(methods, baseline))


def _count_seeds_once(name: str, runs: Sequence[RunResult]) -> MethodRuns:
    first = {run.config.seed: run for run in reversed(runs)}
    repeated = [run for run in runs if run is not first[run.config.seed]]
    return MethodRuns(name, [run for run in runs if run is first[run.config.seed]], repeated)


def differing_settings(runs: Sequence[RunResult]) -> list[str]:
    """The keys whose values differ between runs; None stands for a value without effect."""
    configs = [run.config.effective_values() for run in runs]
    keys = dict.fromkeys(key for config in configs for key in config)
    return [key for key in keys if any(config.get(key) != configs[0].get(key) for config in configs)]


def _settings(run: RunResult) -> dict[str, Any]:
    values = run.config.effective_values()
    values["objective.baseline"] = values["objective.baseline"] is not None  # each seed may have its own
    return {key: value for key, value in values.items() if key not in _WITHOUT_EFFECT}


def _method_names(groups: Sequence[Sequence[RunResult]]) -> list[str]:
    """Labels or titles of objectives, with all settings in which methods with the same name differ."""
    first = [group[0] for group in groups]
    names = {group[0].name: _label(group) for group in groups}
    for show in (_dataset, _model, None):  # data and models, which have columns in the tables, come first
        for name in set(names.values()):
            alike = [run for run in first if names[run.name] == name]
            differing = [key for key in differing_settings(alike) if key not in _WITHOUT_EFFECT]
            added = {run.name: show(run) if show else _describe(run, differing) for run in alike}
            if len(set(added.values())) > 1:
                names |= {run: ", ".join(filter(None, [name, text])) for run, text in added.items()}
    if len(set(names.values())) < len(names):
        return [f"{names[run.name]} ({run.name})" for run in first]
    return list(names.values())


def _label(runs: Sequence[RunResult]) -> str:
    return next((run.config.label for run in runs if run.config.label), runs[0].config.method)


def _dataset(run: RunResult) -> str:
    return run.dataset.name


def _model(run: RunResult) -> str:
    return run.model_name


def _describe(run: RunResult, keys: Sequence[str]) -> str:
    values = run.config.effective_values()
    if values["objective.baseline"] is not None:
        values["objective.baseline"] = Path(values["objective.baseline"]).name  # the path is long, and private
    return describe_settings({key: values.get(key) for key in keys})


def _labels(methods: Sequence[MethodRuns]) -> dict[str, str]:
    with_seed = any(len(method.runs) > 1 for method in methods)
    return {
        run.name: f"{method.name}, seed {run.config.seed}" if with_seed else method.name
        for method in methods
        for run in method.runs
    }


def _baselines(methods: Sequence[MethodRuns], wanted: str | None) -> dict[str, MethodRuns]:
    candidates = _select_baselines(methods, wanted)
    baselines = {}
    for method in methods:
        alike = [other for other in candidates if other.first.test_data == method.first.test_data]
        if alike and method not in candidates:
            differences = [len(differing_settings([other.first, method.first])) for other in alike]
            baselines[method.name] = alike[differences.index(min(differences))]
    return baselines


def _select_baselines(methods: Sequence[MethodRuns], wanted: str | None) -> list[MethodRuns]:
    if wanted is None:
        return [method for method in methods if method.objective == "erm"] or list(methods[:1])

    def is_wanted(run: RunResult) -> bool:
        names = (run.config.objective.name, run.name)
        return wanted in names or Path(wanted).resolve() == run.path.resolve()

    selected = [method for method in methods if any(map(is_wanted, (*method.runs, *method.repeated)))]
    if not selected:
        names = ", ".join(run.name for method in methods for run in method.runs)
        raise ValueError(
            f"--baseline (`baseline` in Python) must be a run ({names}) or the objective of a run "
            f"({', '.join(sorted({method.objective for method in methods}))}); got {wanted!r}."
        )
    return selected


def slugs(texts: Iterable[str]) -> list[str]:
    """Unique names for files and anchors; duplicates are numbered."""
    unique: dict[str, None] = {}
    for text in texts:
        plain = "-".join("".join(letter if letter.isalnum() else " " for letter in text.lower()).split())
        numbered = (f"{plain}-{number}" for number in count(2))
        unique[next(name for name in chain([plain], numbered) if name not in unique)] = None
    return list(unique)
