"""An independent, simple and slow implementation of the findings of `ctcdro check`."""

import os
from statistics import median

from ctcdro import Utterance
from ctcdro.check.findings import Finding
from ctcdro.check.texts import num_frames
from ctcdro.speech.audio import MIN_DURATION, TOLERANCE, AudioError, header
from ctcdro.speech.language_names import language_name
from ctcdro.speech.manifest import group_shares
from ctcdro.speech.normalization import BIDI_CONTROLS
from ctcdro.speech.vocabulary import Vocabulary, can_be_character, can_be_language, frames_needed
from ctcdro.storage.json_files import scan_json_lines

SPLITS = ("train", "dev", "test")


# Codes of the same language in the tests.
SAME_LANGUAGE = {"cs": "ces", "Czech": "ces"}


def find_all(folder, frame_rate, by, batch_duration, min_for_pace):
    """All findings, errors first, by kind and line; None if there is no utterance to train on."""
    findings, rows = [], []
    for split in SPLITS:
        own, faults = read(folder / f"{split}.jsonl", split)
        findings += faults
        rows += own
        if not own:
            is_there = (folder / f"{split}.jsonl").exists()
            detail = "it has no utterances" if is_there else "no such file"
            findings.append(Finding(f"no {split} data", "warning", str(folder / f"{split}.jsonl"), detail))
    if not any(split == "train" for split, _, _ in rows):
        return None
    findings += about_groups(rows, by)
    findings += about_batches(rows, by, batch_duration)
    findings += about_languages(rows)
    findings += about_characters(rows)
    findings += about_repetitions(rows)
    findings += about_fit(rows, frame_rate)
    findings += about_rates(rows, min_for_pace)
    findings += about_audio(rows)
    return sorted(findings, key=lambda finding: (finding.severity, finding.kind))


def read(path, split):
    rows, faults = [], []
    for line, record in scan_json_lines(path) if path.exists() else []:
        where = f"{path}:{line}"
        if isinstance(record, ValueError):
            faults.append(Finding("malformed line", "error", where, str(record)))
            continue
        try:
            utterance = Utterance.from_record(record, path.parent)
        except ValueError as error:
            faults.append(Finding("malformed line", "error", where, str(error)))
            continue
        if can_be_language(utterance.lang):
            rows.append((split, where, utterance))
        else:
            detail = f"`lang` must not contain spaces or brackets, got {utterance.lang!r:.60}"
            faults.append(Finding("malformed line", "error", where, detail))
    return rows, faults


def about_groups(rows, by):
    trained, without = set(), {}
    for split, where, utterance in rows:
        try:
            name = next(iter(group_shares(utterance, by)))
        except ValueError as error:
            without.setdefault(f"{split}: {error}", []).append(where)
            continue
        if split == "train":
            trained.add(name)
        elif name not in trained and by != ["lang"]:
            without.setdefault(f"{split}: group {name!r} is not in train", []).append(where)
    return [
        Finding("no group", "error", places[0], f"{why} ({counted(places)}, the first on this line)")
        for why, places in without.items()
    ]


def about_characters(rows):
    known = {character for split, _, utterance in rows if split == "train" for character in utterance.text}
    for split in SPLITS:
        own = [(where, utterance) for one, where, utterance in rows if one == split]
        for where, utterance in own:
            if not utterance.text.strip():
                yield Finding("empty transcript", "error" if split == "train" else "warning", where, "`text` is empty")
            for one in sorted(set(utterance.text)):
                if not can_be_character(one):
                    detail = f"{named(one)} cannot be a label; normalize the text (`ctcdro prepare --text-norm clean`)"
                    yield Finding("unusable character", "error", where, detail)
            for one in sorted(BIDI_CONTROLS & set(utterance.text)):
                detail = f"{named(one)} is invisible and would become a label; `--text-norm clean` removes it"
                yield Finding("bidirectional control character", "warning", where, detail)
        for language in sorted({utterance.lang for _, utterance in own}):
            unseen = [
                (one, where)
                for where, utterance in own
                for one in sorted(set(utterance.text))
                if utterance.lang == language and can_be_character(one) and one not in known
            ]
            if unseen:
                characters = sorted({one for one, _ in unseen})
                shown = ", ".join(map(named, characters[:20])) + ("…" if len(characters) > 20 else "")
                counts = f"characters: {len(characters)}, occurrences in {split}: {len(unseen)}"
                detail = f"{language}: {shown}; {counts}, the first on this line"
                yield Finding("characters unseen in training", "warning", unseen[0][1], detail)


def named(character):
    return f"{character!r} (U+{ord(character):04X})"


def about_repetitions(rows):
    texts, stretches, ids = {}, {}, {}
    for split, where, utterance in rows:
        before, place = texts.setdefault((utterance.lang, utterance.text), (split, where))
        if before != split:
            yield Finding("same text in two splits", "warning", where, f"{utterance.text!r:.60} is also at {place}")
        path = os.path.normpath(utterance.audio_filepath)
        before, place = stretches.setdefault((path, utterance.offset), (split, where))
        if before != split:
            yield Finding("same audio in two splits", "warning", where, f"{path} is also at {place}")
        if utterance.id is not None and ids.setdefault(utterance.id, where) != where:
            yield Finding("duplicate id", "warning", where, f"{utterance.id!r:.60} is also at {ids[utterance.id]}")


def about_fit(rows, frame_rate):
    trained = {one for split, _, utterance in rows if split == "train" for one in utterance.text}
    vocabulary = Vocabulary({utterance.lang for _, _, utterance in rows}, filter(can_be_character, trained))
    for split, where, utterance in rows:
        needed = frames_needed(vocabulary.encode(utterance.text, utterance.lang))
        frames = num_frames(utterance.duration, frame_rate)
        if frames < needed:
            detail = (
                f"{utterance.duration:.2f} s are {frames} frames at {frame_rate:g} Hz, but the labels need {needed}"
            )
            yield Finding("transcript too long for CTC", "error" if split == "train" else "warning", where, detail)


def about_batches(rows, by, batch_duration):
    groups = {}
    for split, where, utterance in rows:
        if split == "train":
            try:
                groups.setdefault(next(iter(group_shares(utterance, by))), []).append((where, utterance.duration))
            except ValueError:
                continue
    for name, own in sorted(groups.items()):
        seconds = sum(duration for _, duration in own)
        if seconds < batch_duration:
            repeated = f"every batch of {batch_duration:g} s repeats its utterances"
            detail = f"{name}: {counted(own)}, {seconds:.1f} s in train; {repeated}"
            yield Finding("less than one batch of audio", "warning", own[0][0], detail)


def counted(rows):
    return "1 utterance" if len(rows) == 1 else f"{len(rows)} utterances"


def about_languages(rows):
    languages = sorted({utterance.lang for _, _, utterance in rows})
    of = {language: [row for row in rows if row[2].lang == language] for language in languages}
    for language in languages:
        own = [where for split, where, _ in of[language] if split == "train"]
        there = {split for split, _, _ in of[language]}
        missing = [split for split in ("dev", "test") if split not in there and any(row[0] == split for row in rows)]
        if own and missing:
            detail = f"{language_name(language)}: {counted(own)} in train, none in {' and '.join(missing)}"
            yield Finding("language without dev or test data", "warning", own[0], detail)
        for split in [] if own else [split for split in SPLITS if split in there]:
            lines = [where for one, where, _ in of[language] if one == split]
            detail = (
                f"{language_name(language)}: {counted(lines)} in {split}, none in train, so it has no language token"
            )
            yield Finding("language without training data", "error", lines[0], detail)
    by_number = sorted(languages, key=lambda language: -len(of[language]))
    for place, language in enumerate(by_number):
        same = [one for one in by_number if SAME_LANGUAGE.get(one, one) == SAME_LANGUAGE.get(language, language)]
        if by_number.index(same[0]) < place:
            detail = (
                f"{language_name(language)}, {counted(of[language])}, and {language_name(same[0])}, "
                f"{counted(of[same[0]])}, look like the same language; use one code for both, otherwise they are "
                "separate groups"
            )
            yield Finding("near-duplicate language codes", "warning", of[language][0][1], detail)


def about_rates(rows, min_for_pace):
    for _, where, utterance in rows:
        said = [(len(one.text), one.duration) for _, _, one in rows if one.lang == utterance.lang and one.text]
        if not utterance.text or len(said) < min_for_pace:
            continue
        seconds = typical_seconds(sorted(said, key=lambda size: size[0]), len(utterance.text))
        if utterance.duration < seconds / 2 or utterance.duration > 3 * seconds:
            detail = (
                f"{len(utterance.text)} characters in {utterance.duration:.2f} s, "
                f"{len(utterance.text) / utterance.duration:.1f} per second; the typical duration in "
                f"{language_name(utterance.lang)} is {seconds:.2f} s"
            )
            yield Finding("implausible character rate", "warning", where, detail)


def typical_seconds(said, number):
    """Uses a line through the medians of the shortest and the longest third."""
    third = len(said) // 3
    left, right = ([median(size[axis] for size in part) for axis in (0, 1)] for part in (said[:third], said[-third:]))
    if right[0] == left[0]:
        return number * median(seconds / length for length, seconds in said)
    slope = (right[1] - left[1]) / (right[0] - left[0])
    if slope <= 0:
        return median(seconds for _, seconds in said)
    return max(0.0, median(seconds - slope * length for length, seconds in said)) + slope * number


def about_audio(rows):
    """Uses only the headers."""
    paths = [os.path.normpath(utterance.audio_filepath) for _, _, utterance in rows]
    for _, where, utterance in rows:
        path = utterance.audio_filepath
        try:
            seconds = header(path).duration - utterance.offset
        except AudioError as error:
            yield Finding("unreadable audio" if os.path.exists(path) else "missing audio", "error", where, str(error))
            continue
        is_whole = paths.count(os.path.normpath(path)) == 1 and utterance.offset == 0
        if utterance.duration > seconds + TOLERANCE or (is_whole and utterance.duration < seconds - TOLERANCE):
            severity = "error" if utterance.duration > seconds else "warning"
            detail = f"`duration` is {utterance.duration:g} s, but the audio is {seconds:.3f} s long: {path}"
            yield Finding("duration disagrees with the audio", severity, where, detail)
        elif min(seconds, utterance.duration) < MIN_DURATION:
            detail = f"{seconds:.3f} s; encoders need at least {MIN_DURATION:g} s: {path}"
            yield Finding("audio too short", "error", where, detail)
