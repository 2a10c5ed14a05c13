"""Finds problems in a dataset that would stop or bias training.

Errors would stop training or bias the model; warnings need not. Manifests may have any number of lines: each pass reads
them line by line.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from ..prepare.entries import SPLITS
from ..runtime.progress import Track, untracked
from ..speech.language_names import language_name
from ..speech.shards.layout import refuse_shards
from ..storage.paths import PathLike
from ..synthetic.voices import likely_code
from .audio import check_audio
from .findings import CheckReport, Findings
from .index import DatasetIndex, SplitManifest
from .texts import check_texts


def check_dataset(
    folder: PathLike,
    frame_rate: float = 25.0,
    group_by: str = "lang",
    decode: bool = True,
    num_threads: int | None = None,
    track: Track = untracked,
    batch_duration: float = 50.0,
) -> CheckReport:
    """Checks all manifest lines and audio files of a dataset.

    Args:
        frame_rate: output frames per second of the model; transcripts must fit into the frames.
        group_by: fields that define the groups, separated by commas.
        decode: whether to decode the audio; headers alone do not reveal damage in the data after them.
        num_threads: threads that read audio; by default one per core.
        batch_duration: seconds per batch; groups with less training audio are reported.

    Raises:
        ValueError: if there is no dataset, or it changes during the check.
    """
    for name, value in {"frame_rate": frame_rate, "batch_duration": batch_duration}.items():
        if not 0 < value < float("inf"):
            flag = f"--{name.replace('_', '-')}"
            raise ValueError(f"{flag} (`{name}` in Python) must be positive and finite; got {value!r}.")
    refuse_shards(folder, "ctcdro check")
    folder = Path(folder)
    if not (folder / "train.jsonl").is_file():
        raise ValueError(f"{folder}: no train.jsonl in this folder; expected a dataset from `ctcdro prepare`.")
    manifests = [SplitManifest(folder, split) for split in SPLITS]
    findings = Findings()
    index = _build_index(manifests, group_by, findings)
    _check_groups(index, batch_duration, findings)
    _check_languages(index, findings)
    check_texts(manifests, index, frame_rate, findings)
    check_audio(manifests, index, decode, num_threads or os.cpu_count() or 1, track, findings)
    return CheckReport(
        dataset=str(folder),
        frame_rate=frame_rate,
        decoded=decode,
        statistics={split: sizes.statistics() for split, sizes in index.sizes.items() if sizes},
        findings=findings.kept(),
        counts=findings.counts,
        durations={name: np.array(seconds) for name, seconds in sorted(index.group_durations.items())},
    )


def _build_index(manifests: list[SplitManifest], group_by: str, findings: Findings) -> DatasetIndex:
    index = DatasetIndex([name.strip() for name in group_by.split(",")])
    for manifest in manifests:
        for located in manifest.read(findings):
            index.add(located)
        if manifest.split == "train" and not index.sizes["train"]:
            errors = findings.kept()
            first = f" The first error is at {errors[0].where}: {errors[0].detail}" if errors else ""
            raise ValueError(f"{manifest.path}: no valid utterances.{first}")
        if not index.sizes[manifest.split]:
            detail = "it has no utterances" if manifest.exists else "no such file"
            findings.warning(f"no {manifest.split} data", str(manifest.path), detail)
    return index


def _check_groups(index: DatasetIndex, batch_duration: float, findings: Findings) -> None:
    for reason, lines in index.without_group.items():
        findings.error("no group", lines.first, f"{reason} ({_count(lines.count)}, the first on this line)")
    for group in sorted(set(index.group_durations) - index.groups_with_batches):
        detail = f"{group}: never the largest share of an utterance, so it has no batches; merge it, or add utterances"
        findings.error("group without batches", index.group_lines[group], detail)
    for group, durations in sorted(index.group_durations.items()):
        if (seconds := sum(durations)) < batch_duration:
            total = f"{_count(len(durations))}, {seconds:.1f} s in train"
            detail = f"{group}: {total}; every batch of {batch_duration:g} s repeats its utterances"
            findings.warning("less than one batch of audio", index.group_lines[group], detail)


def _check_languages(index: DatasetIndex, findings: Findings) -> None:
    """Reports languages that are missing from a split, and codes that look like another language."""
    held_out = [split for split in SPLITS[1:] if index.sizes[split]]
    for language, splits in sorted(index.languages.items()):
        missing = [split for split in held_out if split not in splits]
        if "train" not in splits:
            for split, lines in splits.items():
                name, number = language_name(language), _count(lines.count)
                detail = f"{name}: {number} in {split}, none in train, so it has no language token"
                findings.error("language without training data", lines.first, detail)
        elif missing:
            number = _count(splits["train"].count)
            detail = f"{language_name(language)}: {number} in train, none in {' and '.join(missing)}"
            findings.warning("language without dev or test data", splits["train"].first, detail)
    counts = {language: sum(lines.count for lines in splits.values()) for language, splits in index.languages.items()}
    most_common: dict[str, str] = {}
    for language in sorted(counts, key=lambda language: (-counts[language], language)):
        other = most_common.setdefault(likely_code(language), language)
        if other != language:
            detail = (
                f"{language_name(language)}, {_count(counts[language])}, and {language_name(other)}, "
                f"{_count(counts[other])}, look like the same language; use one code for both, otherwise they are "
                "separate groups"
            )
            first = next(iter(index.languages[language].values())).first
            findings.warning("near-duplicate language codes", first, detail)


def _count(number: int) -> str:
    return f"{number:,} utterance{'s' if number != 1 else ''}"
