"""Kaldi data folders: wav.scp with plain paths, text, and optionally segments, utt2spk and utt2lang.

Commands in wav.scp are rejected, and never run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ...storage.lines import numbered_lines
from ...storage.paths import PathLike, find_listed_audio
from ..entries import CorpusEntry, Dropped

# Seconds by which a segment may end after its recording; it is cut there, as Kaldi's own tools do.
MAX_OVERSHOOT = 0.5


def read_kaldi(
    folders: Mapping[str, Sequence[PathLike]],
    lang: str | None = None,
    lang_map: PathLike | None = None,
    corpus: str | None = None,
) -> Iterator[CorpusEntry | Dropped]:
    """Reads data folders.

    Args:
        folders: data folders by split.
        lang: language of utterances that are not in utt2lang.
        lang_map: file with an utterance or speaker and its language on each line, for those not in utt2lang.
        corpus: name of the corpus.
    """
    languages = _read_map(Path(lang_map)) if lang_map is not None else {}
    for split, paths in folders.items():
        for folder in paths:
            yield from _read_folder(Path(folder), split, lang, languages, corpus)


def _read_folder(
    folder: Path, split: str, lang: str | None, languages: Mapping[str, str], corpus: str | None
) -> Iterator[CorpusEntry | Dropped]:
    recordings = _read_recordings(folder / "wav.scp")
    segments = _read_segments(folder / "segments")
    speakers = _read_map(folder / "utt2spk", required=False)
    languages = {**languages, **_read_map(folder / "utt2lang", required=False)}
    text = folder / "text"
    with_text = set()
    for number, line in _lines(text):
        id, *rest = line.split(maxsplit=1)
        with_text.add(id)
        where = f"{text}:{number}"
        speaker = speakers.get(id)
        language = languages.get(id) or languages.get(speaker or "") or lang
        if not language:
            raise ValueError(
                f"{where}: no language for {id:.60}. Add it to {folder / 'utt2lang'}, or pass --language, or "
                f"--language-map with the language of each utterance or speaker."
            )
        recording, offset, duration = segments.get(id, (id, 0.0, None))
        if recording not in recordings:
            detail = f"{recording:.60} is not in {folder / 'wav.scp'}"
            yield Dropped(split, language, where, "missing audio", detail, id)
            continue
        yield CorpusEntry(
            split=split,
            audio=recordings[recording],
            text=rest[0] if rest else "",
            lang=language,
            where=where,
            id=id,
            corpus=corpus,
            speaker=speaker,
            offset=offset,
            duration=duration,
            overshoot=MAX_OVERSHOOT,
        )
    for id in segments or recordings:
        if id not in with_text:
            language = languages.get(id) or lang or ""
            listing = folder / ("segments" if segments else "wav.scp")
            yield Dropped(split, language, str(listing), "no transcript", f"{id:.60} is not in {text}", id)


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    if not path.is_file():
        raise ValueError(f"{path}: no such file; expected a Kaldi data folder with wav.scp and text.")
    return numbered_lines(path)


def _read_map(path: Path, required: bool = True) -> dict[str, str]:
    if not required and not path.is_file():
        return {}
    values = {}
    for number, line in _lines(path):
        words = line.split()
        if len(words) != 2:
            raise ValueError(f"{path}:{number}: expected two words; got {line!r:.60}.")
        values[words[0]] = words[1]
    return values


def _read_recordings(path: Path) -> dict[str, str]:
    recordings = {}
    for number, line in _lines(path):
        id, *rest = line.split(maxsplit=1)
        location = rest[0].strip() if rest else ""
        if "|" in (location[:1], location[-1:]):
            raise ValueError(
                f"{path}:{number}: a command, which is not run: {location!r:.200}. Run it yourself, write its output "
                f"to a file, and name the file here."
            )
        if location in ("", "-") or re.search(r"\.ark(:\d+)?$|:\d+$|^\w+://", location):
            raise ValueError(f"{path}:{number}: expected the path of an audio file; got {location!r:.60}.")
        try:
            recordings[id] = find_listed_audio(location, path.parent)
        except ValueError as error:
            raise ValueError(f"{path}:{number}: {error}.") from error
    return recordings


def _read_segments(path: Path) -> dict[str, tuple[str, float, float | None]]:
    """Recording, offset and duration of each utterance; a negative end means the end of the recording."""
    segments: dict[str, tuple[str, float, float | None]] = {}
    for number, line in numbered_lines(path) if path.is_file() else ():
        try:
            id, recording, *times = line.split()[:4]  # a fifth field, the channel, may follow
            start, end = map(float, times)
        except ValueError as error:
            raise ValueError(
                f"{path}:{number}: expected utterance, recording, start and end; got {line!r:.60}."
            ) from error
        duration = end - start if end >= 0 else None
        if not start >= 0 or not (duration is None or 0 < duration < float("inf")):
            raise ValueError(f"{path}:{number}: expected 0 <= start < end in seconds; got {start:g} and {end:g}.")
        segments[id] = (recording, start, duration)
    return segments
