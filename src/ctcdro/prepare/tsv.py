"""Tables of columns with tabs between, as corpora have them, and where their audio is."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from ..storage.lines import numbered_lines
from ..storage.paths import PathLike, resolve_audio_path


def read_table(path: PathLike, columns: Sequence[str] | None = None) -> Iterator[tuple[int, dict[str, str] | str]]:
    """The rows of a table and their lines; a row is what is wrong with it if it has more or fewer columns.

    Quotation marks are characters like others.

    Args:
        columns: their names; by default the first line has them.
    """
    for number, line in numbered_lines(path):
        fields = line.split("\t")
        if columns is None:
            columns = fields
        elif len(fields) == len(columns):
            yield number, dict(zip(columns, fields, strict=True))
        else:
            yield number, f"{len(fields)} columns where {len(columns)} are expected ({', '.join(columns):.200})"


def language_folders(root: PathLike, table: str, languages: Sequence[str] | None) -> list[tuple[str, Path]]:
    """(language, folder) of each folder in `root` that has the table, or of `root` itself if it is one.

    Args:
        languages: those to take, as ISO 639-3 codes or as folders are called; by default all.

    Raises:
        ValueError: if there are none, or one of `languages` is not there.
    """
    from .language_codes import language_code

    root = Path(root)
    folders = [root] if (root / table).is_file() else sorted(path.parent for path in root.glob(f"*/{table}"))
    found = []
    for folder in folders:
        try:
            found.append((language_code(folder.absolute().name), folder))
        except ValueError as error:
            if languages is None:
                raise ValueError(f"{folder}: the folder must be called after its language: {error}") from error
    if not found:
        raise ValueError(f"{root}: no {table} in it or in a folder below it; expected one folder a language.")
    if languages is None:
        return found
    names = {name for language, folder in found for name in (language, folder.absolute().name)}
    if missing := [language for language in languages if language not in names]:
        raise ValueError(f"{root}: no {', '.join(missing)} (found: {', '.join(language for language, _ in found)}).")
    return [(language, folder) for language, folder in found if {language, folder.absolute().name} & set(languages)]


def audio_path(path: str, folder: Path) -> str:
    """Where a list in `folder` finds a file: beside itself, or else from the working directory.

    Raises:
        ValueError: if the list may not name it.
    """
    beside = resolve_audio_path(path, folder)
    if os.path.isabs(path) or os.path.exists(beside) or not os.path.exists(path):
        return beside
    resolve_audio_path(os.path.abspath(path), folder)  # refuses it, perhaps
    return path
