"""The configuration of a sweep: a run, and the settings of each objective to try on it.

A file that describes only a run is swept over the paper's settings. The same configuration always gives the same
settings in the same order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product
from typing import Annotated, Any, Literal

from ..objectives.methods import METHODS, all_settings
from ..runtime.extras import extra
from ..storage.paths import PathLike

with extra("sweep", "A sweep"):
    from pydantic import Field

    from ..runs.config import SAMPLER_KEYS, Config, MethodName, join_words, parse_config
    from ..runs.parsing import Section, add_fields, by_key, parse_section, read_values, set_key

BASELINE = "erm"

# The tuned settings of all methods, and the key of a sweep that lists the values of each, such as `step_sizes`.
TUNED = {setting.name: setting for method in METHODS.values() for setting in method.settings[: method.num_tuned]}
AXES = {name: f"{name}s" for name in TUNED}
PAPER_VALUES = {"step_size": (1e-3, 1e-4), "smoothing": (0.1, 0.5, 1.0)}

# Keys of a run that the sweep sets, and the key to use instead.
SET_BY_SWEEP = {
    "dataset": "run.dataset",
    "seed": "seeds",
    "objective.name": "objectives",
    **{f"objective.{name}": axis for name, axis in AXES.items()},
}


def _needed_by(name: str) -> str:
    return join_words([f"`{method.name}`" for method in METHODS.values() if name in method.tuned], "and")


@add_fields(
    **{
        name: (
            float | None,
            Field(
                None,
                ge=setting.at_least,
                description=f"Value of `objective.{name}`. Required for {_needed_by(name)}, and rejected for others.",
            ),
        )
        for name, setting in TUNED.items()
    }
)
class SweepSetting(Section):
    """A setting to train: an objective, with values for its tuned settings."""

    objective: MethodName
    """Name of the objective."""

    def problems(self) -> Iterator[str]:
        tuned = METHODS[self.objective].tuned
        for key in AXES:
            if getattr(self, key) is None and key in tuned:
                yield f"{key}: missing; {self.objective} requires it"
            if getattr(self, key) is not None and key not in tuned:
                yield f"{key}: {self.objective} does not take it; remove it"

    @property
    def values(self) -> dict[str, float]:
        """The tuned settings, in the order in which names and tables show them."""
        return {key: getattr(self, key) for key in METHODS[self.objective].tuned}

    @property
    def name(self) -> str:
        """Name in run folders, such as "ctc-dro-0.001-0.5"."""
        return "-".join([self.objective, *(repr(value).removesuffix(".0") for value in self.values.values())])


@add_fields(
    **{
        AXES[name]: (
            tuple[Annotated[float, Field(gt=0)], ...],
            Field(
                PAPER_VALUES.get(name, (setting.default,)),
                description=f"Values of `objective.{name}` to try with {_needed_by(name)}.",
            ),
        )
        for name, setting in TUNED.items()
    }
)
class SweepConfig(Section):
    """The configuration of a sweep."""

    run: Config
    """Configuration of a run, with the keys of a file for `ctcdro train`. The sweep sets its seed, and the name, step
    size and smoothing of its objective."""
    objectives: tuple[MethodName, ...] = ("erm", "group-dro", "ctc-dro")
    """Objectives to compare, each with all combinations of `step_sizes` and `smoothings` that it takes. `erm` is the
    baseline."""
    settings: tuple[SweepSetting, ...] | None = Field(
        None, examples=[[{"objective": "erm"}, {"objective": "ctc-dro", "step_size": 1e-3, "smoothing": 0.5}]]
    )
    """Explicit list of settings to train. null: all combinations of objectives and values."""
    seeds: tuple[Annotated[int, Field(ge=0)], ...] = (0,)
    """Seeds with which every setting is trained. Settings are selected by their means over seeds."""
    overrides: dict[MethodName, dict[str, Any]] = Field(default_factory=dict)
    """Keys of `run` that differ for one objective, such as `group-dro: {sampling.sampler: group-uniform}`."""
    scoring: Literal["plain", "ml-superb2", "paper"] = "plain"
    """Scoring rules. `plain`: all edits of a language divided by all its characters. `ml-superb2`: those of the
    ML-SUPERB 2.0 challenge. `paper`: those of the authors' scripts."""

    def problems(self) -> Iterator[str]:
        for key in ("objectives", *AXES.values(), "settings", "seeds"):
            values = getattr(self, key)
            if values is not None and not values:
                yield f"{key}: must not be empty"
            if values is not None and len(set(values)) < len(values):
                yield f"{key}: contains a duplicate; remove it"
        for objective in self.overrides:
            try:
                self._run(objective)  # also for objectives that are not tried
            except ValueError as error:
                yield from str(error).splitlines()

    def notes(self) -> Iterator[str]:
        objectives = dict.fromkeys(setting.objective for setting in self.grid())
        yield from dict.fromkeys(f"run.{note}" for objective in objectives for note in self._run(objective).notes())

    def grid(self) -> list[SweepSetting]:
        """All settings, the objectives in the order given."""
        if self.settings is not None:
            return list(self.settings)
        return [
            SweepSetting(objective=objective, **dict(zip(METHODS[objective].tuned, values, strict=True)))
            for objective in self.objectives
            for values in product(*(getattr(self, AXES[key]) for key in METHODS[objective].tuned))
        ]

    def config(self, setting: SweepSetting, seed: int) -> Config:
        """The configuration of one run."""
        run = self._run(setting.objective)
        objective = run.objective.model_copy(update=setting.values)
        return run.model_copy(update={"seed": seed, "objective": objective})

    def _run(self, objective: str) -> Config:
        """The run of an objective, with its overrides and without the settings that it or its sampler do not take."""
        source = f"overrides.{objective}"
        values = self.run.model_dump(mode="json")
        values["objective"]["name"] = objective
        for name in all_settings():
            if not METHODS[objective].takes(name):
                del values["objective"][name]
        given = dict(by_key(self.overrides.get(objective, {})))
        sampler = str(given.get("sampling.sampler", self.run.sampling.sampler))
        used = ("sampler", *SAMPLER_KEYS.get(sampler, ()))
        values["sampling"] = {key: value for key, value in values["sampling"].items() if key in used}
        for key, value in given.items():
            if key in SET_BY_SWEEP:
                raise ValueError(f"{source}: {key}: set by the sweep; use `{SET_BY_SWEEP[key]}` instead.")
            set_key(values, key, value, source)
        return parse_config(values, source=source)


def read_sweep(path: PathLike, overrides: Iterable[str] = ()) -> SweepConfig:
    """Reads the YAML file of a sweep, or of a run; `overrides` change it, such as "run.training.num_batches=400"."""
    return parse_sweep(read_values(path), overrides, source=str(path))


def parse_sweep(values: dict[str, Any], overrides: Iterable[str] = (), source: str = "configuration") -> SweepConfig:
    """Creates a sweep from keys and values; `read_sweep` creates one from a file."""
    return parse_section(SweepConfig, values if is_sweep(values) else {"run": values}, overrides, source)


def is_sweep(values: dict[str, Any]) -> bool:
    """Whether values describe a sweep, not a run."""
    return not set(values).isdisjoint(SweepConfig.model_fields)
