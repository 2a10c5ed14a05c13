"""lhotse manifests as JSON lines, gzipped or not: cuts, or recordings and supervisions. lhotse itself is not needed.

Each supervision is an utterance. Audio must be in files: commands are rejected, and never run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ...storage.field_checks import MAX_SECONDS, check_seconds, optional_seconds, optional_text
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
        for supervision in _read_supervisions([Path(path) for path in paths]):
            yield _read_entry(supervision, split, lang, corpus)


class Recording(NamedTuple):
    """A recording's file, or why its audio cannot be used as it is."""

    path: str
    obstacle: str | None


class Supervision(NamedTuple):
    """A supervision, its recording, and the start of its cut in seconds; or why it cannot be read."""

    where: str
    record: dict[str, Any]
    recording: Recording | None = None
    start: float = 0.0
    error: ValueError | None = None


def _read_supervisions(paths: Sequence[Path]) -> Iterator[Supervision]:
    recordings: dict[str, Recording] = {}
    with_supervisions: list[Path] = []
    for path in paths:
        for number, record in scan_json_lines(path):
            where = f"{path}:{number}"
            if isinstance(record, ValueError):
                yield Supervision(where, {}, error=record)
            elif "sources" in record:
                recordings[str(record.get("id"))] = _read_recording(record, where, path.parent)
            elif "recording_id" not in record:
                yield from _read_cut(record, where, path.parent)
            elif path not in with_supervisions:
                with_supervisions.append(path)
    # Read again, because their recordings may follow them, and they may be too many to keep.
    for path in with_supervisions:
        for number, record in scan_json_lines(path):
            if not isinstance(record, ValueError) and "sources" not in record and "recording_id" in record:
                yield Supervision(f"{path}:{number}", record, recordings.get(str(record["recording_id"])))


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


def _read_cut(cut: Mapping[str, Any], where: str, folder: Path) -> Iterator[Supervision]:
    record, supervisions, start = cut.get("recording"), cut.get("supervisions"), cut.get("start", 0)
    if (
        not (isinstance(record, dict) and "sources" in record)
        or not (
            isinstance(supervisions, list) and supervisions and all(isinstance(item, dict) for item in supervisions)
        )
        or not (isinstance(start, int | float) and 0 <= start < MAX_SECONDS)
    ):
        error = ValueError(f"expected a cut of one recording, with supervisions; found {', '.join(cut):.200}")
        yield Supervision(where, {"id": str(cut.get("id"))}, error=error)
        return
    recording = _read_recording(record, where, folder)
    for supervision in supervisions:
        yield Supervision(where, supervision, recording, float(start))


def _read_entry(supervision: Supervision, split: str, lang: str | None, corpus: str | None) -> CorpusEntry | Dropped:
    where, record, recording, start, problem = supervision
    id, language = None, lang or ""
    try:
        id = optional_text(record, "id")
        if problem:
            raise problem
        language = optional_text(record, "language") or language
        if not language:
            raise ValueError("`language` is missing; pass --language CODE for all")
        if recording is None:
            return Dropped(split, language, where, "missing audio", f"no recording {record['recording_id']!r:.60}", id)
        if recording.obstacle:
            return Dropped(split, language, where, "unusable recording", f"{recording.path}: {recording.obstacle}", id)
        return CorpusEntry(
            split=split,
            audio=recording.path,
            text=optional_text(record, "text") or "",
            lang=language,
            where=where,
            id=id,
            corpus=corpus,
            speaker=optional_text(record, "speaker"),
            offset=check_seconds("start", start + (record.get("start") or 0), may_be_zero=True),  # relative to the cut
            duration=optional_seconds(record, "duration"),
        )
    except (ValueError, TypeError, OverflowError) as error:
        return Dropped(split, language, where, "malformed line", str(error), id)
