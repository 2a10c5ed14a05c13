"""The paper's results on its language sets, in percent, for comparison with runs.

CER per language, their mean, and language accuracy on the test data of ML-SUPERB 2.0, with one seed. The authors'
scoring corresponds to the scoring profile `paper`. Step size and smoothing are those that the paper selected on
development data. The numbers are in paper_results.txt, in this folder.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ..prepare.readers.ml_superb_sets import SETS

MODELS = {"facebook/mms-300m": "MMS", "facebook/wav2vec2-xls-r-300m": "XLS-R"}
"""The paper's names of encoders."""


@dataclass(frozen=True, slots=True)
class PaperResult:
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
        return max(self.cer.items(), key=lambda item: item[1])


def paper_results(set_name: str, encoder: str | None = None) -> list[PaperResult]:
    """The rows of a set: those of the encoder if the paper uses it, otherwise all."""
    _, header, *lines = _read_sets()[set_name]
    languages = header.split()[:-2]
    rows = []
    for model, objective, *numbers in map(str.split, lines):
        step_size, smoothing = (None if number == "-" else float(number) for number in numbers[:2])
        *cers, mean, lid = map(float, numbers[2:])
        cer = dict(zip(languages, cers, strict=True))
        rows.append(PaperResult(model, objective, step_size, smoothing, cer, mean, lid))
    return [row for row in rows if row.model == MODELS.get(encoder or "")] or rows


def paper_tables_of(set_name: str) -> str:
    """Labels, in the paper's source, of the tables with the results of a set."""
    return _read_sets()[set_name][0].partition(": ")[2]


def _read_sets() -> dict[str, list[str]]:
    text = Path(__file__).with_name("paper_results.txt").read_text(encoding="utf-8")
    blocks = [block.strip().splitlines() for block in text.split("\n\n")[1:]]
    return {lines[0].partition(":")[0]: lines for lines in blocks}


def find_set(pairs: Iterable[tuple[str, str | None]]) -> str | None:
    """The paper's set with exactly these languages and corpora."""
    # The paper uses one name for both folders of Googlei18n.
    merged = {
        (language, "googlei18n" if corpus and corpus.startswith("googlei18n") else corpus) for language, corpus in pairs
    }
    return next((name for name, own in SETS.items() if merged == set(own)), None)
