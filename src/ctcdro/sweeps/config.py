"""The configuration of a sweep: a run, and the settings to try on it.

A setting is an objective with values of any keys of the run. A file that describes only a run is swept over the
paper's settings. The same configuration always gives the same settings in the same order.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Annotated, Any, Literal

from ..objectives.methods import METHODS, all_settings
from ..runtime.extras import extra
from ..storage.paths import PathLike

with extra("sweep", "A sweep"):
    from pydantic import ConfigDict, Field

    from ..runs.config import SAMPLER_KEYS, Config, parse_config
    from ..runs.objective_config import MethodName
    from ..runs.parsing import Section, by_key, format_setting, parse_section, read_values, set_key, short_key

BASELINE = "erm"
MAX_COMBINATIONS = 1000
MAX_NAME = 150
"""Characters of a value in the name of a folder; a digest stands for the rest."""

# Keys of a run that the sweep sets, and the key to use instead.
SET_BY_SWEEP = {"dataset": "run.dataset", "seed": "seeds", "objective.name": "objective"}


class SettingEntry(Section):
    """Settings to train: an objective, and any keys of the run, such as `step_size: 1e-3` for a setting of the
    objective or `optimizer.learning_rate: 1e-3` for another key. Each value of a list is tried: `step_size: [1e-3,
    1e-4]`. A mapping is one value: `weights: {ces: 1, cmn: 2.5}`. Keys that are not given have their values in
    `run`."""

    model_config = ConfigDict(extra="allow")

    objective: MethodName
    """Name of the objective."""
    label: str | None = Field(None, min_length=1)
    """Name of the method in tables and figures. One setting is selected for each label. null: the title of the
    objective."""

    def given(self) -> dict[str, Any]:
        """Values, or lists of values, by key of the run, such as `objective.step_size`."""
        return {_run_key(key): value for key, value in by_key(self.model_extra or {})}

    def choices(self) -> list[list[Any]]:
        return [value if isinstance(value, list) else [value] for value in self.given().values()]

    def combinations(self) -> Iterator[dict[str, Any]]:
        for values in product(*self.choices()):
            yield dict(zip(self.given(), values, strict=True))

    def problems(self) -> Iterator[str]:
        for key, value in self.given().items():
            name = key.removeprefix("objective.")
            if key in SET_BY_SWEEP:
                yield f"{key}: set by the sweep; use `{SET_BY_SWEEP[key]}` instead"
            if name in all_settings() and not METHODS[self.objective].takes(name):
                yield f"{name}: {self.objective} does not take it; remove it"
            if value == []:
                yield f"{_setting_key(key)}: must not be empty"
        if (number := math.prod(map(len, self.choices()))) > MAX_COMBINATIONS:
            yield f"objective: {number:,} combinations of values; use at most {MAX_COMBINATIONS:,}"


def _run_key(key: str) -> str:
    return key if "." in key or key in Config.model_fields else f"objective.{key}"


def _setting_key(key: str) -> str:
    return key.removeprefix("objective.")


_STEP_SIZES, _SMOOTHINGS = [1e-3, 1e-4], [0.1, 0.5, 1.0]
PAPER_SETTINGS = (
    SettingEntry(objective="erm"),
    SettingEntry.model_validate({"objective": "group-dro", "step_size": _STEP_SIZES}),
    SettingEntry.model_validate({"objective": "ctc-dro", "step_size": _STEP_SIZES, "smoothing": _SMOOTHINGS}),
)


@dataclass(frozen=True)
class SweepSetting:
    """A setting to train: an objective, with values of keys of the run."""

    objective: str
    values: Mapping[str, Any] = field(default_factory=dict)
    """By key: `step_size` for a setting of the objective, `optimizer.learning_rate` for another key. Settings that have
    to be tuned come first."""
    label: str | None = None

    @property
    def method(self) -> str:
        """Name in tables. One setting of each method is selected."""
        return self.label or METHODS[self.objective].title

    @property
    def name(self) -> str:
        """Name in run folders, such as "ctc-dro-0.001-0.5" or "ctc-dro-0.001-0.5-signal=loss_per_character"."""
        tuned = METHODS[self.objective].tuned
        texts = {key: _file_name(value) for key, value in self.values.items()}
        others = (f"{short_key(key)}={text}" for key, text in texts.items() if key not in tuned)
        return "-".join([self.objective, *(texts[key] for key in tuned if key in texts), *others])

    def to_record(self) -> dict[str, Any]:
        """Fields in selected.json and table.json."""
        return {"method": self.method, "objective": self.objective, "values": dict(self.values)}


def _file_name(value: Any) -> str:
    text = repr(value).removesuffix(".0") if isinstance(value, float) else format_setting(value)
    name = re.sub(r"[^\w.+-]+", "_", str(text))
    if len(name) <= MAX_NAME:
        return name
    return f"{name[:MAX_NAME]}-{hashlib.blake2b(name.encode(), digest_size=4).hexdigest()}"


class SweepConfig(Section):
    """The configuration of a sweep."""

    run: Config
    """Configuration of a run, with the keys of a file for `ctcdro train`. The sweep sets its seed and objective."""
    settings: tuple[SettingEntry, ...] | None = Field(
        None,
        examples=[
            [
                {"objective": "erm"},
                {"objective": "ctc-dro", "step_size": [1e-3, 1e-4], "smoothing": 0.5},
                {"objective": "ctc-dro", "signal": "loss_per_character", "label": "CTC-DRO, per character"},
            ]
        ],
    )
    """Settings to train. null: those of the paper, which are `erm`; `group-dro` with step sizes of 1e-3 and 1e-4; and
    `ctc-dro` with the same step sizes and a smoothing of 0.1, 0.5 and 1. `erm` is the baseline."""
    seeds: tuple[Annotated[int, Field(ge=0)], ...] = Field((0,), min_length=1)
    """Seeds with which every setting is trained. Settings are selected by their means over seeds."""
    scoring: Literal["plain", "ml-superb2", "paper"] = "plain"
    """Scoring rules. `plain`: all edits of a language divided by all its characters. `ml-superb2`: those of the
    ML-SUPERB 2.0 challenge. `paper`: those of the authors' scripts."""

    def problems(self) -> Iterator[str]:
        if len(set(self.seeds)) < len(self.seeds):
            yield "seeds: contains a duplicate; remove it"
        if self.settings == ():
            yield "settings: must not be empty"
        try:
            settings = self.grid()
        except ValueError as error:
            yield from str(error).splitlines()
            return
        names: dict[Any, str] = {}
        for setting in settings:
            config = self.config(setting, 0).model_copy(update={"label": None})
            same = names.get(setting.name) or names.get(config.model_dump_json())
            if same is not None:
                yield f"settings: {setting.name} is the same as {same}; remove one of them"
            names |= {setting.name: setting.name, config.model_dump_json(): setting.name}

    @property
    def entries(self) -> tuple[SettingEntry, ...]:
        return PAPER_SETTINGS if self.settings is None else self.settings

    def notes(self) -> Iterator[str]:
        notes = (note for setting in self.grid() for note in self.config(setting, seed=0).notes())
        yield from dict.fromkeys(f"run.{note}" for note in notes)

    def grid(self) -> list[SweepSetting]:
        """All settings, in the order given."""
        return [
            self._resolve(entry, values, f"settings.{number}")
            for number, entry in enumerate(self.entries)
            for values in entry.combinations()
        ]

    def _resolve(self, entry: SettingEntry, given: Mapping[str, Any], source: str) -> SweepSetting:
        """A setting with its values as they are in the configuration of its run."""
        values = dict(by_key(self._run(entry.objective, given, entry.label, source).model_dump(mode="json")))
        tuned = [f"objective.{name}" for name in METHODS[entry.objective].tuned]
        keys = dict.fromkeys([*tuned, *(key for key in values if key in given)])
        return SweepSetting(entry.objective, {_setting_key(key): values[key] for key in keys}, entry.label)

    def config(self, setting: SweepSetting, seed: int) -> Config:
        """The configuration of one run."""
        given = {_run_key(key): value for key, value in setting.values.items()}
        return self._run(setting.objective, given, setting.label, setting.name).model_copy(update={"seed": seed})

    def _run(self, objective: str, given: Mapping[str, Any], label: str | None, source: str) -> Config:
        """The run of a setting, without the keys of `run` that its objective or sampler does not take."""
        values = self.run.model_dump(mode="json") | {"label": label}
        values["objective"]["name"] = objective
        for name in all_settings():
            if not METHODS[objective].takes(name):
                del values["objective"][name]
        sampler = str(given.get("sampling.sampler", self.run.sampling.sampler))
        used = ("sampler", *SAMPLER_KEYS.get(sampler, ()))
        values["sampling"] = {key: value for key, value in values["sampling"].items() if key in used}
        for key, value in given.items():
            set_key(values, key, value, source)
        return parse_config(values, source=source)

    def changes(self, setting: SweepSetting) -> dict[str, Any]:
        """The values of a setting that differ from those of `run`, except those that have to be tuned."""
        values, tuned = dict(by_key(self.run.model_dump(mode="json"))), METHODS[setting.objective].tuned
        others = ((key, value) for key, value in setting.values.items() if key not in tuned)
        return {key: value for key, value in others if value != values.get(_run_key(key))}

    def replaced_keys(self) -> list[str]:
        """Keys that were given in `run` and have no effect, because the sweep has its own values."""
        replaced = []
        for name in all_settings():
            takers = [entry.given() for entry in self.entries if METHODS[entry.objective].takes(name)]
            key = f"objective.{name}"
            if name in self.run.objective.model_fields_set and takers and all(key in given for given in takers):
                replaced.append(key)
        return [*replaced, *(["seed"] if self.run.seed not in (0, *self.seeds) else [])]


def read_sweep(path: PathLike, overrides: Iterable[str] = ()) -> SweepConfig:
    """Reads the YAML file of a sweep, or of a run; `overrides` change it, such as "training.num_batches=400"."""
    return parse_sweep(read_values(path), overrides, source=str(path))


def parse_sweep(values: dict[str, Any], overrides: Iterable[str] = (), source: str = "configuration") -> SweepConfig:
    """Creates a sweep from keys and values; `read_sweep` creates one from a file.

    Keys of the run in `overrides` may start with `run.`, and need not.
    """
    of_sweep = [f"run.{text}" if re.split(r"[.=]", text)[0] in Config.model_fields else text for text in overrides]
    return parse_section(SweepConfig, values if is_sweep(values) else {"run": values}, of_sweep, source)


def is_sweep(values: dict[str, Any]) -> bool:
    """Whether values describe a sweep, not a run."""
    return not set(values).isdisjoint(SweepConfig.model_fields)
