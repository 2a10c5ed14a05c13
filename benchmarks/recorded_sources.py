"""Readers of the public sources of recorded speech: Debian packages and git repositories, unpacked.

Each reader takes the folder of one source and yields its clips in a fixed order, with the text as the source has it.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Clip:
    """A recording and its text."""

    corpus: str
    name: str
    """Unique among the clips of a language."""
    path: Path
    text: str
    split: str | None = None
    """For sources with an official split: "train" or "test"."""


def festvox_ru(package: Path) -> Iterator[Clip]:
    """Read Russian sentences. A plus before a vowel marks stress, and is removed."""
    voice = package / "usr/share/festival/voices/russian/msu_ru_nsh_clunits"
    for line in (voice / "etc/txt.done.data").read_text(encoding="utf-8").splitlines():
        if entry := re.fullmatch(r'\( (\S+) "(.*)" \)', line.strip()):
            yield Clip("festvox-ru", entry[1], voice / f"wav/{entry[1]}.wav", entry[2].replace("+", ""))


def fillets(speech: Path, scripts: Path, code: str) -> Iterator[Clip]:
    """Acted dialogue of a game, in the language `code`.

    Args:
        speech: the package with the recordings, such as fillets-ng-data-cs.
        scripts: the package with the texts, fillets-ng-data.
    """
    folder = speech / "usr/share/games/fillets-ng/sound"
    texts = _fillets_texts(scripts / "usr/share/games/fillets-ng/script", code)
    for path in sorted(folder.glob(f"**/{code}/*.ogg")):
        level = path.relative_to(folder).parts[0]
        if text := texts.get((level, path.stem)):
            yield Clip("fillets", f"{level}-{path.stem}", path, text)


def _fillets_texts(folder: Path, code: str) -> dict[tuple[str, str], str]:
    """Texts by level and name. Calls of `dialogStr` that begin on another line than their text are not read."""
    texts = {}
    for path in sorted(folder.glob(f"**/*dialogs_{code}.lua")):
        script = path.read_text(encoding="utf-8")
        for name, text in re.findall(r'dialogId\("([^"]+)"[^)]*\)\s*dialogStr\("([^"]*)"\)', script):
            texts[path.parent.name, name] = text
    return texts


def tuxpaint(package: Path, code: str) -> Iterator[Clip]:
    """Names and descriptions of things, read aloud in the language `code`."""
    folder = package / "usr/share/tuxpaint/stamps"
    for path in sorted(folder.glob(f"**/*_desc_{code}.ogg")):
        name = path.relative_to(folder).as_posix().removesuffix(f"_desc_{code}.ogg")
        listing = folder / f"{name}.txt"
        lines = listing.read_text(encoding="utf-8", errors="replace").splitlines() if listing.exists() else []
        text = next((line.partition("=")[2] for line in lines if line.startswith(f"{code}.utf8=")), "")
        yield Clip("tuxpaint", name.replace("/", "-"), path, text)


def iban(repository: Path) -> Iterator[Clip]:
    """Iban radio news. The speakers of the test data are not in the training data."""
    for split in ("train", "test"):
        for line in (repository / f"data/{split}/{split}_text").read_text(encoding="utf-8").splitlines():
            name, _, text = line.partition(" ")
            speaker = name.rpartition("_")[0]
            yield Clip("iban", name, repository / f"data/wav/{speaker}/{name}.wav", text, split)


def audio_cmn(repository: Path) -> Iterator[Clip]:
    """Single Mandarin words. An underscore in a name stands for omitted words, and is removed."""
    for path in sorted((repository / "96k/hsk").glob("cmn-*.mp3")):
        word = path.stem.removeprefix("cmn-")
        yield Clip("audio-cmn", word, path, word.replace("_", ""))


def asterisk(texts: Path, speech: Path, code: str) -> Iterator[Clip]:
    """Telephone prompts, in the language `code`; names of letters have no text.

    Args:
        texts: the package with the texts, such as asterisk-core-sounds-en.
        speech: the package with G.722 audio, such as asterisk-core-sounds-en-g722.
    """
    listing = texts / f"usr/share/doc/{texts.name}/core-sounds-{code}.txt.gz"
    with gzip.open(listing, "rt", encoding="utf-8-sig", errors="replace") as file:
        lines = [line.partition(":") for line in file if ":" in line and not line.startswith(";")]
    text_of = {name.strip(): text for name, _, text in lines}
    folder = next((speech / "usr/share/asterisk/sounds").iterdir())
    for path in sorted(folder.glob("**/*.g722")):
        name = path.relative_to(folder).as_posix().removesuffix(".g722")
        text = "" if name.startswith("letters/") else text_of.get(name, "")
        yield Clip("asterisk", name.replace("/", "-"), path, text)
