"""The tables of README and documentation, in Markdown, from the records of docs/results.json."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable, Iterator
from typing import Any

from ctcdro.report.paper_results import paper_results
from ctcdro.scoring.seeds import paired_t_test
from ctcdro.speech.language_names import language_name

BASELINE = "Baseline (ERM)"

Record = dict[str, Any]


def name_of(language: str) -> str:
    return language_name(language).partition(" (")[0]


# Values: lists with one number per seed, or what was recorded of them.


def mean_of(value: Any) -> float:
    return statistics.fmean(value) if isinstance(value, list) else value["mean"] if isinstance(value, dict) else value


def deviation_of(value: Any) -> float | None:
    if isinstance(value, list):
        return statistics.stdev(value) if len(value) > 1 else None
    return value.get("sd") if isinstance(value, dict) else None


def show(value: Any, digits: int = 1) -> str:
    """A mean, with its standard deviation if it is known."""
    deviation = deviation_of(value)
    return f"{mean_of(value):.{digits}f}" + ("" if deviation is None else f" ± {deviation:.{digits}f}")


def signed(value: float) -> str:
    return f"{value:+.1f}".replace("-", "−").replace("+0.0", "0.0").replace("−0.0", "0.0")


def change(row: Record, baseline: Record, key: str) -> str:
    """The change against the baseline, with its 95% interval over seeds; of two seeds, the change of each."""
    first, second = baseline.get(key), row.get(key)
    changes = row.get("changes", {}).get(key)
    if changes is None and isinstance(first, list) and isinstance(second, list) and len(first) == len(second):
        changes = [after - before for before, after in zip(first, second, strict=True)]
    if changes is None:
        return "" if first is None or second is None else signed(mean_of(second) - mean_of(first))
    if len(changes) < 3:
        each = f" ({', '.join(map(signed, changes))})" if len(changes) == 2 else ""
        return signed(statistics.fmean(changes)) + each
    test = paired_t_test([0.0] * len(changes), changes)
    return f"{signed(test.value)} ({signed(test.low)} to {signed(test.high)})"


# Tables.


def markdown(columns: list[str], rows: list[list[str]]) -> str:
    """A table without its empty columns; columns of numbers are aligned to the right."""
    kept = [number for number in range(len(columns)) if any(row[number] for row in rows)]
    is_text = [
        number == 0 or any(re.search(r"^[^\d+−.]", row[number]) for row in rows) for number in range(len(columns))
    ]
    lines = [
        [columns[number] for number in kept],
        ["---" if is_text[number] else "--:" for number in kept],
        *([row[number] for number in kept] for row in rows),
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def with_baselines(experiment: Record) -> Iterator[tuple[Record, Record | None]]:
    """Each row, and the last baseline before it."""
    baseline = None
    for row in experiment["rows"]:
        is_baseline = row["method"] == BASELINE
        yield row, None if is_baseline else baseline
        baseline = row if is_baseline else baseline


def num_seeds(experiment: Record, row: Record) -> int:
    return len(row["worst"]) if isinstance(row["worst"], list) else row.get("seeds", experiment.get("seeds", 1))


def setting(row: Record, key: str) -> str:
    return f"{row[key]:.0e}".replace("e-0", "e-") if key == "step_size" and key in row else f"{row.get(key, '')}"


def experiment_table(experiment: Record) -> str:
    worst, has_seeds = experiment.get("worst_language"), experiment.get("seeds", 1) > 1
    differ = len({num_seeds(experiment, row) for row in experiment["rows"]}) > 1
    columns = ["method", "variant", "step size", "smoothing", "seeds"]
    columns += ["worst CER" + (f" ({name_of(worst)})" if worst else ""), "change"]
    columns += [f"{name_of(language)} CER" for language in experiment.get("also", [])]
    columns += ["mean CER", "change", "LID"]
    rows = []
    for row, baseline in with_baselines(experiment):
        baseline = baseline if has_seeds else None
        rows.append(
            [
                row["method"],
                row.get("note", ""),
                setting(row, "step_size"),
                setting(row, "smoothing"),
                f"{num_seeds(experiment, row)}" if differ else "",
                show(row["worst"]),
                change(row, baseline, "worst") if baseline else "",
                *(show(row["languages"][language]) for language in experiment.get("also", [])),
                show(row["mean"]),
                change(row, baseline, "mean") if baseline else "",
                show(row["lid"]) if "lid" in row else "",
            ]
        )
    return markdown(columns, rows)


def worst_rates(experiment: Record) -> str:
    """Such as "86.9% with the baseline, 108.1% with group DRO and 76.7% with CTC-DRO"."""
    *others, last = (f"{mean_of(row['worst']):.1f}% with {_in_sentence(row['method'])}" for row in experiment["rows"])
    return f"{', '.join(others)} and {last}"


def _in_sentence(method: str) -> str:
    names = {BASELINE: "the baseline", "Error-weighted": "error-weighted training"}
    return names.get(method, method.replace("Group", "group"))


def language_table(experiment: Record) -> str:
    rows = [row for row in experiment["rows"] if len(row.get("languages", {})) > 1]
    languages = list(rows[0]["languages"])
    cells = [[row["method"], row.get("note", ""), *(show(row["languages"][one]) for one in languages)] for row in rows]
    return markdown(["method", "variant", *map(name_of, languages)], cells)


def seed_table(experiment: Record) -> str:
    """Changes per seed, with the interval of each test set."""
    [row] = [row for row in experiment["rows"] if "intervals" in row]
    intervals = [f"{signed(low)} to {signed(high)}" for low, high in row["intervals"]["worst"]]
    changes = zip(row["changes"]["worst"], intervals, row["changes"]["mean"], strict=True)
    cells = [[f"{seed}", signed(worst), interval, signed(mean)] for seed, (worst, interval, mean) in enumerate(changes)]
    return markdown(["seed", "change of the worst CER", "interval of the test set", "change of the mean CER"], cells)


def summarized_rows(experiments: Iterable[Record]) -> Iterator[tuple[str, str, Record, Record]]:
    """Label, number of seeds, row and baseline of every row with a summary."""
    for experiment in experiments:
        for row, baseline in with_baselines(experiment):
            if baseline and "summary" in row:
                label = row["summary"] + (" (development data)" if experiment["split"] == "dev" else "")
                yield label, f"{num_seeds(experiment, row)}", row, baseline


def summary_table(experiments: Iterable[Record]) -> str:
    rows = []
    for label, seeds, row, baseline in summarized_rows(experiments):
        cells = [label, seeds]
        for key in ("worst", "mean"):
            cells += [f"{mean_of(baseline[key]):.1f}", f"{mean_of(row[key]):.1f}", change(row, baseline, key)]
        rows.append(cells)
    columns = [f"{key} CER, {method}" for key in ("worst", "mean") for method in ("baseline", "method")]
    columns = ["experiment", "seeds", *columns[:2], "change", *columns[2:], "change"]
    return markdown(columns, rows)


def plain_table(table: Record) -> str:
    def cells(row: list[Any]) -> list[str]:
        per_seed = [one for value in row if isinstance(value, list) for one in value]
        digits = max((len(f"{one}".partition(".")[2]) for one in per_seed), default=0)
        return [
            show(value, digits) if isinstance(value, list) else f"{value:,}" if type(value) is int else f"{value}"
            for value in row
        ]

    return markdown(table["columns"], [cells(row) for row in table["rows"]])


def coverage_table(table: Record) -> str:
    """The lowest and the highest coverage of each interval, over sizes and shapes of the test sets."""
    scenarios = list(dict.fromkeys(row[0] for row in table["rows"]))
    cells: dict[str, dict[str, str]] = {}
    for scenario, interval, *cells_of_row in table["rows"]:
        rates = [float(cell) for cell in cells_of_row]
        if "overall" not in interval and "best LID" not in interval:
            cells.setdefault(interval, {})[scenario] = f"{min(rates):.1f}–{max(rates):.1f}"
    rows = [[interval, *(found.get(one, "") for one in scenarios)] for interval, found in cells.items()]
    return markdown(["interval", *scenarios], rows)


PAPER_OBJECTIVES = ("erm", "group-dro", "ctc-dro")
PAPER_SETS = ("set1", "set2", "set3", "set4", "set5", "set1-extra", "set2-extra")
PAPER_SCALE = ("scale18", "scale18-extra")


def paper_rows(names: tuple[str, ...]) -> Iterator[tuple[str, str, dict[str, float], dict[str, float]]]:
    """Set, encoder, and the worst and the mean CER on test of each objective, as the paper reports them."""
    for name in names:
        for model in ("MMS", "XLS-R"):
            found = [row for row in paper_results(name) if row.model == model]
            worst = {row.objective: row.worst[1] for row in found}
            yield name, model, worst, {row.objective: row.mean for row in found}


def paper_table() -> str:
    rows = []
    for name, model, worst, mean in paper_rows(PAPER_SETS + PAPER_SCALE):
        cells = [f"{rates[one]:.1f}" if one in rates else "" for rates in (worst, mean) for one in PAPER_OBJECTIVES]
        relative = signed(100 * (worst["ctc-dro"] / worst["erm"] - 1))
        rows.append([f"`{name}`", model, *cells[:3], f"{relative}%", *cells[3:]])
    methods = ("baseline", "group DRO", "CTC-DRO")
    worst_columns, mean_columns = ([f"{key} CER, {method}" for method in methods] for key in ("worst", "mean"))
    return markdown(["set", "encoder", *worst_columns, "change", *mean_columns], rows)


def paper_gain(which: int) -> str:
    """The largest relative gain of CTC-DRO with six languages, in the worst CER (2) or the mean CER (3)."""
    rates = [row[which] for row in paper_rows(PAPER_SETS)]
    return f"{max(100 * (1 - one['ctc-dro'] / one['erm']) for one in rates):.1f}%"


def training_time_table(table: Record) -> str:
    rows = [[data, f"{first:,}", f"{second:,}", more_time(first, second)] for data, first, second in table["rows"]]
    return markdown([*table["columns"], "more time"], rows)


def more_time(first: float, second: float) -> str:
    return f"{100 * (second / first - 1):.1f}%"
