"""`ctcdro score`, and how scores are printed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ..scoring.formatting import format_percent
from ..speech.language_names import language_name
from .options import JsonOption, ScoringOption, file_to_write, must_be_file

if TYPE_CHECKING:
    from ..scoring.comparisons import Difference
    from ..scoring.intervals import Interval, Uncertainty
    from ..scoring.scores import Counts, Scores
    from ..scoring.seeds import TTest
    from ..scoring.transcripts import Transcript


def score(
    reference: Annotated[
        Path,
        typer.Argument(
            metavar="REFERENCE",
            help="References: a manifest, or Kaldi's text or NIST's trn with language tokens.",
            callback=must_be_file(),
        ),
    ],
    hypotheses: Annotated[
        list[Path],
        typer.Argument(
            metavar="HYPOTHESES",
            help="Hypotheses of one or more systems, one file each, in any of these formats.",
            callback=must_be_file(),
        ),
    ],
    scoring: ScoringOption = "plain",
    language: Annotated[
        str | None, typer.Option(metavar="CODE", help="Language of references that specify none, e.g. ces.")
    ] = None,
    on_missing: Annotated[
        Literal["fail", "empty"],
        typer.Option(help="Fail if a reference has no hypothesis, or count an empty one."),
    ] = "fail",
    as_json: JsonOption = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="JSON file for scores and intervals.", callback=file_to_write),
    ] = None,
) -> None:
    """Score transcripts of any system, with confidence intervals.

    Prints CER, WER and language identification accuracy (LID) per language and over languages. Each further file of
    hypotheses is compared with the first.

    Example: ctcdro score test.jsonl baseline.trn ctc-dro.trn
    """
    from ..scoring.comparisons import compare
    from ..scoring.seeds import t_test_over_languages
    from ..scoring.transcripts import read_references
    from ..storage.json_files import write_json

    references = read_references(reference, language)
    systems = [_score_file(path, references, on_missing == "empty", scoring) for path in hypotheses]
    first, *others = systems
    comparisons = [
        SystemComparison(
            other.name, compare(first.counts, other.counts), t_test_over_languages(first.scores, other.scores)
        )
        for other in others
    ]
    record = _record(systems, comparisons)
    if out is not None:
        write_json(out, record)
    if as_json:
        print_json(record)
        return
    _print(systems, comparisons)
    if out is not None:
        typer.echo(f"Scores: {out}")


@dataclass(frozen=True)
class ScoredSystem:
    name: str
    counts: Counts
    scores: Scores
    intervals: Uncertainty[Interval]


@dataclass(frozen=True)
class SystemComparison:
    """A system minus the first one."""

    name: str
    differences: Uncertainty[Difference]
    over_languages: TTest | None
    """Of the CER; None for a single language."""


def _score_file(path: Path, references: Sequence[Transcript], missing_as_empty: bool, scoring: str) -> ScoredSystem:
    from ..scoring.intervals import confidence_intervals
    from ..scoring.scores import count
    from ..scoring.transcripts import match, read_hypotheses

    counts = count(match(references, read_hypotheses(path), missing_as_empty), scoring)
    return ScoredSystem(str(path), counts, counts.scores(), confidence_intervals(counts))


def scores_record(scores: Scores, intervals: Uncertainty[Interval]) -> dict[str, Any]:
    """Scores and intervals of a system, as JSON has them."""
    return {**scores.to_record(), "intervals": asdict(intervals)}


def print_json(record: dict[str, Any]) -> None:
    typer.echo(json.dumps(record, ensure_ascii=False, indent=2, allow_nan=False))


def _record(systems: Sequence[ScoredSystem], comparisons: Sequence[SystemComparison]) -> dict[str, Any]:
    """Scores and intervals of a single system, or those of several by name, and the comparisons."""
    records = {system.name: scores_record(system.scores, system.intervals) for system in systems}
    if len(systems) == 1:
        return records[systems[0].name]
    compared = {
        comparison.name: {
            **asdict(comparison.differences),
            "t_test_over_languages": comparison.over_languages and asdict(comparison.over_languages),
        }
        for comparison in comparisons
    }
    return {"systems": records, "comparisons": compared}


def _print(systems: Sequence[ScoredSystem], comparisons: Sequence[SystemComparison]) -> None:
    from ..report.tables.scores import comparison_table
    from .console import print_table, results

    for system in systems:
        results.print(system.name, soft_wrap=True)
        print_scores(system.scores, system.intervals)
        results.print()
    for comparison in comparisons:
        heading = f"{comparison.name} minus {systems[0].name}, in points, with 95% confidence intervals"
        results.print(heading, soft_wrap=True)
        print_table(comparison_table(comparison.differences))
        if test := comparison.over_languages:
            value, low, high = (format_percent(rate, signed=True) for rate in (test.value, test.low, test.high))
            results.print(
                f"\nPaired t-test of the CER over {test.degrees + 1} languages: {value} "
                f"({low} to {high}), p = {test.p_value:.3f}"
            )
        results.print()


def print_scores(scores: Scores, intervals: Uncertainty[Interval]) -> None:
    """Prints the rates of a system per language and over languages, with notes."""
    from ..report.tables.scores import scores_table
    from ..scoring.scores import FEW_UTTERANCES, NO_LANGUAGE
    from .console import print_table, results

    print_table(scores_table(scores, intervals))
    confidence = f"{100 * intervals.confidence:g}%"
    results.print(f"In percent, with {confidence} confidence intervals of the CER. Scoring: {scores.profile}")
    if scores.is_empty:
        results.print("Every hypothesis is empty: the model may predict only blanks.")
    if all(set(named) == {NO_LANGUAGE} for named in scores.confusion.values()):
        results.print("No hypothesis has a language, so LID is 0.")
    if few := ", ".join(map(language_name, scores.small_languages)):
        results.print(f"Fewer than {FEW_UTTERANCES} utterances, so intervals are only rough: {few}", soft_wrap=True)
