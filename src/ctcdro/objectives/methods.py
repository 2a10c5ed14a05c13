"""The methods: one entry per objective, with everything that the rest of the package needs to know about it.

Configurations, sweeps, reports, model cards and the command line read these entries. Importing them does not import
torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .objective import Objective


@dataclass(frozen=True)
class Method:
    """One method."""

    name: str
    """In configurations, such as "ctc-dro"."""
    title: str
    """In tables, figures and messages."""
    factory: str
    """Module of this folder and function that creates the objective, such as "ctc_dro.ctc_dro"."""
    settings: tuple[str, ...]
    """Keyword arguments of the factory that a configuration can set."""
    tuned: tuple[str, ...] = ()
    """The settings among them that have to be tuned, in the order in which names and tables show them."""

    def create(self, num_groups: int, settings: Mapping[str, Any], **shared: Any) -> Objective:
        """Creates the objective from the settings it takes; others are ignored."""
        module, function = self.factory.split(".")
        factory = getattr(import_module(f".{module}", __package__), function)
        return factory(num_groups, **{name: settings[name] for name in self.settings}, **shared)


METHODS = {
    method.name: method
    for method in (
        Method("erm", "Baseline (ERM)", "erm.erm", ("reduction",)),
        Method("group-dro", "Group DRO", "group_dro.group_dro", ("step_size",), tuned=("step_size",)),
        Method(
            "ctc-dro-unsmoothed",
            "CTC-DRO without smoothing",
            "ctc_dro.ctc_dro_unsmoothed",
            ("step_size", "reduction", "signal", "warmup_batches"),
            tuned=("step_size",),
        ),
        Method(
            "ctc-dro",
            "CTC-DRO",
            "ctc_dro.ctc_dro",
            ("step_size", "smoothing", "reduction", "signal", "warmup_batches"),
            tuned=("step_size", "smoothing"),
        ),
    )
}
