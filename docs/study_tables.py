"""The tables of the study: all objectives on several datasets, from the experiments `study-…` and `controls-…` of
docs/results.json."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Any

from result_tables import BASELINE, Record, change, markdown, setting, show, signed


def experiments_of(results: Record, part: str = "study") -> list[Record]:
    """The experiments of the study, or of its controls (`controls`)."""
    return [experiment for name, experiment in results["experiments"].items() if name.startswith(f"{part}-")]


def series_of(row: Record) -> str:
    """A method, with the settings in which it differs from its default."""
    return f"{row['method']}, {row['note']}" if "note" in row else row["method"]


def pairs(results: Record, part: str = "study") -> Iterator[tuple[Record, Record, Record]]:
    """Every experiment, each of its rows but the baseline's, and the baseline's."""
    for experiment in experiments_of(results, part):
        baseline, *others = experiment["rows"]
        yield from ((experiment, row, baseline) for row in others)


def relative_changes(row: Record, baseline: Record, key: str) -> list[float]:
    """Change in percent of each seed that both have."""
    return [100 * (after / before - 1) for after, before in zip(row[key], baseline[key], strict=False)]


def num_worse(row: Record, baseline: Record) -> float:
    """Languages whose CER is more than a point above that of the baseline, on average over seeds."""
    return sum(
        statistics.fmean(rates) > statistics.fmean(baseline["languages"][language]) + 1
        for language, rates in row["languages"].items()
    )


def dataset_table(experiment: Record) -> str:
    rows: list[list[Any]] = []
    for row in experiment["rows"]:
        baseline = experiment["rows"][0] if row["method"] != BASELINE else None
        best = [min(rates) for rates in zip(*row["languages"].values(), strict=True)]
        rows.append(
            [
                series_of(row),
                setting(row, "step_size"),
                setting(row, "smoothing"),
                show(row["worst"]),
                change(row, baseline, "worst") if baseline else "",
                show(row["mean"]),
                change(row, baseline, "mean") if baseline else "",
                show(best),
                show(row["lid"]),
                f"{num_worse(row, baseline)}" if baseline else "",
            ]
        )
    columns = ["method", "step size", "smoothing", "worst CER", "change", "mean CER", "change", "best CER", "LID"]
    return markdown([*columns, "languages worse by over a point"], rows)


def totals_table(results: Record, part: str = "study") -> str:
    """Each method over all datasets, compared with the baseline of the same seed."""
    found: dict[str, list[tuple[Record, Record]]] = {}
    for _, row, baseline in pairs(results, part):
        found.setdefault(series_of(row), []).append((row, baseline))
    rows = []
    for method, compared in found.items():
        worst, mean = ([relative_changes(*pair, key) for pair in compared] for key in ("worst", "mean"))
        runs = [one for changes in worst for one in changes]
        averages = [statistics.fmean(changes) for changes in worst]
        rows.append(
            [
                method,
                f"{len(compared)}",
                f"{sum(one < 0 for one in runs)} of {len(runs)}",
                f"{signed(statistics.fmean(averages))}%",
                f"{sum(one > 0 for one in averages)}",
                f"{signed(statistics.fmean(statistics.fmean(changes) for changes in mean))}%",
            ]
        )
    columns = ["method", "datasets", "runs with a lower worst CER", "change of the worst CER"]
    return markdown([*columns, "datasets with a higher worst CER", "change of the mean CER"], rows)


def overview_table(results: Record, method: str = "Error-weighted") -> str:
    """Worst and mean CER of the baseline, of tuned CTC-DRO and of a method, by dataset."""
    rows = []
    for experiment in experiments_of(results):
        by_series = {series_of(row): row for row in experiment["rows"]}
        compared = [by_series.get(name) for name in (BASELINE, "CTC-DRO", method)]
        cells = [show_mean(row, key) for key in ("worst", "mean") for row in compared]
        seeds = len(experiment["rows"][0]["worst"])
        rows.append([experiment["title"], f"{seeds}", *cells])
    names = ["baseline", "CTC-DRO", "error-weighted"]
    return markdown(
        ["dataset", "seeds", *(f"{key}, {name}" for key in ("worst CER", "mean CER") for name in names)], rows
    )


def show_mean(row: Record | None, key: str) -> str:
    return "" if row is None else f"{statistics.fmean(row[key]):.1f}"
