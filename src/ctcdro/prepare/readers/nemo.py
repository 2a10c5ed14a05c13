"""NeMo manifests: JSON lines with audio_filepath, text, and where they are there duration, offset and lang."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...storage.paths import PathLike
from ..json_fields import read_records, seconds_of, text_of
from ..prepare import Dropped, Listed
from ..tsv import audio_path


def read_nemo(
    manifests: Mapping[str, Sequence[PathLike]],
    lang: str | None = None,
    lang_field: str = "lang",
    text_field: str = "text",
) -> Iterator[Listed | Dropped]:
    """The utterances of manifests, by split; as in NeMo, `duration` seconds from `offset` are what is said.

    Args:
        lang: the language of all, where `lang_field` is missing.

    Raises:
        ValueError: if a manifest is of audio in archives.
    """
    for split, several in manifests.items():
        for path in map(Path, several):
            folder = path.parent
            for number, record in read_records(path):
                where = f"{path}:{number}"
                if isinstance(record, str):
                    yield Dropped(split, lang or "", where, "malformed line", record)
                    continue
                if "shard_id" in record:
                    raise ValueError(f"{where}: a manifest of audio in archives; unpack them, and name the files.")
                try:
                    yield _listed(record, split, where, folder, lang, lang_field, text_field)
                except ValueError as error:
                    yield Dropped(split, lang or "", where, "malformed line", str(error))


def _listed(
    record: dict[str, Any], split: str, where: str, folder: Path, lang: str | None, lang_field: str, text_field: str
) -> Listed:
    audio = text_of(record, "audio_filepath")
    if audio is None:
        raise ValueError(f"`audio_filepath` is missing (found: {', '.join(record):.200})")
    language = text_of(record, lang_field) or lang
    if language is None:
        raise ValueError(f"`{lang_field}` is missing (found: {', '.join(record):.200}); --lang gives one to all")
    return Listed(
        split=split,
        audio=audio_path(audio, folder),
        text=text_of(record, text_field) or "",
        lang=language,
        where=where,
        id=text_of(record, "id"),
        corpus=text_of(record, "corpus"),
        speaker=text_of(record, "speaker"),
        offset=seconds_of(record, "offset", 0.0) or 0.0,
        duration=seconds_of(record, "duration"),
    )
