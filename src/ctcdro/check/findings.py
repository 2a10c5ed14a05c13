"""What is wrong with a dataset, and where: one finding, many of them, and the report of a check."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import asdict, dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from ..prepare.statistics import Statistics

# Of one kind and severity; where millions of lines have the same fault, the rest is counted.
MOST_KEPT = 1000

Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong, where, and what about it."""

    kind: str
    severity: Severity
    where: str
    detail: str


class Findings:
    """Findings in their order, the first `MOST_KEPT` of each kind and severity, and the number of all.

    Example:
        >>> findings = Findings()
        >>> for line in range(2000):
        ...     findings.add(Finding("empty transcript", "error", f"train.jsonl:{line + 1}", "`text` is empty"))
        >>> len(findings.kept), findings.counts["empty transcript", "error"]
        (1000, 2000)
    """

    def __init__(self) -> None:
        self.kept: list[Finding] = []
        self.counts: Counter[tuple[str, Severity]] = Counter()

    def add(self, finding: Finding) -> None:
        """Counts a finding, and keeps it if it is one of the first."""
        self.counts[finding.kind, finding.severity] += 1
        if self.counts[finding.kind, finding.severity] <= MOST_KEPT:
            self.kept.append(finding)


@dataclass(frozen=True)
class CheckReport:
    """What was found in a dataset."""

    dataset: str
    frame_rate: float
    decoded: bool
    """Whether the audio was read, or only its headers."""
    statistics: dict[str, dict[str, Statistics]]
    """By split and language."""
    findings: list[Finding]
    """The first `MOST_KEPT` of each kind and severity."""
    counts: Counter[tuple[str, Severity]]
    """The number of all, by kind and severity."""
    durations: dict[str, npt.NDArray[np.float64]] = field(repr=False)
    """Seconds of the training utterances, by group."""

    @property
    def errors(self) -> list[Finding]:
        """Those of the findings that are errors."""
        return [finding for finding in self.findings if finding.severity == "error"]

    @property
    def num_errors(self) -> int:
        return self._num_of("error")

    @property
    def num_warnings(self) -> int:
        return self._num_of("warning")

    def _num_of(self, severity: Severity) -> int:
        return sum(number for (_, own), number in self.counts.items() if own == severity)

    def by_kind(self) -> dict[str, list[Finding]]:
        """Findings by their kind, errors first."""
        found: dict[str, list[Finding]] = defaultdict(list)
        for finding in sorted(self.findings, key=lambda finding: (finding.severity, finding.kind)):
            found[finding.kind].append(finding)
        return dict(found)

    def count_by_kind(self) -> dict[str, int]:
        """The number of all findings of each kind, in the same order."""
        return {kind: self.counts[kind, "error"] + self.counts[kind, "warning"] for kind in self.by_kind()}

    def to_json(self) -> str:
        """All but the durations."""
        statistics = {
            split: {language: asdict(one) for language, one in languages.items()}
            for split, languages in self.statistics.items()
        }
        record = {
            "dataset": self.dataset,
            "frame_rate": self.frame_rate,
            "decoded": self.decoded,
            "errors": self.num_errors,
            "warnings": self.num_warnings,
            "statistics": statistics,
            "counts": self.count_by_kind(),
            "findings": [asdict(finding) for finding in self.findings],
        }
        return json.dumps(record, ensure_ascii=False, indent=2)
