"""Who is served worst? The subgroups of each method's test utterances with more errors than their languages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ..runtime.progress import Track, untracked
from ..scoring.subgroups import Conditions, SubgroupSearch, find_subgroups
from ..speech.language_names import language_name
from ..speech.utterance import Utterance
from .study import Study

Values = list[str | None]


def search_subgroups(study: Study, with_audio: bool, track: Track = untracked) -> Iterator[tuple[str, SubgroupSearch]]:
    """The name of each method, and the subgroups in the errors of all its runs; with the audio, also by noise."""
    for methods in study.test_sets:
        first = methods[0].first
        utterances = [first.dataset.utterances.get(name) for name in first.counts.ids]
        languages = [first.counts.languages[number] for number in first.counts.language]
        levels = _signal_to_noise(utterances, track) if with_audio else None
        attributes = list_attributes(languages, utterances, levels)
        for method in methods:
            counts = method.first.counts
            edits = np.sum([run.counts.characters.total for run in method.runs], axis=0).astype(np.float64)
            lengths = counts.characters.reference.astype(np.float64) * len(method.runs)
            yield method.name, find_subgroups(edits, lengths, counts.language, attributes)


def describe_subgroups(search: SubgroupSearch) -> str:
    """One sentence about the worst subgroup."""
    if not search.num_searched:
        return "No subgroup has enough utterances."
    searched = f"{search.num_searched:,} subgroups were searched"
    if not search.found:
        return f"No subgroup has more errors than chance explains; {searched}."
    worst = search.found[0]
    return (
        f"{show_conditions(worst.conditions)}: CER {100 * worst.rate:.1f}%, where {100 * worst.expected:.1f}% is "
        f"expected; {searched}."
    )


def show_conditions(conditions: Conditions) -> str:
    """The conditions of a subgroup for people.

    Example:
        >>> show_conditions({"language": "ces", "duration": "under 2.0 s"})
        'Czech (ces), duration under 2.0 s'
    """
    return ", ".join(
        language_name(value) if name == "language" else f"{name} {value}" for name, value in conditions.items()
    )


def list_attributes(
    languages: Sequence[str], utterances: Sequence[Utterance | None], levels: Sequence[float | None] | None
) -> dict[str, Sequence[str | None]]:
    """The attributes with more than one value."""
    attributes: dict[str, Values] = {
        "language": list(languages),
        "languages": [None if one is None else " and ".join(sorted(one.languages)) for one in utterances],
        "corpus": [None if one is None else one.corpus for one in utterances],
        "speaker": [None if one is None else one.speaker for one in utterances],
        "duration": _thirds([None if one is None else one.duration for one in utterances], "s", decimals=1),
    }
    if levels is not None:
        attributes["signal-to-noise"] = _thirds(levels, "dB", decimals=0)
    if attributes["languages"] == attributes["language"]:
        del attributes["languages"]
    return {name: values for name, values in attributes.items() if len(set(values) - {None}) > 1}


def _signal_to_noise(utterances: Sequence[Utterance | None], track: Track) -> list[float | None]:
    """Estimated signal-to-noise ratios in decibels; None if the audio cannot be read."""
    return [_level(one) for one in track(utterances, "estimating noise", len(utterances))]


def _level(utterance: Utterance | None) -> float | None:
    from ..speech.audio import AudioError, read_audio
    from ..speech.signal_to_noise import estimate_snr

    try:
        return (
            None
            if utterance is None
            else estimate_snr(read_audio(utterance.audio_filepath, utterance.offset, utterance.duration))
        )
    except AudioError:
        return None


def _thirds(numbers: Sequence[float | None], unit: str, decimals: int) -> Values:
    """The third of each number, such as "under 2.1 s", "2.1 to 4.0 s" or "over 4.0 s"."""
    known = [number for number in numbers if number is not None]
    if len(set(known)) < 3:
        return [None] * len(numbers)
    low, high = np.quantile(known, [1 / 3, 2 / 3])
    first, second = f"{low:.{decimals}f}", f"{high:.{decimals}f}"
    names = [f"under {first} {unit}", f"{first} to {second} {unit}", f"over {second} {unit}"]
    return [None if one is None else names[int(one >= low) + int(one >= high)] for one in numbers]
