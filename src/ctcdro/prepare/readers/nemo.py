"""NeMo manifests: JSON lines with audio_filepath, text, and optionally duration, offset and lang.

As in manifests of ctcdro, the language may be an object with the share of each of several languages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...speech.language_shares import check_shares, largest_share
from ...storage.field_checks import optional_seconds, optional_text
from ...storage.json_files import scan_json_lines
from ...storage.paths import PathLike, find_listed_audio
from ..entries import CorpusEntry, Dropped


def read_nemo(
    manifests: Mapping[str, Sequence[PathLike]],
    lang: str | None = None,
    lang_field: str = "lang",
    text_field: str = "text",
) -> Iterator[CorpusEntry | Dropped]:
    """Reads manifests. As in NeMo, an utterance starts at `offset` and lasts `duration` seconds.

    Args:
        manifests: files by split.
        lang: language of lines without `lang_field`.
        lang_field: field with the language.
        text_field: field with the text.
    """
    for split, paths in manifests.items():
        for path in map(Path, paths):
            for number, record in scan_json_lines(path):
                where = f"{path}:{number}"
                if isinstance(record, dict) and "shard_id" in record:
                    raise ValueError(f"{where}: the audio is in tar archives. Unpack them and list the files instead.")
                try:
                    if isinstance(record, ValueError):
                        raise record
                    yield _read_entry(record, split, where, path.parent, lang, lang_field, text_field)
                except ValueError as error:
                    yield Dropped(split, lang or "", where, "malformed line", str(error))


def _read_entry(
    record: dict[str, Any], split: str, where: str, folder: Path, lang: str | None, lang_field: str, text_field: str
) -> CorpusEntry:
    audio = optional_text(record, "audio_filepath")
    if audio is None:
        raise ValueError(f"`audio_filepath` is missing (found: {', '.join(record):.200})")
    shares = check_shares(lang_field, found) if isinstance(found := record.get(lang_field), Mapping) else None
    language = largest_share(shares) if shares else optional_text(record, lang_field) or lang
    if language is None:
        raise ValueError(f"`{lang_field}` is missing (found: {', '.join(record):.200}); pass --language CODE for all")
    return CorpusEntry(
        split=split,
        audio=find_listed_audio(audio, folder),
        text=optional_text(record, text_field) or "",
        lang=language,
        where=where,
        id=optional_text(record, "id"),
        corpus=optional_text(record, "corpus"),
        speaker=optional_text(record, "speaker"),
        offset=optional_seconds(record, "offset") or 0.0,
        duration=optional_seconds(record, "duration"),
        lang_shares=shares,
    )
