"""Options by language, as users write them -> specs of synthetic speech."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..synthetic.spec import SpeechSpec

_OPTION_OF = {
    "train_minutes": "minutes (of train)",
    "dev_minutes": "minutes (of dev)",
    "test_minutes": "minutes (of test)",
    "spread": "duration (its deviation)",
    "words_per_minute": "rate",
    "num_words": "words",
    "num_speakers": "speakers",
    "snr": "noise",
    "reverberation": "room",
}


def parse_speech_specs(
    specs: Mapping[str, SpeechSpec],
    minutes: str | None = None,
    duration: Sequence[str] = (),
    rate: Sequence[str] = (),
    words: Sequence[str] = (),
    speakers: Sequence[str] = (),
    noise: Sequence[str] = (),
    room: Sequence[str] = (),
) -> dict[str, SpeechSpec]:
    """Changes specs by options: a value is for all languages, one after `cmn=` for that language.

    Example:
        >>> start = {"ces": SpeechSpec(), "cmn": SpeechSpec()}
        >>> specs = parse_speech_specs(start, minutes="5:1:2", duration=["4:1.5", "cmn=3.1:1.05"], noise=["cmn=12:20"])
        >>> specs["ces"].duration, specs["cmn"].duration, specs["cmn"].snr, specs["ces"].test_minutes
        (4.0, 3.1, (12.0, 20.0), 2.0)

    Raises:
        ValueError: naming the option.
    """
    changes: dict[str, dict[str, Any]] = {language: {} for language in specs}
    for option, given, fields, parse in (
        ("minutes", [minutes] if minutes else [], ("train_minutes", "dev_minutes", "test_minutes"), float),
        ("duration", duration, ("duration", "spread"), float),
        ("words", words, ("num_words",), int),
        ("speakers", speakers, ("num_speakers",), int),
        ("room", room, ("reverberation",), float),
    ):
        for language, value in _by_language(option, given, specs):
            changes[language] |= dict(zip(fields, _numbers(option, value, len(fields), parse), strict=True))
    for option, given, field in (("rate", rate, "words_per_minute"), ("noise", noise, "snr")):
        for language, value in _by_language(option, given, specs):
            changes[language][field] = None if value == "none" else tuple(_numbers(option, value, 2, float))
    try:
        return {language: replace(spec, **changes[language]) for language, spec in specs.items()}
    except ValueError as error:
        raise ValueError(
            re.sub("`([a-z_]+)`", lambda found: f"--{_OPTION_OF.get(found[1], found[1])}", str(error))
        ) from error


_EXAMPLES = {
    "minutes": "10:2:5",
    "duration": "4:1.5, or cmn=4:1.5 for one language",
    "rate": "105:130, or cmn=145:175 for one language",
    "words": "500, or cmn=600 for one language",
    "speakers": "4, or cmn=8 for one language",
    "noise": "10:20, or cmn=12:20 for one language",
    "room": "0.4, or cmn=0.4 for one language",
}


def _by_language(option: str, given: Sequence[str], languages: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(language, value), in the order given: what comes later holds."""
    found = []
    for one in given:
        language, sign, value = one.rpartition("=")
        if sign and language not in languages:
            raise ValueError(f"--{option} {one}: no language {language} (there are {', '.join(languages)}).")
        found += [(language, value)] if sign else [(every, value) for every in languages]
    return found


def _numbers(option: str, value: str, count: int, parse: Callable[[str], float]) -> list[float]:
    try:
        numbers = [parse(part) for part in value.split(":")]
        if len(numbers) == count:
            return numbers
    except ValueError:
        pass
    kind = "whole number" if parse is int else "number"
    expected = f"{count} {kind}s with : between" if count > 1 else f"a {kind}"
    raise ValueError(f"--{option} must be {expected}, as {_EXAMPLES[option]}; got {value!r}.")
