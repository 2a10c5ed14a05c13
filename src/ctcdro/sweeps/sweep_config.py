"""A sweep, described by one YAML file: a run, and the settings of objectives to try on it.

    run: {dataset: set1, model: {encoder: facebook/wav2vec2-xls-r-300m}}
    objectives: [erm, group-dro, ctc-dro]
    step_sizes: [1e-3, 1e-4]
    smoothings: [0.1, 0.5, 1]
    seeds: [0, 1]

A file that describes a run alone is a sweep, too: over the paper's settings. Errors have the path of the key, as those
of `config`. The same description always gives the same settings, in the same order.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Annotated, Any, Literal

from ..runtime.extras import extra
from ..storage.paths import PathLike

with extra("sweep", "A sweep"):
    from pydantic import Field, model_validator

    from ..runs.config import Config, parse_config
    from ..runs.parsing import Section, by_key, parse_section, read_values

BASELINE = "erm"

ObjectiveName = Literal["erm", "group-dro", "ctc-dro-unsmoothed", "ctc-dro"]

# What each objective has to be tuned.
HAS_STEP_SIZE = ("group-dro", "ctc-dro-unsmoothed", "ctc-dro")
HAS_SMOOTHING = ("ctc-dro",)

# What `overrides` cannot change, since the sweep gives it to runs, and what does instead.
OF_THE_SWEEP = {
    "dataset": "run.dataset",
    "seed": "seeds",
    "objective.name": "objectives",
    "objective.step_size": "step_sizes",
    "objective.smoothing": "smoothings",
}


class Setting(Section):
    """An objective, with the values that it needs and no others.

    Example:
        >>> Setting(objective="ctc-dro", step_size=1e-3, smoothing=0.5).name
        'ctc-dro-0.001-0.5'
        >>> Setting(objective="erm").name
        'erm'
    """

    objective: ObjectiveName
    step_size: float | None = Field(None, ge=0)
    smoothing: float | None = Field(None, ge=0)

    @model_validator(mode="after")
    def _check(self) -> Setting:
        for key, has_it in (("step_size", HAS_STEP_SIZE), ("smoothing", HAS_SMOOTHING)):
            if (getattr(self, key) is not None) != (self.objective in has_it):
                needs = "needs a" if self.objective in has_it else "has no"
                raise ValueError(f"{self.objective} {needs} `{key}`")
        return self

    @property
    def name(self) -> str:
        """As in the names of run folders."""
        values = (value for value in (self.step_size, self.smoothing) if value is not None)
        return "-".join([self.objective, *map(_shortest, values)])


class SweepConfig(Section):
    """A sweep."""

    run: Config
    """As for `ctcdro train`; its seed and the name, step size and smoothing of its objective are the sweep's affair."""
    objectives: tuple[ObjectiveName, ...] = ("erm", "group-dro", "ctc-dro")
    """Each with all step sizes and smoothings that it has; erm, which has none, is the baseline."""
    step_sizes: tuple[Annotated[float, Field(gt=0)], ...] = (1e-3, 1e-4)
    smoothings: tuple[Annotated[float, Field(gt=0)], ...] = (0.1, 0.5, 1.0)
    settings: tuple[Setting, ...] | None = None
    """These alone, instead of all objectives with all step sizes and smoothings."""
    seeds: tuple[Annotated[int, Field(ge=0)], ...] = (0,)
    """Every setting is trained with each; settings are compared by the means."""
    search: Literal["grid", "optuna"] = "grid"
    """Try all step sizes and smoothings, or let Optuna choose between the smallest and the largest of them."""
    trials: int = Field(12, gt=0)
    """Settings that Optuna tries of each objective."""
    overrides: dict[ObjectiveName, dict[str, Any]] = Field(default_factory=dict)
    """What is different for the runs of an objective, as {group-dro: {batches.sampler: group-uniform}}; what is not
    named stays as in `run`."""
    profile: Literal["plain", "ml-superb2", "paper"] = "plain"
    """Of scoring."""

    @model_validator(mode="after")
    def _check(self) -> SweepConfig:
        for key in ("objectives", "step_sizes", "smoothings", "settings", "seeds"):
            values = getattr(self, key)
            if values is not None and not values:
                raise ValueError(f"`{key}` must have a value at least")
            if values is not None and len(set(values)) < len(values):
                raise ValueError(f"`{key}` has a value twice")
        if self.settings is not None and self.search == "optuna":
            raise ValueError("`settings` are tried as they are; `search` optuna chooses its own")
        for objective in self.overrides:
            self._run_of(objective)  # so that what is wrong is refused at once, also where it is not tried
        return self

    def grid(self) -> list[Setting]:
        """All settings, the objectives in the order given.

        Example:
            >>> config = parse_sweep({"dataset": "set1"})
            >>> [setting.name for setting in config.grid()][:5]
            ['erm', 'group-dro-0.001', 'group-dro-0.0001', 'ctc-dro-0.001-0.1', 'ctc-dro-0.001-0.5']
        """
        if self.settings is not None:
            return list(self.settings)
        return [
            Setting(objective=objective, step_size=step_size, smoothing=smoothing)
            for objective in self.objectives
            for step_size in (self.step_sizes if objective in HAS_STEP_SIZE else (None,))
            for smoothing in (self.smoothings if objective in HAS_SMOOTHING else (None,))
        ]

    def config(self, setting: Setting, seed: int) -> Config:
        """The run of a setting and a seed."""
        chosen = setting.model_dump(exclude={"objective"}, exclude_none=True)
        if not setting.objective.startswith("ctc-dro"):  # others refuse what is of CTC-DRO alone
            chosen |= {"signal": "loss_per_second", "warmup_batches": 0}
        run = self._run_of(setting.objective)
        objective = run.objective.model_copy(update={"name": setting.objective, **chosen})
        return run.model_copy(update={"seed": seed, "objective": objective})

    def _run_of(self, objective: ObjectiveName) -> Config:
        """The run, with what is different for an objective."""
        source = f"overrides.{objective}"
        values = self.run.model_dump(mode="json")
        for key, value in by_key(self.overrides.get(objective, {})):
            if key in OF_THE_SWEEP:
                raise ValueError(f"{source}.{key}: the sweep sets it for all runs; give `{OF_THE_SWEEP[key]}`")
            _put(values, key, value)
        try:
            return parse_config(values, source=source)
        except ValueError as error:
            raise ValueError(str(error).removesuffix(".")) from error  # another is put behind it


def read_sweep(path: PathLike, overrides: Iterable[str] = ()) -> SweepConfig:
    """Reads the description of a sweep, or that of a run, which is swept with the paper's values.

    Args:
        path: the YAML file.
        overrides: as "seeds=[0,1]" or "run.training.epochs=2", applied after the file.

    Raises:
        ValueError: naming the file and the key.
    """
    return parse_sweep(read_values(path), overrides, source=str(path))


def parse_sweep(values: dict[str, Any], overrides: Iterable[str] = (), source: str = "configuration") -> SweepConfig:
    """The sweep of keys and values.

    Example:
        >>> config = parse_sweep({"dataset": "set1"}, ["run.training.epochs=2", "seeds=[0, 1]"])
        >>> config.step_sizes, config.smoothings, config.seeds, config.run.training.epochs
        ((0.001, 0.0001), (0.1, 0.5, 1.0), (0, 1), 2)
        >>> parse_sweep({"run": {"dataset": "set1", "modle": 1}})
        Traceback (most recent call last):
        ValueError: configuration: run.modle: unknown key; there are dataset, seed, model, ...
    """
    is_run = not set(values) & set(SweepConfig.model_fields)
    return parse_section(SweepConfig, {"run": values} if is_run else values, overrides, source)


def schema() -> str:
    """The JSON schema, with a description of every key."""
    return json.dumps(SweepConfig.model_json_schema(), indent=2)


def _put(values: dict[str, Any], key: str, value: Any) -> None:
    """Sets the value of a dotted key; a section that is not there, as `model.lora`, is made."""
    *sections, name = key.split(".")
    for section in sections:
        if not isinstance(values.get(section), dict):
            values[section] = {}
        values = values[section]
    values[name] = value


def _shortest(number: float) -> str:
    """The number in few digits, if they are all it has."""
    short = f"{number:g}"
    return short if float(short) == number else repr(number)
