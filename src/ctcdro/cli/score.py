"""`ctcdro score`: the output of any system, judged against references; no model needed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..scoring.formatting import format_percent

if TYPE_CHECKING:
    from rich.table import Table

    from ..scoring.scores import Counts, Scores
    from ..scoring.significance import Difference, Interval, TTest, Uncertainty


FEW_UTTERANCES = 20
"""Intervals of languages with fewer test utterances are only rough."""


class ScoringProfile(StrEnum):
    """The profiles of `ctcdro.scoring.scores`."""

    plain = "plain"
    ml_superb2 = "ml-superb2"
    paper = "paper"


def score(
    reference: Annotated[
        Path, typer.Argument(help="What was said: a manifest, or Kaldi's text or NIST's trn with language tokens.")
    ],
    hypotheses: Annotated[
        list[Path], typer.Argument(help="What was recognized, in any of these forms; further ones are compared.")
    ],
    profile: Annotated[
        ScoringProfile,
        typer.Option(help="plain: corpus rates. ml-superb2: the challenge's rules. paper: as the authors score."),
    ] = ScoringProfile.plain,
    lang: Annotated[str | None, typer.Option(help="The language of references that tell none.")] = None,
    missing_as_empty: Annotated[
        bool, typer.Option("--missing-as-empty", help="Count references without hypothesis as empty ones.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as one JSON object.")] = False,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write that object to this file.")] = None,
) -> None:
    """Score hypotheses by language: character and word error rates, language accuracy, and how sure they are.

    Of several files of hypotheses, each further one is compared with the first.
    """
    from ..scoring.scores import count
    from ..scoring.significance import compare, confidence_intervals
    from ..scoring.transcripts import match, read_hypotheses, read_references
    from ..storage.atomic import atomic_write

    references = read_references(reference, lang)
    systems = {
        str(path): count(match(references, read_hypotheses(path), missing_as_empty), profile.value)
        for path in hypotheses
    }
    intervals = {name: confidence_intervals(counts) for name, counts in systems.items()}
    first, *others = systems
    comparisons = {name: compare(systems[first], systems[name]) for name in others}
    tests = {name: _over_languages(systems[first].scores(), systems[name].scores()) for name in others}
    record = _record(systems, intervals, comparisons, tests)
    if out is not None:
        with atomic_write(out) as file:
            json.dump(record, file, ensure_ascii=False, indent=2, allow_nan=False)
            file.write("\n")
    if as_json:
        typer.echo(json.dumps(record, ensure_ascii=False, indent=2, allow_nan=False))
    else:
        _print(systems, intervals, comparisons, tests, out)


def _over_languages(first: Scores, second: Scores) -> TTest | None:
    """A t-test of the CER over languages; a single one has none."""
    from ..scoring.significance import paired_t_test

    ours, theirs = first.rates("cer"), second.rates("cer")
    return paired_t_test(list(ours.values()), list(theirs.values())) if len(ours) > 1 else None


def _record(
    systems: Mapping[str, Counts],
    intervals: Mapping[str, Uncertainty[Interval]],
    comparisons: Mapping[str, Uncertainty[Difference]],
    tests: Mapping[str, TTest | None],
) -> dict[str, Any]:
    """Of one system its scores and their intervals; of several those of each by name, and the comparisons."""
    records = {
        name: {**counts.scores().to_record(), "intervals": asdict(intervals[name])} for name, counts in systems.items()
    }
    if len(records) == 1:
        return next(iter(records.values()))
    compared = {}
    for name, found in comparisons.items():
        test = tests[name]
        compared[name] = {**asdict(found), "t_test_over_languages": test and asdict(test)}
    return {"systems": records, "comparisons": compared}


def _print(
    systems: Mapping[str, Counts],
    intervals: Mapping[str, Uncertainty[Interval]],
    comparisons: Mapping[str, Uncertainty[Difference]],
    tests: Mapping[str, TTest | None],
    out: Path | None,
) -> None:
    from .console import results

    first = next(iter(systems))
    for name, counts in systems.items():
        results.print(name, soft_wrap=True)
        scores_shown(counts.scores(), intervals[name])
        results.print()
    for name, found in comparisons.items():
        results.print(f"{name} minus {first} (in points, with 95 % intervals)", soft_wrap=True)
        results.print(comparison_table(found))
        if test := tests[name]:
            results.print(
                f"\nPaired t-test of the CER over {test.degrees + 1} languages: {100 * test.value:+.1f} "
                f"({100 * test.low:+.1f} to {100 * test.high:+.1f}), p = {test.p_value:.3f}"
            )
        results.print()
    if out is not None:
        results.print(f"Scores: {out}", soft_wrap=True)


def scores_shown(scores: Scores, intervals: Uncertainty[Interval] | None = None) -> None:
    """The table of a system, and what one should know to read it."""
    from ..scoring.scores import NO_LANGUAGE
    from .console import results

    results.print(scores_table(scores, intervals))
    told = "" if intervals is None else f", with {100 * intervals.confidence:g} % intervals of the CER"
    results.print(f"In per cent{told}; profile {scores.profile}")
    if scores.is_empty:
        results.print("Every hypothesis is empty: the model may predict only blanks.")
    if all(set(named) == {NO_LANGUAGE} for named in scores.confusion.values()):
        results.print("No hypothesis names a language, so that LID is 0.")
    few = [language for language, one in scores.languages.items() if one.num_utterances < FEW_UTTERANCES]
    if few and intervals is not None:
        results.print(f"Fewer than {FEW_UTTERANCES} utterances, so intervals are only rough: {', '.join(few)}")


def scores_table(scores: Scores, intervals: Uncertainty[Interval] | None = None) -> Table:
    """Rates by language, then over languages."""
    from ..scoring.scores import RATES, WORST_LANGUAGES

    table = _table(["language"], ["utterances", "CER", "", "WER", "LID"])
    for language, figures in scores.languages.items():
        interval = intervals.languages[language].get("cer") if intervals else None
        table.add_row(language, f"{figures.num_utterances:,}", *_rates(figures.cer, interval, figures.wer, figures.lid))
    table.add_row()
    summary = scores.summary()
    worst, best = scores.worst(), scores.best()
    rows = {
        "worst": f"worst (CER: {scores.worst_label()})" if worst else "worst",
        "best": f"best (CER: {best[0]})" if best else "best",
        "mean": "mean",
        "spread": "spread",
    }
    if len(scores.languages) > WORST_LANGUAGES:
        rows[f"worst_{WORST_LANGUAGES}"] = f"worst {WORST_LANGUAGES}"
    rows["overall"] = "all utterances"
    for row, shown in rows.items():
        cer, wer, lid = (summary[f"{row}_{rate}"] for rate in RATES)
        interval = intervals.summary.get(f"{row}_cer") if intervals else None
        number = f"{scores.together.num_utterances:,}" if row == "overall" else ""
        table.add_row(shown, number, *_rates(cer, interval, wer, lid))
    return table


def comparison_table(found: Uncertainty[Difference]) -> Table:
    """Differences by language, then over languages."""
    from ..scoring.scores import RATES

    table = _table(["language", "rate"], ["first", "second", "difference", "", "p"])
    for language, rates in found.languages.items():
        for number, rate in enumerate(rate for rate in RATES if rate in rates):
            table.add_row("" if number else language, rate.upper(), *_difference(rates[rate]))
    table.add_row()
    for row, shown in (("worst", "worst"), ("mean", "mean"), ("overall", "all utterances")):
        for number, rate in enumerate(rate for rate in RATES if f"{row}_{rate}" in found.summary):
            table.add_row("" if number else shown, rate.upper(), *_difference(found.summary[f"{row}_{rate}"]))
    return table


def _table(left: Sequence[str], right: Sequence[str]) -> Table:
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in left:
        table.add_column(name, no_wrap=True)
    for name in right:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _rates(cer: float | None, interval: Interval | None, wer: float | None, lid: float | None) -> list[str]:
    shown = "" if interval is None else f"{format_percent(interval.low)} to {format_percent(interval.high)}"
    return [format_percent(cer), shown, format_percent(wer), format_percent(lid)]


def _difference(found: Difference) -> list[str]:
    return [
        format_percent(found.first),
        format_percent(found.second),
        format_percent(found.value, signed=True),
        f"{format_percent(found.low, signed=True)} to {format_percent(found.high, signed=True)}",
        f"{found.p_value:.3f}",
    ]
