"""ML-SUPERB 2.0, unpacked from its archive, or as its copy for the library `datasets`.

On disk there is one folder per corpus and language:

    commonvoice/ces/wav/cv_ces_000001.wav
    commonvoice/ces/transcript_1h_train.txt      or transcript_10min_train.txt
    commonvoice/ces/transcript_10min_dev.txt
    commonvoice/ces/transcript_10min_test.txt

Transcript lines are read as in the benchmark's recipe: an id, an ignored field, and the text, separated by spaces or
tabs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from ...storage.lines import numbered_lines
from ...storage.paths import PathLike
from ..entries import MISSING_CORPUS, SPLITS, CorpusEntry, Dropped, entry_in_folder
from .huggingface import Columns, read_huggingface
from .ml_superb_sets import FEW_SHOT, Pair

Reserved = Literal["few-shot", "all", "none"]

_FOLDERS = {"googlei18n": ("googlei18n_tts", "googlei18n_asr")}

# Two corpora have Japanese twice: `jpn`, and `org_jpn` from before words were separated. It is one language.
_LANGUAGE_FOLDERS = {"jpn": ("jpn", "org_jpn")}

# Prefixes of ids that differ from the name of the corpus folder.
_CORPUS_OF_PREFIX = {"cv": "commonvoice", "googlei18n-asr": "googlei18n_asr", "googlei18n-tts": "googlei18n_tts"}


def find_pairs(root: PathLike) -> tuple[Pair, ...]:
    """All (language, corpus) on disk."""
    folders = [path.parent for path in Path(root).glob("*/*/transcript_10min_dev.txt")]
    if not folders:
        raise ValueError(f"{root}: no corpora in it; expected folders such as commonvoice/ces with transcripts.")
    return tuple(sorted({(folder.name.removeprefix("org_"), folder.parent.name) for folder in folders}))


def read_ml_superb(
    root: PathLike,
    pairs: Sequence[Pair],
    train: Literal["1h", "10min"] = "1h",
    reserved: Reserved = "few-shot",
    skip_missing: bool = False,
) -> Iterator[CorpusEntry | Dropped]:
    """Reads languages and corpora of the benchmark.

    Args:
        root: folder of the corpora.
        pairs: languages and corpora, such as those of `ml_superb_sets.SETS`.
        train: which of the two training sets to read.
        reserved: training data of the 20 reserved languages: the benchmark's five utterances each, all, or none.
        skip_missing: whether to skip pairs that are not on disk.
    """
    folders = []
    for pair in pairs:
        pair_folders = _folders_of(Path(root), pair)
        if not pair_folders and not skip_missing:
            raise ValueError(_explain_missing(Path(root), pair))
        if not pair_folders:
            yield Dropped("train", pair[0], str(root), MISSING_CORPUS, ":".join(pair))
        folders += pair_folders
    for language, folder in folders:
        for split in SPLITS:
            name = f"transcript_{train if split == 'train' else '10min'}_{split}.txt"
            for item in _read_transcript(folder, name, split, language):
                if _is_wanted(item.id or "", language, split, reserved):
                    yield item


def read_ml_superb_copy(
    name: str,
    out: PathLike,
    pairs: Collection[Pair] | None = None,
    reserved: Reserved = "few-shot",
    skip_missing: bool = False,
) -> Iterator[CorpusEntry | Dropped]:
    """Reads the benchmark's copy for `datasets` (hub name or folder), and writes its audio to `out`.

    Its texts begin with the language, as in "[ces] ahoj"; the ids identify the corpora.
    """
    wanted = None if pairs is None else {(language, folder) for language, corpus in pairs for folder in _names(corpus)}
    available: set[Pair] = set()

    def keep(split: str, id: str, language: str | None) -> bool:
        language = (language or "").removeprefix("org_")
        available.add((language, _corpus_of(id)))
        is_chosen = wanted is None or (language, _corpus_of(id)) in wanted
        return is_chosen and _is_wanted(id, language, split, reserved)

    for item in read_huggingface(name, out, Columns(id="id", language="language"), keep=keep):
        yield _as_on_disk(item)
    for language, corpus in pairs or []:
        if not any((language, folder) in available for folder in _names(corpus)):
            if not skip_missing:
                raise ValueError(f"{name}: no data for {language}:{corpus}. Skip it with --on-missing skip.")
            yield Dropped("train", language, name, MISSING_CORPUS, f"{language}:{corpus}")


def _corpus_of(id: str) -> str:
    prefix = id.split("_")[0]
    return _CORPUS_OF_PREFIX.get(prefix, prefix)


def _names(corpus: str) -> tuple[str, ...]:
    return _FOLDERS.get(corpus, (corpus,))


def _folders_of(root: Path, pair: Pair) -> list[tuple[str, Path]]:
    language, corpus = pair
    codes = _LANGUAGE_FOLDERS.get(language, (language,))
    candidates = [root / name / code for name in _names(corpus) for code in codes]
    folders = [(language, folder) for folder in candidates if folder.is_dir()]
    return folders[:1] if corpus not in _FOLDERS else folders


def _explain_missing(root: Path, pair: Pair) -> str:
    language, corpus = pair
    available = ", ".join(f"{other}:{name}" for other, name in find_pairs(root) if other == language) or "nothing"
    return (
        f"{root / _names(corpus)[0] / language}: no such folder for {language}:{corpus} (found for {language}: "
        f"{available}). Specify the corpora with --pairs, or skip missing ones with --on-missing skip."
    )


def _is_wanted(id: str, language: str, split: str, reserved: Reserved) -> bool:
    if split != "train" or language not in FEW_SHOT or reserved == "all":
        return True
    return reserved == "few-shot" and id in FEW_SHOT[language]


def _as_on_disk(item: CorpusEntry | Dropped) -> CorpusEntry | Dropped:
    language = item.lang.removeprefix("org_")
    if isinstance(item, Dropped):
        return replace(item, lang=language)
    text = item.text.strip().removeprefix(f"[{item.lang}]")
    return replace(item, lang=language, text=text, corpus=_corpus_of(item.id or ""))


def _read_transcript(folder: Path, name: str, split: str, language: str) -> Iterator[CorpusEntry | Dropped]:
    path = folder / name
    if not path.is_file():
        raise ValueError(f"{path}: no such file; expected the transcripts of ML-SUPERB 2.0.")
    for number, line in numbered_lines(path):
        id, *rest = line.split(maxsplit=2)
        yield entry_in_folder(
            folder / "wav",
            f"{id}.wav",
            split=split,
            lang=language,
            where=f"{path}:{number}",
            id=id,
            text=rest[1] if len(rest) == 2 else "",
            corpus=folder.parent.name,
        )
