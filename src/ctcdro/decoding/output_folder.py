"""Files of transcripts: one per recording, as text, JSON or subtitles."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal, TypeAlias

from ..storage.atomic import atomic_write
from ..storage.paths import PathLike
from .subtitles import to_srt, to_vtt
from .transcript import RecordingTranscript

Format: TypeAlias = Literal["text", "json", "srt", "vtt"]

UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")  # control characters, and bytes that are not UTF-8

MAX_BYTES = 200  # of a name: 255 without the ending, a number, and what `atomic_write` adds


def _to_text(transcript: RecordingTranscript) -> str:
    return "".join(segment.text + "\n" for segment in transcript.segments if segment.words)


def _to_json(transcript: RecordingTranscript) -> str:
    # A path may have bytes that are not UTF-8. JSON has the same escapes for them as Python.
    text = json.dumps(transcript.to_record(), ensure_ascii=False, indent=1)
    return text.encode(errors="backslashreplace").decode() + "\n"


_WRITERS: Mapping[Format, tuple[str, Callable[[RecordingTranscript], str]]] = {
    "text": (".txt", _to_text),
    "json": (".json", _to_json),
    "srt": (".srt", to_srt),
    "vtt": (".vtt", to_vtt),
}


class OutputFolder:
    """Writes each transcript to its own file, named after the recording: `My talk.mp3` -> `My talk.srt`.

    Players find subtitles by this name. The utterances of a manifest have their `id` as name. A name that is taken gets
    a number: `My talk-2.srt`.
    """

    def __init__(self, folder: PathLike, format: Format) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._ending, self._render = _WRITERS[format]
        self._taken: set[str] = set()

    def write(self, transcript: RecordingTranscript) -> Path:
        path = self.folder / (self._name(transcript) + self._ending)
        with atomic_write(path) as file:
            file.write(self._render(transcript))
        return path

    def _name(self, transcript: RecordingTranscript) -> str:
        if transcript.id:  # which may contain characters that file names cannot
            stem = re.sub(r"[^\w.-]+", "_", transcript.id).strip(".") or "recording"
        else:
            stem = UNPRINTABLE.sub("_", Path(transcript.path).stem)
        # File systems count bytes, of which letters other than those of English have several.
        name = stem = stem.encode()[:MAX_BYTES].decode(errors="ignore")
        number = 1
        while name.casefold() in self._taken:
            number += 1
            name = f"{stem}-{number}"
        self._taken.add(name.casefold())
        return name
