"""The language sets of the paper, from the tables in its appendix: (language, corpus) pairs by name.

Corpora have the names of the ML-SUPERB 2.0 folders. The paper's GOP, the open-source project Googlei18n, is two folders
there: `googlei18n` means the one that has the language. Its MLL, in one row, is MLS.

The tables are as printed. In `set2-extra` the rows of Italian and English look exchanged: Italian has corpora of
English speech (LAD, NCHLT), and English lacks LAD, which it has in `set2`. Readers can skip pairs that are not on disk.
"""

from __future__ import annotations

from pathlib import Path

from ...storage.json_files import read_json

Pair = tuple[str, str]

_TABLES = read_json(Path(__file__).with_suffix(".json"))

SETS: dict[str, tuple[Pair, ...]] = {
    name: tuple((language, corpus) for language, corpora in rows.items() for corpus in corpora)
    for name, rows in _TABLES["sets"].items()
}

# Ids of five training utterances of each reserved language (Shi et al., 2024, ML-SUPERB 2.0; listed in the benchmark's
# recipe).
FEW_SHOT: dict[str, frozenset[str]] = {language: frozenset(ids) for language, ids in _TABLES["few_shot"].items()}


def parse_pairs(text: str) -> tuple[Pair, ...]:
    """Parses pairs such as "ces:commonvoice,cmn:fleurs"."""
    pairs = []
    for part in text.split(","):
        language, colon, corpus = (word.strip() for word in part.partition(":"))
        if not (language and colon and corpus):
            raise ValueError(f"--pairs must look like ces:commonvoice,cmn:fleurs; got {part!r}.")
        pairs.append((language, corpus))
    return tuple(dict.fromkeys(pairs))
