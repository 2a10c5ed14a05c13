"""The utterances of a shard, and where their audio is. Audio is not decoded.

A cut of lhotse is one utterance, with one supervision. In the layout of webdataset, files with the same name up to the
first dot are one utterance: audio, and a JSON object with the fields of a manifest (`text`, `lang`, `duration`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import groupby
from typing import Any, BinaryIO, NamedTuple

from ...storage.field_checks import check_seconds, optional_text
from ...storage.json_files import parse_json, read_json_lines
from ...storage.remote import open_binary
from ...storage.tar_members import TarMember, tar_members
from ..audio import audio_duration
from ..utterance import Utterance
from .layout import Shard

METADATA_ENDINGS = (".json", ".nometa")
NO_AUDIO = ".nodata"
MAX_JSON_BYTES = 2**20


class ShardEntry(NamedTuple):
    utterance: Utterance
    """Its audio is the whole member of the tar file."""
    line: int
    """Line of the cut, or number of the utterance in the tar file."""
    start: int
    """First byte of its audio in the tar file."""
    size: int


def read_entries(shard: Shard) -> Iterator[ShardEntry]:
    """Reads a shard. A ValueError names its file and what is wrong."""
    with open_binary(shard.audio) as file:
        yield from _read_webdataset(shard, file) if shard.cuts is None else _read_shar(shard, shard.cuts, file)


def _read_shar(shard: Shard, cuts: str, file: BinaryIO) -> Iterator[ShardEntry]:
    members = (one for one in tar_members(file, shard.audio) if not one.name.endswith(METADATA_ENDINGS))
    for line, cut in read_json_lines(cuts):
        where = f"{cuts}:{line}"
        member = next(members, None)
        if member is None:
            raise ValueError(f"{shard.audio}: no audio of {where}, cut {cut.get('id')!r:.60}. Write the shard again.")
        _check_same(member, cut, where, shard)
        try:
            utterance = _read_cut(cut, shard.audio)
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from error
        yield ShardEntry(utterance, line, member.start, member.size)
    if (member := next(members, None)) is not None:
        raise ValueError(f"{cuts}: no cut for {member.name!r:.60} in {shard.audio}. Write the shard again.")


def _check_same(member: TarMember, cut: dict[str, Any], where: str, shard: Shard) -> None:
    name, ending = os.path.splitext(member.name)
    if name != cut.get("id"):
        raise ValueError(
            f"{where}: cut {cut.get('id')!r:.60} is at the place of {member.name!r:.60} in {shard.audio}. Cuts and "
            "audio must have the same order; write the shard again."
        )
    if ending == NO_AUDIO:
        raise ValueError(f"{where}: cut {name!r:.60} has no audio. Exclude such cuts when you write the shards.")


def _read_cut(cut: dict[str, Any], audio: str) -> Utterance:
    supervisions = cut.get("supervisions")
    if not isinstance(supervisions, list) or len(supervisions) != 1 or not isinstance(supervisions[0], dict):
        found = len(supervisions) if isinstance(supervisions, list) else "no"
        raise ValueError(
            f"expected a cut with one supervision; it has {found}. Use `cuts.trim_to_supervisions()` before you write "
            "the shards"
        )
    if cut.get("start", 0) != 0:
        raise ValueError(f"expected a cut that starts at 0, as in Shar; got {cut['start']!r:.60}")
    supervision = supervisions[0]
    if not isinstance(supervision.get("language"), str):
        raise ValueError("`language` of the supervision is missing. Set it before you write the shards")
    custom = [one.get("custom") for one in (cut, supervision)]
    known = Utterance.field_names()
    return Utterance(
        audio_filepath=audio,
        duration=check_seconds("duration", cut.get("duration")),
        text=optional_text(supervision, "text") or "",
        lang=supervision["language"],
        id=optional_text(cut, "id"),
        speaker=optional_text(supervision, "speaker"),
        corpus=next((one["corpus"] for one in custom if isinstance(one, dict) and "corpus" in one), None),
        extra={
            name: value for one in custom if isinstance(one, dict) for name, value in one.items() if name not in known
        },
    )


def _read_webdataset(shard: Shard, file: BinaryIO) -> Iterator[ShardEntry]:
    samples = groupby(tar_members(file, shard.audio), key=lambda member: _split(member.name)[0])
    for number, (key, members) in enumerate(samples, start=1):
        try:
            yield _read_sample(key, list(members), number, shard, file)
        except ValueError as error:
            raise ValueError(f"{shard.audio}: utterance {key!r:.60}: {error}") from error


def _read_sample(key: str, members: list[TarMember], number: int, shard: Shard, file: BinaryIO) -> ShardEntry:
    by_ending = {_split(member.name)[1]: member for member in members}
    is_distinct = len(by_ending) == len(members)
    metadata = by_ending.pop("json", None)
    text = by_ending.pop("txt", None)
    if metadata is None or len(by_ending) != 1 or not is_distinct:
        raise ValueError(
            f"expected a JSON file and one audio file; found {', '.join(member.name for member in members):.200}"
        )
    [audio] = by_ending.values()
    record = parse_json(_read_text(file, metadata))
    if not isinstance(record, dict):
        raise ValueError(f"{metadata.name!r:.60} must contain a JSON object; got {record!r:.60}")
    record = {"id": key, **record, "audio_filepath": shard.audio}
    if text is not None:
        record["text"] = _read_text(file, text).strip()
    if "duration" not in record:
        file.seek(audio.start)
        record["duration"] = audio_duration(file.read(audio.size), audio.name)
    utterance = Utterance.from_record(record)
    if utterance.offset:
        raise ValueError("`offset` is not supported in shards; save the segment alone")
    return ShardEntry(utterance, number, audio.start, audio.size)


def _read_text(file: BinaryIO, member: TarMember) -> str:
    if member.size > MAX_JSON_BYTES:
        raise ValueError(f"{member.name!r:.60} has {member.size:,} bytes, more than {MAX_JSON_BYTES:,}")
    file.seek(member.start)
    return file.read(member.size).decode()


def _split(name: str) -> tuple[str, str]:
    """The key of a member, and its ending: what follows the first dot of the file name."""
    folder, slash, base = name.rpartition("/")
    stem, _, ending = base.partition(".")
    return folder + slash + stem, ending.lower()
