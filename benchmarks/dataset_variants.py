"""Copies a dataset with languages changed. .venv/bin/python benchmarks/dataset_variants.py VARIANT DATASET --out DIR

    without --language cmn        no data of the language in any split
    only --language kor,ron       training data of these languages only; other splits have all
    shuffled --language kor       a fifth of its training transcripts belong to other utterances of it
    few --language deu            a tenth of its training utterances
    majority --language cmn,eng   training utterances in several languages have the one with the largest share only
    noisy --language spa          half of its utterances have noise at 5 dB; the field `stratum` says which
    hidden                        every `lang` is `und`, the language is in the field `language`

`without`, `noisy` and `hidden` apply to all splits, the others to training data. Audio is not copied, except for the
utterances with noise.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
from planted_subgroup import add_noise_to

from ctcdro import Manifest, Utterance

Change = Callable[[list[Utterance]], list[Utterance]]

NOISE_DB = 5.0


def remove(utterances: list[Utterance]) -> list[Utterance]:
    return []


def keep_tenth(utterances: list[Utterance]) -> list[Utterance]:
    return utterances[: len(utterances) // 10]


def shuffle_fifth(utterances: list[Utterance]) -> list[Utterance]:
    """Moves each chosen transcript to the next chosen utterance."""
    chosen = random.Random(0).sample(range(len(utterances)), len(utterances) // 5)
    texts = [utterances[index].text for index in chosen]
    changed = list(utterances)
    for index, text in zip(chosen, [*texts[1:], texts[0]], strict=True):
        changed[index] = replace(changed[index], text=text)
    return changed


def hide_language(utterance: Utterance) -> Utterance:
    return replace(utterance, lang="und", extra={**utterance.extra, "language": utterance.lang})


def add_noise_to_half(manifest: Manifest, language: str, folder: Path) -> Manifest:
    """Writes noisy copies of half of the utterances of a language. The strata are languages, and `<language>-noisy`."""
    own = [index for index, one in enumerate(manifest) if one.lang == language]
    noisy = set(random.Random(0).sample(own, len(own) // 2))
    folder.mkdir(parents=True, exist_ok=True)
    changed = []
    for index, one in enumerate(manifest):
        stratum = f"{one.lang}-noisy" if index in noisy else one.lang
        one = replace(one, extra={**one.extra, "stratum": stratum})
        changed.append(add_noise_to(one, folder, NOISE_DB, np.random.default_rng(index)) if index in noisy else one)
    return Manifest(changed)


def keep_largest_share(utterances: list[Utterance]) -> list[Utterance]:
    return [replace(one, lang_shares=None) for one in utterances]


VARIANTS: dict[str, Change] = {
    "without": remove,
    "only": remove,
    "shuffled": shuffle_fifth,
    "few": keep_tenth,
    "majority": keep_largest_share,
}


def write_variant(dataset: Path, out: Path, languages: set[str], variant: str) -> None:
    """Writes the changed manifests of all splits."""
    out.mkdir(parents=True, exist_ok=True)
    for path in sorted(dataset.glob("*.jsonl")):
        if path.stem not in ("train", "dev", "test"):
            continue
        manifest = Manifest.read(path)
        if variant == "hidden":
            manifest = Manifest(map(hide_language, manifest))
        elif variant == "noisy":
            for language in languages:
                manifest = add_noise_to_half(manifest, language, out.absolute() / "audio" / path.stem)
        elif path.stem == "train" or variant == "without":
            manifest = Manifest(_changed_languages(list(manifest), languages, variant))
        manifest.write(out / path.name)


def _changed_languages(utterances: list[Utterance], languages: set[str], variant: str) -> list[Utterance]:
    present = {one.lang for one in utterances}
    for language in present - languages if variant == "only" else present & languages:
        utterances = _change(utterances, language, VARIANTS[variant])
    return utterances


def _change(utterances: list[Utterance], language: str, change: Change) -> list[Utterance]:
    """The utterances in their order, with those of a language changed or removed."""
    changed = {one.id: one for one in change([one for one in utterances if one.lang == language])}
    kept = (changed.get(one.id) if one.lang == language else one for one in utterances)
    return [one for one in kept if one is not None]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("variant", choices=[*VARIANTS, "noisy", "hidden"])
    parser.add_argument("dataset", type=Path)
    parser.add_argument("--language", default="", help="codes, separated by commas")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    write_variant(options.dataset, options.out, set(options.language.split(",")), options.variant)


if __name__ == "__main__":
    main()
