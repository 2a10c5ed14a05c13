"""The configuration of a sweep: a run, and the settings of each objective to try on it.

    run: {dataset: set1, model: {encoder: facebook/wav2vec2-xls-r-300m}}
    objectives: [erm, group-dro, ctc-dro]
    step_sizes: [1e-3, 1e-4]
    smoothings: [0.1, 0.5, 1]
    seeds: [0, 1]

A file that describes only a run is swept over the paper's settings. The same configuration always gives the same
settings in the same order.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from typing import TYPE_CHECKING, Annotated, Any, Literal

from ..objectives.methods import METHODS
from ..runtime.extras import extra
from ..storage.paths import PathLike

with extra("sweep", "A sweep"):
    from pydantic import Field, model_validator

    from ..runs.config import Config, Section, by_key, parse_config, parse_section, read_values

if TYPE_CHECKING:
    ObjectiveName = str
else:
    ObjectiveName = Literal[tuple(METHODS)]

BASELINE = "erm"

# The key of a sweep that lists the values of each tuned setting.
AXES = {"step_size": "step_sizes", "smoothing": "smoothings"}

# Keys of a run that the sweep sets, and the key to use instead.
SET_BY_SWEEP = {
    "dataset": "run.dataset",
    "seed": "seeds",
    "objective.name": "objectives",
    **{f"objective.{setting}": axis for setting, axis in AXES.items()},
}


class Setting(Section):
    """An objective with the values of its tuned settings.

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
        tuned = METHODS[self.objective].tuned
        for key in AXES:
            if (getattr(self, key) is not None) != (key in tuned):
                raise ValueError(f"{self.objective} {'requires' if key in tuned else 'does not take'} `{key}`")
        return self

    @property
    def values(self) -> dict[str, float]:
        """The tuned settings, in the order in which names and tables show them."""
        return {key: getattr(self, key) for key in METHODS[self.objective].tuned}

    @property
    def name(self) -> str:
        """Name of the setting in run folders, without the seed."""
        return "-".join([self.objective, *map(_shortest, self.values.values())])


class SweepConfig(Section):
    """A sweep."""

    run: Config
    """Configuration of a run, as for `ctcdro train`. The sweep replaces its seed, and the name, step size and smoothing
    of its objective."""
    objectives: tuple[ObjectiveName, ...] = ("erm", "group-dro", "ctc-dro")
    """Objectives to compare, each with all step sizes and smoothings that it takes. `erm` is the baseline."""
    step_sizes: tuple[Annotated[float, Field(gt=0)], ...] = (1e-3, 1e-4)
    """Step sizes to try."""
    smoothings: tuple[Annotated[float, Field(gt=0)], ...] = (0.1, 0.5, 1.0)
    """Smoothings to try."""
    settings: tuple[Setting, ...] | None = None
    """Explicit list of settings, instead of all combinations of the three keys above."""
    seeds: tuple[Annotated[int, Field(ge=0)], ...] = (0,)
    """Seeds with which every setting is trained. Settings are compared by their means over seeds."""
    overrides: dict[ObjectiveName, dict[str, Any]] = Field(default_factory=dict)
    """Keys of `run` that differ for the runs of one objective, e.g. {group-dro: {batches.sampler: group-uniform}}."""
    profile: Literal["plain", "ml-superb2", "paper"] = "plain"
    """Scoring profile."""

    @model_validator(mode="after")
    def _check(self) -> SweepConfig:
        for key in ("objectives", "step_sizes", "smoothings", "settings", "seeds"):
            values = getattr(self, key)
            if values is not None and not values:
                raise ValueError(f"`{key}` must have at least one value")
            if values is not None and len(set(values)) < len(values):
                raise ValueError(f"`{key}` contains a value twice")
        for objective in self.overrides:
            self._run(objective)  # reports errors also for objectives that are not tried
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
            Setting(objective=objective, **dict(zip(METHODS[objective].tuned, values, strict=True)))
            for objective in self.objectives
            for values in product(*(getattr(self, AXES[key]) for key in METHODS[objective].tuned))
        ]

    def config(self, setting: Setting, seed: int) -> Config:
        """The configuration of one run."""
        run = self._run(setting.objective)
        objective = run.objective.model_copy(update=setting.values)
        return run.model_copy(update={"seed": seed, "objective": objective})

    def _run(self, objective: str) -> Config:
        """The run of an objective, with its overrides and without the settings that it does not take."""
        source = f"overrides.{objective}"
        values = self.run.model_dump(mode="json")
        values["objective"]["name"] = objective
        if not objective.startswith("ctc-dro"):
            values["objective"] |= {"compare_by": "second", "start_after": 0}
        for key, value in by_key(self.overrides.get(objective, {})):
            if key in SET_BY_SWEEP:
                raise ValueError(f"{source}.{key}: the sweep sets this key; use `{SET_BY_SWEEP[key]}`")
            _put(values, key, value)
        try:
            return parse_config(values, source=source)
        except ValueError as error:
            raise ValueError(str(error).removesuffix(".")) from error  # the caller adds a period


def read_sweep(path: PathLike, overrides: Iterable[str] = ()) -> SweepConfig:
    """Reads the configuration of a sweep, or of a run, which is swept over the paper's settings.

    Args:
        path: YAML file.
        overrides: changes to the file, such as "seeds=[0,1]" or "run.training.epochs=2".

    Raises:
        ValueError: naming the file and the key.
    """
    return parse_sweep(read_values(path), overrides, source=str(path))


def parse_sweep(values: dict[str, Any], overrides: Iterable[str] = (), source: str = "configuration") -> SweepConfig:
    """Creates a sweep from keys and values.

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


def _put(values: dict[str, Any], key: str, value: Any) -> None:
    """Sets a dotted key; creates a section that is missing, such as `model.lora`."""
    *sections, name = key.split(".")
    for section in sections:
        if not isinstance(values.get(section), dict):
            values[section] = {}
        values = values[section]
    values[name] = value


def _shortest(number: float) -> str:
    short = f"{number:g}"
    return short if float(short) == number else repr(number)
