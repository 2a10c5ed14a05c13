"""NeMo manifests: JSON lines with audio_filepath, text, and where they are there duration, offset and lang."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...storage.json_fields import optional_seconds, optional_text
from ...storage.json_files import scan_json_lines
from ...storage.paths import PathLike
from ..prepare import CorpusEntry, Dropped
from ..tsv import audio_path


def read_nemo(
    manifests: Mapping[str, Sequence[PathLike]],
    lang: str | None = None,
    lang_field: str = "lang",
    text_field: str = "text",
) -> Iterator[CorpusEntry | Dropped]:
    """The utterances of manifests, by split; as in NeMo, `duration` seconds from `offset` are what is said.

    Args:
        lang: the language of all, where `lang_field` is missing.

    Raises:
        ValueError: if a manifest is of audio in archives.
    """
    for split, several in manifests.items():
        for path in map(Path, several):
            folder = path.parent
            for number, record in scan_json_lines(path):
                where = f"{path}:{number}"
                if isinstance(record, ValueError):
                    yield Dropped(split, lang or "", where, "malformed line", str(record))
                    continue
                if "shard_id" in record:
                    raise ValueError(f"{where}: a manifest of audio in archives; unpack them, and name the files.")
                try:
                    yield _listed(record, split, where, folder, lang, lang_field, text_field)
                except ValueError as error:
                    yield Dropped(split, lang or "", where, "malformed line", str(error))


def _listed(
    record: dict[str, Any], split: str, where: str, folder: Path, lang: str | None, lang_field: str, text_field: str
) -> CorpusEntry:
    audio = optional_text(record, "audio_filepath")
    if audio is None:
        raise ValueError(f"`audio_filepath` is missing (found: {', '.join(record):.200})")
    language = optional_text(record, lang_field) or lang
    if language is None:
        raise ValueError(f"`{lang_field}` is missing (found: {', '.join(record):.200}); --lang gives one to all")
    return CorpusEntry(
        split=split,
        audio=audio_path(audio, folder),
        text=optional_text(record, text_field) or "",
        lang=language,
        where=where,
        id=optional_text(record, "id"),
        corpus=optional_text(record, "corpus"),
        speaker=optional_text(record, "speaker"),
        offset=optional_seconds(record, "offset") or 0.0,
        duration=optional_seconds(record, "duration"),
    )
