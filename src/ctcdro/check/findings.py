"""Problems in a dataset, with file and line, and the report of a check."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from ..prepare.statistics import Statistics

# Findings to keep per kind and severity, in case millions of lines have the same problem.
MAX_KEPT = 1000

Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem and its manifest line."""

    kind: str
    severity: Severity
    where: str
    detail: str


class Findings:
    """Collects findings: counts all, and keeps the first `MAX_KEPT` per kind and severity."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, Severity]] = Counter()
        self._kept: dict[tuple[Severity, str], list[Finding]] = defaultdict(list)

    def add(self, finding: Finding) -> None:
        self.counts[finding.kind, finding.severity] += 1
        kept = self._kept[finding.severity, finding.kind]
        if len(kept) < MAX_KEPT:
            kept.append(finding)

    def error(self, kind: str, where: str, detail: str) -> None:
        """Adds a problem that stops training or biases the model."""
        self.add(Finding(kind, "error", where, detail))

    def warning(self, kind: str, where: str, detail: str) -> None:
        self.add(Finding(kind, "warning", where, detail))

    def kept(self) -> list[Finding]:
        """Errors first, by kind; those of one kind in the order they were added."""
        return [finding for _, findings in sorted(self._kept.items()) for finding in findings]


@dataclass(frozen=True)
class CheckReport:
    """The result of checking a dataset."""

    dataset: str
    frame_rate: float
    decoded: bool
    """Whether the audio was decoded, or only its headers were read."""
    statistics: Mapping[str, Mapping[str, Statistics]]
    """By split and language."""
    findings: list[Finding]
    """The first `MAX_KEPT` of each kind and severity, errors first, by kind."""
    counts: Counter[tuple[str, Severity]]
    """Number of findings of each kind and severity, including those that were not kept."""
    durations: dict[str, npt.NDArray[np.float64]] = field(repr=False)
    """Seconds of the training utterances, by group."""

    @property
    def errors(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.severity == "error"]

    def count(self, severity: Severity) -> int:
        """Number of errors or warnings, including those that were not kept."""
        return sum(number for (_, other), number in self.counts.items() if other == severity)

    def by_kind(self) -> dict[str, list[Finding]]:
        """Findings by kind, errors first."""
        kinds: dict[str, list[Finding]] = defaultdict(list)
        for finding in self.findings:
            kinds[finding.kind].append(finding)
        return dict(kinds)

    def count_by_kind(self) -> dict[str, int]:
        return {kind: self.counts[kind, "error"] + self.counts[kind, "warning"] for kind in self.by_kind()}

    def to_json(self) -> str:
        record = {
            "dataset": self.dataset,
            "frame_rate": self.frame_rate,
            "decoded": self.decoded,
            "errors": self.count("error"),
            "warnings": self.count("warning"),
            "statistics": self.statistics,
            "counts": self.count_by_kind(),
            "findings": self.findings,
        }
        return json.dumps(record, ensure_ascii=False, indent=2, default=asdict)
