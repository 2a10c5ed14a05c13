"""The methods: one entry per objective, with everything that the rest of the package needs to know about it.

Configurations, sweeps, reports, model cards and the command line read these entries. Importing them does not import
torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from .signals import SignalName

if TYPE_CHECKING:
    from .objective import Objective


@dataclass(frozen=True)
class Setting:
    """A key of the section `objective` of configurations, and an argument of one or more methods."""

    name: str
    kind: Any
    """Type, as in an annotation."""
    default: Any
    description: str
    at_least: float | None = None
    is_required: bool = False
    """Whether its default does not work."""
    is_argument: bool = True
    """Whether the function that creates the objective takes it. Others are only for `ctcdro train`."""


@dataclass(frozen=True)
class Method:
    """One method."""

    name: str
    """In configurations, such as "ctc-dro"."""
    title: str
    """In tables, figures and messages."""
    factory: str
    """Module of this folder and function that creates the objective, such as "ctc_dro.ctc_dro"."""
    settings: tuple[Setting, ...] = ()
    """What it takes; the first `num_tuned` of them have to be tuned, and are part of names of runs."""
    num_tuned: int = 0
    signals: tuple[SignalName, ...] = ()
    """Values of the setting `signal`; the first is the default."""
    sampler: str = "length-matched"
    """Its sampler in configurations, unless they name one."""

    @property
    def tuned(self) -> tuple[str, ...]:
        """Names of the settings that have to be tuned."""
        return tuple(setting.name for setting in self.settings[: self.num_tuned])

    @property
    def required(self) -> tuple[str, ...]:
        """Names of the settings that have to be given."""
        return tuple(setting.name for setting in self.settings if setting.is_required)

    def takes(self, name: str) -> bool:
        """Whether it has a setting of this name."""
        return any(setting.name == name for setting in self.settings)

    @property
    def arguments(self) -> tuple[str, ...]:
        """Names of the settings that the function `factory` takes."""
        return tuple(setting.name for setting in self.settings if setting.is_argument)

    def create(self, num_groups: int, settings: Mapping[str, Any], **shared: Any) -> Objective:
        """Creates the objective from the settings it takes; others are ignored. None stands for the default."""
        module, function = self.factory.split(".")
        factory = getattr(import_module(f".{module}", __package__), function)
        values = {name: settings[name] for name in self.arguments}
        taken = {name: value for name, value in values.items() if value is not None}
        return factory(num_groups, **taken, **shared)


STEP_SIZE = Setting(
    "step_size",
    float,
    1e-4,
    "Step size of the group weights (eta_q in the paper). Larger values change the weights faster. Tune it; the paper "
    "tries 1e-3 and 1e-4.",
    at_least=0,
)
SMOOTHING = Setting(
    "smoothing",
    float,
    0.1,
    "Smoothing of the update of the group weights (alpha in the paper). Smaller values slow down groups that already "
    "have a high weight. Tune it; the paper tries 0.1, 0.5 and 1.",
    at_least=0,
)
REDUCTION = Setting(
    "reduction",
    Literal["sum", "mean"],
    "sum",
    "`sum`: add up the losses of a batch, as in the paper. `mean`: average them, as in the authors' code.",
)
SIGNAL = Setting(
    "signal",
    SignalName | None,
    None,
    "What the group weights follow. `loss_per_second`: the training loss per second, the default of CTC-DRO. "
    "`loss_per_character`: the training loss per character, the default of `error-weighted`. `error_rate`: the CER on "
    "one half of the development set, after each validation. The gradient does not depend on it.",
)
POWER = Setting(
    "power",
    float,
    1.5,
    "Exponent of the error rate in the group weights. Larger values move more weight to the worst groups. It does not "
    "have to be tuned.",
    at_least=0,
)
WARMUP_BATCHES = Setting(
    "warmup_batches",
    int,
    0,
    "Batches, in total over all processes, before the first update of the group weights, which are equal until then. "
    "Early in training a model predicts only blanks, and its losses do not show which group is hard.",
    at_least=0,
)
BASELINE = Setting(
    "baseline",
    Path | None,
    None,
    "Run folder of a finished baseline on the same dataset, such as one with `erm`. A language that is worse than in "
    "this run by more than `max_relative_loss` counts like the worst language until it is back. null: no guard. A "
    "relative path is relative to the file that names it; in `--set`, to the working directory.",
    is_argument=False,
)
MAX_RELATIVE_LOSS = Setting(
    "max_relative_loss",
    float,
    0.05,
    "Relative increase of the CER of any language on the development set, compared with `baseline`, that is allowed. "
    "0.05: from 20% to 21%. It has no effect without `baseline`.",
    at_least=0,
)
WEIGHTS = Setting(
    "weights",
    dict[str, float] | None,
    None,
    "Weight of each group, positive, by name, such as `{ces: 1, cmn: 2.5}`. Their sum does not matter. Required by "
    "`static`.",
    is_required=True,
)

LOSS_SIGNALS: tuple[SignalName, ...] = ("loss_per_second", "loss_per_character")

METHODS = {
    method.name: method
    for method in (
        Method("erm", "Baseline (ERM)", "erm.erm", (REDUCTION,)),
        Method("group-dro", "Group DRO", "group_dro.group_dro", (STEP_SIZE,), num_tuned=1),
        Method(
            "ctc-dro-unsmoothed",
            "CTC-DRO without smoothing",
            "ctc_dro.ctc_dro_unsmoothed",
            (STEP_SIZE, REDUCTION, SIGNAL, WARMUP_BATCHES),
            num_tuned=1,
            signals=LOSS_SIGNALS,
        ),
        Method(
            "ctc-dro",
            "CTC-DRO",
            "ctc_dro.ctc_dro",
            (STEP_SIZE, SMOOTHING, REDUCTION, SIGNAL, WARMUP_BATCHES),
            num_tuned=2,
            signals=LOSS_SIGNALS,
        ),
        Method(
            "error-weighted",
            "Error-weighted",
            "error_weighted.error_weighted",
            (POWER, REDUCTION, SIGNAL, BASELINE, MAX_RELATIVE_LOSS),
            signals=("loss_per_character", "error_rate"),
            sampler="adaptive",
        ),
        Method("static", "Static weights", "static_weights.static_weights", (WEIGHTS, REDUCTION), sampler="adaptive"),
    )
}


def all_settings() -> dict[str, Setting]:
    """Every setting of any method, by name; those of the method with most settings come first, in its order."""
    methods = sorted(METHODS.values(), key=lambda method: -len(method.settings))
    return {setting.name: setting for method in methods for setting in method.settings}
