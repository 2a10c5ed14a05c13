"""How often which language was recognized."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from ..scoring.edits import Floats, Integers
from ..scoring.scores import NO_LANGUAGE
from .study import MethodRuns


@dataclass(frozen=True)
class ConfusionMatrix:
    """Numbers of utterances by spoken and recognized language."""

    spoken: list[str]
    recognized: list[str]
    counts: Integers
    """(spoken, recognized)"""

    @property
    def shares(self) -> Floats:
        """Shares of the utterances of each spoken language."""
        return self.counts / np.maximum(self.counts.sum(axis=1, keepdims=True), 1)

    @property
    def num_right(self) -> int:
        return int(np.trace(self.counts))


def confusion_matrix(method: MethodRuns) -> ConfusionMatrix:
    """Adds up the confusions of all runs of a method; the last column is for hypotheses without a language."""
    total: dict[str, Counter[str]] = {}
    for run in method.runs:
        for spoken, recognized in run.scores.confusion.items():
            total.setdefault(spoken, Counter()).update(recognized)
    others = {name for row in total.values() for name in row} - set(total)
    columns = [*total, *sorted(others, key=lambda name: (name == NO_LANGUAGE, name))]
    counts = np.array([[row[name] for name in columns] for row in total.values()], dtype=np.int64)
    return ConfusionMatrix(list(total), columns, counts)
