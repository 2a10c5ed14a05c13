"""The language sets of the paper, from the tables in its appendix: (language, corpus) pairs by name.

Corpora have the names of the ML-SUPERB 2.0 folders. The paper's GOP, the open-source project Googlei18n, is two folders
there: `googlei18n` means the one that has the language.

The tables are as printed. In `set2-extra` the rows of Italian and English look exchanged: Italian has corpora of
English speech (LAD, NCHLT), and English lacks LAD, which it has in `set2`. Readers can skip pairs that are not on disk.
"""

from __future__ import annotations

Pair = tuple[str, str]

_CORPORA = {
    "CV": "commonvoice",
    "Fleurs": "fleurs",
    "GOP": "googlei18n",
    "LAD": "LAD",
    "MLL": "mls",  # in one row of the paper
    "MLS": "mls",
    "MSD": "M-AILABS",
    "NCHLT": "nchlt",
    "SWC": "swc",
    "VF": "voxforge",
    "VP": "voxpopuli",
}


def _pairs(table: str) -> tuple[Pair, ...]:
    """Parses "ces CV Fleurs; nan CV"."""
    rows = [row.split() for row in table.split(";")]
    return tuple((language, _CORPORA[corpus]) for language, *corpora in rows for corpus in corpora)


SETS: dict[str, tuple[Pair, ...]] = {
    "set1": _pairs("ces CV; cmn Fleurs; nan CV; pol MSD; ron Fleurs; spa VF"),
    "set2": _pairs("yue Fleurs; hrv Fleurs; eng LAD; ita Fleurs; fas CV; slk Fleurs"),
    "set3": _pairs("khm Fleurs; kor Fleurs; kmr CV; nno CV; nbl NCHLT; tat CV"),
    "set4": _pairs("snd Fleurs; slv CV; sot GOP; spa MSD; urd Fleurs; mrj CV"),
    "set5": _pairs("eng VF; deu VF; heb Fleurs; jpn Fleurs; rus Fleurs; spa Fleurs"),
    "set1-extra": _pairs(
        "ces CV Fleurs VP; cmn CV Fleurs; nan CV; pol CV Fleurs MSD MLL VP; ron CV Fleurs VP;"
        "spa CV Fleurs MSD MLS VF VP"
    ),
    "set2-extra": _pairs(
        "yue CV Fleurs; hrv Fleurs VP; ita CV Fleurs LAD MSD MLS NCHLT SWC VF VP; eng CV Fleurs MSD MLS VF VP;"
        "fas CV Fleurs; slk CV Fleurs VP"
    ),
    "scale18": _pairs(
        "bak CV; mya Fleurs; cmn CV; nan CV; yue CV; ces CV; eng LAD; fra MLS; deu VF; grn CV; ita Fleurs; khm Fleurs;"
        "fas CV; pol MSD; ron Fleurs; rus LAD; spa VF; ssw NCHLT"
    ),
    "scale18-extra": _pairs(
        "bak CV; mya Fleurs; yue CV Fleurs; cmn CV Fleurs; nan CV; ces CV Fleurs VP;"
        "eng CV Fleurs LAD MSD MLS NCHLT SWC VF VP; fra CV Fleurs MSD MLS VF VP; deu CV Fleurs MSD MLS SWC VF VP;"
        "grn CV; ita CV Fleurs MSD VF VP; khm Fleurs; fas CV Fleurs; pol CV Fleurs MSD MLS VP; ron CV Fleurs VP;"
        "rus CV Fleurs LAD MSD VF; spa CV Fleurs MSD MLS VF VP; ssw NCHLT"
    ),
}


def parse_pairs(text: str) -> tuple[Pair, ...]:
    """Parses pairs as users write them.

    Example:
        >>> parse_pairs("ces:commonvoice,cmn:fleurs")
        (('ces', 'commonvoice'), ('cmn', 'fleurs'))
    """
    pairs = []
    for part in text.split(","):
        language, colon, corpus = (word.strip() for word in part.partition(":"))
        if not (language and colon and corpus):
            raise ValueError(f"`pairs` must look like ces:commonvoice,cmn:fleurs; got {part!r}.")
        pairs.append((language, corpus))
    return tuple(dict.fromkeys(pairs))


# Five training utterances of each reserved language: prefixes and numbers of ids such as cv_lit_000026 (Shi et al.,
# 2024, ML-SUPERB 2.0; listed in the benchmark's recipe).
_FEW_SHOT = {
    "bos": "fleurs 67 78 80 88 90",
    "ceb": "fleurs 54 64 69 71 80",
    "dan": "NST 7 72, cv 158, fleurs 58 71",
    "epo": "cv 6 39 63 66 76",
    "frr": "cv 23 86 95 102 104",
    "ful": "fleurs 55 59 67 76 81",
    "kaz": "cv 80 97 111, fleurs 36 66",
    "kea": "fleurs 52 70 78 83 85",
    "lit": "cv 26 105, fleurs 97, mls 40, voxpopuli 1707",
    "luo": "fleurs 56 62 67 73 77",
    "srp": "cv 78 145, fleurs 68 93 105",
    "sun": "googlei18n-asr 1 7 41 99 106",
    "tok": "cv 4 11 30 84 101",
    "tos": "mexico-el 6 122 152 496 563",
    "tsn": "googlei18n-tts 26 44 108, nchlt 1 32",
    "tso": "nchlt 35 40 89 104 125",
    "tur": "cv 95 101, fleurs 60 69 95",
    "umb": "fleurs 28 29 33 40 47",
    "vie": "cv 105 128, fleurs 67 68 77",
    "zul": "fleurs 49 57, nchlt 27 90 104",
}

FEW_SHOT: dict[str, frozenset[str]] = {
    language: frozenset(
        f"{prefix}_{language}_{int(number):06d}"
        for part in chosen.split(",")
        for prefix, *numbers in [part.split()]
        for number in numbers
    )
    for language, chosen in _FEW_SHOT.items()
}
