"""The section `objective` of a configuration. Its keys are the settings of the methods in `objectives.methods`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, Field

from ..objectives.methods import METHODS, Setting, all_settings
from .parsing import FolderPath, Section, add_fields


def join_words(names: Iterable[str], word: str) -> str:
    """A list in a sentence, such as "a, b or c"."""
    *first, last = names
    return f"{', '.join(first)} {word} {last}" if first else last


def _known_method(name: str) -> str:
    if name not in METHODS:
        raise ValueError(f"must be one of {', '.join(METHODS)}; got {name!r}")
    return name


MethodName = Annotated[str, AfterValidator(_known_method), Field(json_schema_extra={"enum": list(METHODS)})]


def _setting_field(setting: Setting) -> Any:
    takers = [f"`{name}`" for name, method in METHODS.items() if method.takes(setting.name)]
    description = f"{setting.description} Only for {join_words(takers, 'and')}."
    kind = FolderPath | None if setting.kind == Path | None else setting.kind
    return kind, Field(setting.default, ge=setting.at_least, description=description)


@add_fields(
    **{name: _setting_field(setting) for name, setting in all_settings().items()},
    loss_normalization=(
        Literal["none", "frame", "label"],
        Field(
            "none",
            description="`none`: the CTC loss of each utterance. `frame` or `label`: divided by its number of frames "
            "or labels, as in the paper's normalization study.",
        ),
    ),
)
class ObjectiveConfig(Section):
    """The objective: how the losses of the groups become one number to minimize."""

    name: MethodName = "ctc-dro"
    """`erm`: the baseline, all utterances alike. `group-dro`: group DRO. `ctc-dro`: the paper's method.
    `ctc-dro-unsmoothed`: its ablation without smoothing. `error-weighted`: weights in proportion to the error rates of
    the groups, which need no tuning. `static`: constant weights, chosen by you."""
    if TYPE_CHECKING:
        loss_normalization: Literal["none", "frame", "label"] = "none"

    @property
    def settings(self) -> dict[str, Any]:
        return {setting.name: getattr(self, setting.name) for setting in METHODS[self.name].settings}

    def problems(self) -> Iterator[str]:
        # Settings that have to be tuned may stay in a configuration when only the method is changed.
        tuned = {name for method in METHODS.values() for name in method.tuned}
        for key, setting in all_settings().items():
            value = getattr(self, key)
            if not METHODS[self.name].takes(key) and value != setting.default and key not in tuned:
                takers = join_words([name for name, method in METHODS.items() if method.takes(key)], "or")
                yield f"{key}: {value} has no effect with {self.name}; remove it, or set `name` to {takers}"
        signal, signals = getattr(self, "signal", None), METHODS[self.name].signals
        if signal is not None and signals and signal not in signals:
            yield f"signal: {signal} is not a signal of {self.name}; use {join_words(signals, 'or')}"
        if "weights" in METHODS[self.name].required:
            yield from self._weight_problems()

    def _weight_problems(self) -> Iterator[str]:
        weights: dict[str, float] = getattr(self, "weights", None) or {}
        if not weights:
            yield f"weights: {self.name} needs the weight of each group, such as {{ces: 1, cmn: 2.5}}; add them"
        for name, weight in weights.items():
            if weight <= 0:
                yield f"weights.{name}: must be greater than 0; got {weight:g}"
