"""Results that the paper reports on its sets, in percent, for comparison with runs.

CER per language, their mean, and language accuracy, on the test data of ML-SUPERB 2.0; one seed each. The authors'
scoring is our profile `paper`. Step size and smoothing are those that the paper selects on development data. The
numbers are in paper_results.txt, in this folder.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..prepare.readers.ml_superb_sets import SETS

MODELS = {"facebook/mms-300m": "MMS", "facebook/wav2vec2-xls-r-300m": "XLS-R"}
"""The paper's names of encoders."""

_OBJECTIVES = {"Base": "erm", "GDRO": "group-dro", "Ours": "ctc-dro"}


@dataclass(frozen=True, slots=True)
class PaperResult:
    """A row of the paper's tables."""

    model: str
    objective: str
    step_size: float | None
    smoothing: float | None
    cer: dict[str, float]
    """By language, in percent."""
    mean: float
    lid: float

    @property
    def worst(self) -> tuple[str, float]:
        """The worst language and its CER."""
        return max(self.cer.items(), key=lambda item: item[1])


def paper_results(set_name: str, encoder: str | None = None) -> list[PaperResult]:
    """The rows of a set: those of the encoder if the paper has it, otherwise all.

    Example:
        >>> for row in paper_results("set5", "facebook/wav2vec2-xls-r-300m"):
        ...     print(row.objective, row.step_size, row.smoothing, row.worst, row.mean, row.lid)
        erm None None ('jpn', 114.8) 29.9 89.0
        group-dro 0.0001 None ('jpn', 92.9) 36.8 57.7
        ctc-dro 0.0001 0.1 ('jpn', 71.5) 23.8 91.0
    """
    _, header, *lines = _read_sets()[set_name]
    languages = header.split()[:-2]
    rows = []
    for model, method, *numbers in map(str.split, lines):
        step_size, smoothing = (None if number == "-" else float(number) for number in numbers[:2])
        *cers, mean, lid = map(float, numbers[2:])
        cer = dict(zip(languages, cers, strict=True))
        rows.append(PaperResult(model, _OBJECTIVES[method], step_size, smoothing, cer, mean, lid))
    return [row for row in rows if row.model == MODELS.get(encoder or "")] or rows


def paper_tables_of(set_name: str) -> str:
    """Labels of the tables in the paper's source that have the results of a set.

    Example:
        >>> paper_tables_of("scale18")
        'tab:scale-test; tab:scale-dev'
    """
    return _read_sets()[set_name][0].partition(": ")[2]


def _read_sets() -> dict[str, list[str]]:
    """The lines of each set in the file of results."""
    text = Path(__file__).with_name("paper_results.txt").read_text(encoding="utf-8")
    blocks = [block.strip().splitlines() for block in text.split("\n\n")[1:]]
    return {lines[0].partition(":")[0]: lines for lines in blocks}


def find_set(pairs: frozenset[tuple[str, str | None]]) -> str | None:
    """The paper's set that has exactly these languages and corpora.

    Example:
        >>> find_set(frozenset(SETS["set3"])), find_set(frozenset({("ces", "synthetic")}))
        ('set3', None)
    """
    # The paper has one name for both folders of Googlei18n.
    merged = {
        (language, "googlei18n" if corpus and corpus.startswith("googlei18n") else corpus) for language, corpus in pairs
    }
    return next((name for name, own in SETS.items() if merged == set(own)), None)
