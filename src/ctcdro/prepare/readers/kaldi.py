"""Kaldi data folders: wav.scp with plain paths, text, and where they are there segments, utt2spk and utt2lang.

Commands in wav.scp are refused, and never run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ...storage.lines import numbered_lines
from ...storage.paths import PathLike
from ..prepare import CorpusEntry, Dropped
from ..tsv import audio_path

# By how many seconds a segment may end after its recording, and is cut there, as Kaldi's own tools do.
MAX_OVERSHOOT = 0.5


def read_kaldi(
    folders: Mapping[str, Sequence[PathLike]],
    lang: str | None = None,
    lang_map: PathLike | None = None,
    corpus: str | None = None,
) -> Iterator[CorpusEntry | Dropped]:
    """The utterances of data folders, by split.

    Args:
        lang: the language of all, where there is no utt2lang.
        lang_map: a file with an utterance or speaker and its language on each line, where there is no utt2lang.

    Raises:
        ValueError: if a file is not there, wav.scp has commands or archives, or an utterance has no language.
    """
    languages = _read_map(Path(lang_map)) if lang_map is not None else {}
    for split, several in folders.items():
        for folder in several:
            yield from _read_folder(Path(folder), split, lang, languages, corpus)


def _read_folder(
    folder: Path, split: str, lang: str | None, languages: Mapping[str, str], corpus: str | None
) -> Iterator[CorpusEntry | Dropped]:
    recordings = _read_recordings(folder / "wav.scp")
    segments = _read_segments(folder / "segments")
    speakers = _read_map(folder / "utt2spk", needed=False)
    languages = {**languages, **_read_map(folder / "utt2lang", needed=False)}
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
                f"{where}: no language of {id:.60}; expected it in {folder / 'utt2lang'}, or --lang, or --lang-map "
                f"with the language of each utterance or speaker."
            )
        recording, offset, duration = segments.get(id, (id, 0.0, None))
        if recording not in recordings:
            yield Dropped(
                split, language, where, "missing audio", f"{recording:.60} is not in {folder / 'wav.scp'}", id
            )
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
        raise ValueError(f"{path} is not there; expected a Kaldi data folder with wav.scp and text.")
    return numbered_lines(path)


def _read_map(path: Path, needed: bool = True) -> dict[str, str]:
    """Lines of two words."""
    if not needed and not path.is_file():
        return {}
    found = {}
    for number, line in _lines(path):
        words = line.split()
        if len(words) != 2:
            raise ValueError(f"{path}:{number}: expected two words; got {line!r:.60}.")
        found[words[0]] = words[1]
    return found


def _read_recordings(path: Path) -> dict[str, str]:
    found = {}
    for number, line in _lines(path):
        id, *rest = line.split(maxsplit=1)
        location = rest[0].strip() if rest else ""
        if "|" in (location[:1], location[-1:]):
            raise ValueError(
                f"{path}:{number}: a command, which is not run: {location!r:.200}. Run it yourself, write its output "
                f"to a file, and name that here."
            )
        if location in ("", "-") or re.search(r"\.ark(:\d+)?$|:\d+$|^\w+://", location):
            raise ValueError(f"{path}:{number}: expected the path of an audio file; got {location!r:.60}.")
        try:
            found[id] = audio_path(location, path.parent)
        except ValueError as error:
            raise ValueError(f"{path}:{number}: {error}.") from error
    return found


def _read_segments(path: Path) -> dict[str, tuple[str, float, float | None]]:
    if not path.is_file():
        return {}
    found: dict[str, tuple[str, float, float | None]] = {}
    for number, line in numbered_lines(path):
        try:
            id, recording, start, end = line.split()[:4]  # a fifth, the channel, may follow
            found[id] = (recording, float(start), float(end) - float(start) if float(end) >= 0 else None)
        except ValueError as error:
            raise ValueError(
                f"{path}:{number}: expected utterance, recording, start and end; got {line!r:.60}."
            ) from error
        if not (found[id][1] >= 0 and (found[id][2] is None or 0 < (found[id][2] or 0) < float("inf"))):
            raise ValueError(f"{path}:{number}: expected 0 <= start < end in seconds; got {start:.20} and {end:.20}.")
    return found
