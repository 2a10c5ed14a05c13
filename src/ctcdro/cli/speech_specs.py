"""Options of `ctcdro prepare synthetic` -> specs of synthetic speech."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from ..synthetic.code_switching import mixture_spec
from ..synthetic.spec import SpeechSpec


class _Option(NamedTuple):
    fields: tuple[str, ...]
    """Fields of `SpeechSpec`, one per number."""
    example: str
    parse: Callable[[str], float] = float
    is_range: bool = False
    """Whether two numbers are one field."""
    for_mixtures: bool = True
    """Whether the option applies to mixtures of languages."""

    def values(self, name: str, text: str) -> dict[str, Any]:
        if self.is_range and text == "none":
            return {self.fields[0]: None}
        count = 2 if self.is_range else len(self.fields)
        try:
            numbers = [self.parse(part) for part in text.split(":")]
        except ValueError:
            numbers = []
        if len(numbers) != count:
            kind = "whole number" if self.parse is int else "number"
            expected = f"{count} {kind}s separated by colons" if count > 1 else f"a {kind}"
            raise ValueError(f"--{name} must be {expected}, such as {self.example}; got {text!r}.")
        return {self.fields[0]: tuple(numbers)} if self.is_range else dict(zip(self.fields, numbers, strict=True))


_OPTIONS = {
    "minutes": _Option(
        ("train_minutes", "dev_minutes", "test_minutes"), "10:2:5, or cmn+eng=3:1:2 for one language or mixture"
    ),
    "duration": _Option(("duration", "spread"), "4:1.5, or cmn=4:1.5 for one language"),
    "rate": _Option(
        ("words_per_minute",), "105:130, or cmn=145:175 for one language", is_range=True, for_mixtures=False
    ),
    "words": _Option(("num_words",), "500, or cmn=600 for one language", int, for_mixtures=False),
    "speakers": _Option(("num_speakers",), "4, or cmn=8 for one language", int, for_mixtures=False),
    "noise": _Option(("snr",), "10:20, or cmn=12:20 for one language", is_range=True),
    "room": _Option(("reverberation",), "0.4, or cmn=0.4 for one language"),
}


def parse_speech_specs(
    languages: Mapping[str, SpeechSpec], mixtures: Sequence[str] = (), **options: Sequence[str] | None
) -> dict[str, SpeechSpec]:
    """Changes specs by options: "4:1" is for all languages, "cmn=4:1" for that language.

    Mixtures have the means of their languages, changed by their own options, such as "cmn+eng=4:1".
    """
    for name, arguments in options.items():
        for argument in arguments or ():
            target, sign, _ = argument.rpartition("=")
            known = [*languages, *(mixtures if _OPTIONS[name].for_mixtures else ())]
            if sign and target not in known:
                raise ValueError(f"--{name} {argument}: no language {target} (expected one of {', '.join(known)}).")
    specs = {language: _change(spec, language, options, "") for language, spec in languages.items()}
    mixed = {name: _change(mixture_spec(name, specs), name, options, None) for name in mixtures}
    return specs | mixed


def _change(
    spec: SpeechSpec, target: str, options: Mapping[str, Sequence[str] | None], general: str | None
) -> SpeechSpec:
    """Applies the options for `target`, and those for `general`."""
    changes: dict[str, Any] = {}
    for name, arguments in options.items():
        for argument in arguments or ():
            language, _, text = argument.rpartition("=")
            if language in (target, general):
                changes |= _OPTIONS[name].values(name, text)
    try:
        return replace(spec, **changes)
    except ValueError as error:
        names = {field: name for name, option in _OPTIONS.items() for field in option.fields}
        message = re.sub("`([a-z_]+)`", lambda match: f"--{names.get(match[1], match[1])}", str(error))
        raise ValueError(message) from error
