"""Edits between references and hypotheses: substitutions, deletions and insertions per utterance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..runtime.extras import extra

with extra("data", "Counting edits"):
    from rapidfuzz.distance import Levenshtein

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Edits:
    """Edits that turn references into hypotheses: arrays over utterances, or totals."""

    substitutions: Any
    deletions: Any
    insertions: Any
    reference: Any
    """Characters or words of the references."""

    @property
    def total(self) -> Any:
        return self.substitutions + self.deletions + self.insertions

    def sum(self, selected: Any, of_edits: Any = 1, of_reference: Any = 1) -> Edits:
        """Totals of the selected utterances, times shares of their edits and references, as whole numbers."""
        shares = zip(self.__slots__, (of_edits, of_edits, of_edits, of_reference), strict=True)
        return Edits(*(round(float((getattr(self, name)[selected] * share).sum())) for name, share in shares))


def count_fewest(references: Sequence[Sequence[str]], hypotheses: Sequence[Sequence[str]]) -> Edits:
    """Counts the fewest edits between texts (characters) or lists of words."""
    rows = []
    for reference, hypothesis in zip(references, hypotheses, strict=True):
        tags = Counter(edit.tag for edit in Levenshtein.editops(reference, hypothesis))
        rows.append((tags["replace"], tags["delete"], tags["insert"], len(reference)))
    return _edits(rows)


def count_as_sclite(references: Sequence[Sequence[str]], hypotheses: Sequence[Sequence[str]]) -> Edits:
    """Counts the edits of NIST's sclite, whose alignments cost 4 per substitution and 3 per insertion or deletion.

    Such an alignment can have more edits than necessary, but never more substitutions. Among alignments of equal cost,
    the one with the fewest edits is used.
    """
    return _edits([_align_as_sclite(*pair) for pair in zip(references, hypotheses, strict=True)])


def _align_as_sclite(reference: Sequence[str], hypothesis: Sequence[str]) -> tuple[int, int, int, int]:
    # One distance encodes both cost and number of edits: each edit adds `scale` times its cost, plus one.
    scale = len(reference) + len(hypothesis) + 1
    indel, substitution = 3 * scale + 1, 4 * scale + 1
    distance = Levenshtein.distance(reference, hypothesis, weights=(indel, indel, substitution))
    cost, edits = divmod(distance, scale)
    substitutions = cost - 3 * edits
    longer = len(hypothesis) - len(reference)
    insertions = (edits - substitutions + longer) // 2
    return substitutions, insertions - longer, insertions, len(reference)


def _edits(rows: Sequence[tuple[int, int, int, int]]) -> Edits:
    return Edits(*np.array(rows, dtype=np.int64).reshape(-1, 4).T)
