"""Settings that Optuna chooses, in rounds, so that those of a round can be trained side by side.

The same configuration and the same results give the same settings: a search that is begun again asks for what it asked
for before, finds it trained, and goes on. So the size of a round does not depend on the machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..runtime.extras import extra
from .sweep_config import HAS_SMOOTHING, HAS_STEP_SIZE, ObjectiveName, Setting, SweepConfig

if TYPE_CHECKING:
    from optuna import Study, Trial

ROUND = 4
"""Settings of each objective that are asked for at a time."""


class OptunaSearch:
    """A study for each objective; what is sought is the lowest value of those told.

    Example:
        >>> from ctcdro.sweeps.sweep_config import parse_sweep
        >>> search = OptunaSearch(parse_sweep({"run": {"dataset": "set1"}, "search": "optuna", "trials": 5}))
        >>> [len(search.ask()), search.tell({setting: 0.5 for setting in search.asked}), len(search.ask())]
        [9, None, 2]
    """

    def __init__(self, config: SweepConfig) -> None:
        with extra("sweep", "`search: optuna`"):
            import optuna
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._config = config
        self._studies: dict[ObjectiveName, Study] = {
            objective: optuna.create_study(sampler=optuna.samplers.TPESampler(n_startup_trials=ROUND, seed=number))
            for number, objective in enumerate(config.objectives)
        }
        self._trials: dict[Setting, list[tuple[Study, Trial]]] = {}

    @property
    def asked(self) -> list[Setting]:
        """The settings that were asked for, and are to be told of."""
        return list(self._trials)

    def ask(self) -> list[Setting]:
        """The settings to try next; none at the end."""
        for objective, study in self._studies.items():
            wanted = self._config.trials if objective in HAS_STEP_SIZE else 1
            for _ in range(min(ROUND, wanted - len(study.trials))):
                trial = study.ask()
                self._trials.setdefault(self._setting(objective, trial), []).append((study, trial))
        return self.asked

    def tell(self, values: Mapping[Setting, float]) -> None:
        """What came of all settings that were asked for."""
        for setting, trials in self._trials.items():
            for study, trial in trials:
                study.tell(trial, values[setting])
        self._trials = {}

    def _setting(self, objective: ObjectiveName, trial: Trial) -> Setting:
        chosen = {}
        for key, given, has_it in (
            ("step_size", self._config.step_sizes, HAS_STEP_SIZE),
            ("smoothing", self._config.smoothings, HAS_SMOOTHING),
        ):
            if objective in has_it:
                value = trial.suggest_float(key, min(given), max(given), log=True)
                chosen[key] = float(f"{value:.3g}")  # as it is in the name of the folder
        return Setting(objective=objective, **chosen)
