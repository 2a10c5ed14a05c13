"""lhotse manifests as JSON lines, gzipped or not: cuts, or recordings and supervisions. lhotse itself is not needed.

Each supervision is an utterance. Audio must be in files: commands are rejected, and never run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ...storage.json_fields import MAX_SECONDS, check_seconds, optional_seconds, optional_text
from ...storage.json_files import scan_json_lines
from ...storage.paths import PathLike, find_listed_audio
from ..entries import CorpusEntry, Dropped


def read_lhotse(
    manifests: Mapping[str, Sequence[PathLike]], lang: str | None = None, corpus: str | None = None
) -> Iterator[CorpusEntry | Dropped]:
    """Reads manifests.

    Args:
        manifests: files by split: cuts, or recordings and supervisions in any order.
        lang: language of supervisions without one.
        corpus: name of the corpus.
    """
    for split, paths in manifests.items():
        recordings: dict[str, Recording] = {}
        with_supervisions: list[Path] = []
        for path in map(Path, paths):
            has_supervisions = False
            for number, record in scan_json_lines(path):
                where = f"{path}:{number}"
                if isinstance(record, ValueError):
                    yield Dropped(split, lang or "", where, "malformed line", str(record))
                elif "sources" in record:
                    recordings[str(record.get("id"))] = _read_recording(record, where, path.parent)
                elif "recording_id" in record:
                    has_supervisions = True
                else:
                    yield from _read_cut(record, split, where, path.parent, lang, corpus)
            if has_supervisions:
                with_supervisions.append(path)
        # Read again, because their recordings may follow them, and they may be too many to keep.
        for path in with_supervisions:
            for number, record in scan_json_lines(path):
                if not isinstance(record, ValueError) and "sources" not in record and "recording_id" in record:
                    recording = recordings.get(str(record["recording_id"]))
                    yield _read_supervision(record, recording, 0.0, split, f"{path}:{number}", lang, corpus)


class Recording(NamedTuple):
    """A recording's file, or why its audio cannot be used as it is."""

    path: str
    obstacle: str | None


def _read_recording(record: Mapping[str, Any], where: str, folder: Path) -> Recording:
    sources = record["sources"]
    source = sources[0] if isinstance(sources, list) and sources and isinstance(sources[0], dict) else {}
    if source.get("type") != "file" or not isinstance(source.get("source"), str):
        raise ValueError(
            f"{where}: the audio of recording {record.get('id')!r:.60} must be a file; got {source.get('type')!r:.60}, "
            f"which is neither run nor downloaded. Save it to a file first."
        )
    obstacle = None
    if len(sources) > 1 or source.get("channels", [0]) != [0]:
        obstacle = "it is one of several channels; save each channel to a file first"
    elif record.get("transforms"):
        obstacle = "it has transforms; save the transformed audio to a file first"
    try:
        return Recording(find_listed_audio(source["source"], folder), obstacle)
    except ValueError as error:
        return Recording(source["source"], str(error))


def _read_cut(
    cut: Mapping[str, Any], split: str, where: str, folder: Path, lang: str | None, corpus: str | None
) -> Iterator[CorpusEntry | Dropped]:
    record, supervisions, start = cut.get("recording"), cut.get("supervisions"), cut.get("start", 0)
    if (
        not (isinstance(record, dict) and "sources" in record)
        or not (
            isinstance(supervisions, list) and supervisions and all(isinstance(item, dict) for item in supervisions)
        )
        or not (isinstance(start, int | float) and 0 <= start < MAX_SECONDS)
    ):
        detail = f"expected a cut of one recording, with supervisions; found {', '.join(cut):.200}"
        yield Dropped(split, lang or "", where, "malformed line", detail, str(cut.get("id")))
        return
    recording = _read_recording(record, where, folder)
    for supervision in supervisions:
        yield _read_supervision(supervision, recording, float(start), split, where, lang, corpus)


def _read_supervision(
    supervision: dict[str, Any],
    recording: Recording | None,
    start: float,
    split: str,
    where: str,
    lang: str | None,
    corpus: str | None,
) -> CorpusEntry | Dropped:
    """Reads a supervision, whose start is relative to that of the cut."""
    id = None
    language = lang or ""
    try:
        id = optional_text(supervision, "id")
        language = optional_text(supervision, "language") or language
        if not language:
            raise ValueError("`language` is missing; specify --lang for all")
        if recording is None:
            detail = f"no recording {supervision['recording_id']!r:.60}"
            return Dropped(split, language, where, "missing audio", detail, id)
        if recording.obstacle:
            return Dropped(split, language, where, "unusable recording", f"{recording.path}: {recording.obstacle}", id)
        return CorpusEntry(
            split=split,
            audio=recording.path,
            text=optional_text(supervision, "text") or "",
            lang=language,
            where=where,
            id=id,
            corpus=corpus,
            speaker=optional_text(supervision, "speaker"),
            offset=check_seconds("start", start + (supervision.get("start") or 0), may_be_zero=True),
            duration=optional_seconds(supervision, "duration"),
        )
    except (ValueError, TypeError, OverflowError) as error:
        return Dropped(split, language, where, "malformed line", str(error), id)
