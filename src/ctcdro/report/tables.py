"""The tables of a report: the paper's, and what stands behind them. Rates are in per cent, differences in points.

All are of `comparing.Study`; where runs are many, those of one method share a row, as mean ± standard deviation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain, count
from typing import Any

import numpy as np

from ..scoring.scores import Scores
from ..scoring.significance import Difference, Interval, OverRuns, Uncertainty
from .paper_results import SOURCES, paper_results
from .read_runs import Dataset
from .study import OBJECTIVES, Method, RunComparison, SeedComparison, Study, flat_config
from .table import Cell, Column, Table

Intervals = Mapping[str, Uncertainty[Interval]]
"""Of runs, by their names."""

MOST_COLUMNS = 8
"""Of languages; a table of more has them as rows, as the paper's."""

_P_VALUE = Column("p", decimals=3, least=0.001)


def _lower(name: str) -> Column:
    return Column(name, better="lower")


def _higher(name: str) -> Column:
    return Column(name, better="higher")


def results(study: Study) -> Table:
    """The paper's table: the worst language, the average over languages, and language accuracy."""
    datasets = {method.first.dataset.path for method in study.methods}
    columns = [
        Column("method", is_number=False),
        *([Column("data", is_number=False)] if len(datasets) > 1 else []),
        _lower("Max CER"),
        _lower("Avg CER"),
        _higher("LID"),
        Column("seeds", decimals=0),
        Column("model", is_number=False),
        Column("step size", is_number=False),
        Column("smoothing", is_number=False),
    ]
    rows = []
    for method in study.methods:
        named = [Cell(method.name)]
        if len(datasets) > 1:
            named.append(Cell(method.first.data_name))
        rows.append(
            [
                *named,
                *_headline(method),
                Cell(len(method.runs), note=_listed(method.seeds) if study.has_unequal_seeds(method) else ""),
                Cell(method.first.model_name),
                *_settings(method.step_size, method.smoothing),
            ]
        )
    _mark_best(rows, columns, [method.first.test_data for method in study.methods])
    caption = (
        "CER of the worst language (in parentheses), mean CER over languages and language accuracy (LID), in per cent. "
        f"{_of_what(study)}{_about_bold(study, ' The best of each column is bold.')}"
    )
    if any(map(study.has_unequal_seeds, study.methods)):
        caption += (
            " Not all methods have the same seeds (in parentheses): their means are over different runs. Compare them "
            "over the seeds they share, under Significance."
        )
    return Table("results", caption, columns, rows)


def _headline(method: Method) -> list[Cell]:
    found = method.over_runs()
    languages = sorted({run.scores.worst_label() for run in method.runs})
    return [
        _over_runs(found.get("worst_cer"), note="; ".join(languages)),
        _over_runs(found.get("mean_cer")),
        _over_runs(found.get("mean_lid")),
    ]


def by_language(study: Study) -> list[Table]:
    """The CER of each language, a table for each test set; languages are rows if they are many."""
    names = [f"languages-{name}" for name in slugs([methods[0].first.data_name for methods in study.test_sets])]
    return [
        _by_language(study, methods, name if len(names) > 1 else "languages")
        for methods, name in zip(study.test_sets, names, strict=True)
    ]


def _by_language(study: Study, methods: Sequence[Method], name: str) -> Table:
    languages = list(methods[0].first.scores.languages)
    columns = [
        Column("method", is_number=False),
        *map(_lower, languages),
        _lower("Avg CER"),
        _higher("LID"),
    ]
    rows = []
    for method in methods:
        rates = method.rates("cer")
        worst = max((one.mean for one in rates.values()), default=None)
        cells = [
            _over_runs(rates.get(language), is_worst=language in rates and rates[language].mean == worst)
            for language in languages
        ]
        rows.append([Cell(method.name), *cells, *_headline(method)[1:]])
    _mark_best(rows, columns, [method.first.test_data for method in methods])
    caption = (
        f"CER of each language of {methods[0].first.data_name}, in per cent. {_of_what(study)} "
        f"The worst language of a method is underlined{_about_bold(study, ', the best method for a language bold')}."
    )
    table = Table(name, caption, columns, rows)
    return table if len(languages) <= MOST_COLUMNS else _turned(table)


def _turned(table: Table) -> Table:
    """Rows become columns."""
    columns = [Column("language", is_number=False), *(Column(str(row[0].value)) for row in table.rows)]
    rows = [
        [Cell(column.title if column.better == "higher" else column.name), *(row[place] for row in table.rows)]
        for place, column in enumerate(table.columns)
        if place
    ]
    return Table(table.name, table.caption, columns, rows)


def runs(study: Study, intervals: Intervals) -> Table:
    """Each run: figures with intervals, when it was started, and from which commit."""
    columns = [
        Column("run", is_number=False),
        _lower("Max CER"),
        _lower("Avg CER"),
        _higher("LID"),
        Column("started", is_number=False),
        Column("commit", is_number=False),
        Column("folder", is_number=False),
    ]
    rows = []
    for run in study.runs:
        found = intervals[run.name].summary
        rows.append(
            [
                Cell(study.label(run)),
                _interval(found.get("worst_cer"), note=run.scores.worst_label()),
                _interval(found.get("mean_cer")),
                _interval(found.get("mean_lid")),
                Cell(_date(run.about)),
                Cell(str(run.about.get("commit") or "")[:10] or None),
                Cell(run.name),
            ]
        )
    caption = "Each run, in percent, with 95 % intervals over test utterances."
    return Table("runs", caption, columns, rows)


def details(study: Study, intervals: Intervals) -> Table:
    """All figures of each run and language."""
    columns = [
        Column("run", is_number=False),
        Column("language", is_number=False),
        Column("utterances", decimals=0),
        Column("characters", decimals=0),
        _lower("CER"),
        _lower("WER"),
        _higher("LID"),
    ]
    rows = [
        [
            Cell(study.label(run)),
            Cell(language),
            Cell(figures.num_utterances),
            Cell(figures.characters.reference),
            *(_interval(intervals[run.name].languages[language].get(rate)) for rate in ("cer", "wer", "lid")),
        ]
        for run in study.runs
        for language, figures in run.scores.languages.items()
    ]
    caption = (
        "Each run and language: test utterances, characters of their references, and rates in per cent with 95 % "
        "intervals over test utterances."
    )
    return Table("details", caption, columns, rows)


def significance(study: Study, comparisons: Sequence[RunComparison]) -> Table:
    """Each run against the baseline, on the same utterances."""
    columns = [Column("run", is_number=False), Column("against", is_number=False)]
    for name in ("Max CER", "Avg CER", "LID"):
        columns += [Column(f"Δ {name}", signed=True), replace(_P_VALUE, name=f"p {name}")]
    columns += [Column("Δ over languages", signed=True), replace(_P_VALUE, name="p over languages")]
    rows = []
    for one in comparisons:
        other_seed = one.run.config.seed != one.against.config.seed
        row = [Cell(study.label(one.run)), Cell(study.label(one.against), note="another seed" if other_seed else "")]
        for figure in ("worst_cer", "mean_cer", "mean_lid"):
            row += _difference(one.found.summary.get(figure))
        test = one.over_languages
        row += (
            [Cell(None), Cell(None)]
            if test is None
            else [Cell(100 * test.value, interval=(100 * test.low, 100 * test.high)), Cell(test.p_value)]
        )
        rows.append(row)
    caption = (
        "Δ: runs minus the baseline on the same utterances, in points, with 95 % intervals and p-values over "
        "test utterances. Over languages: a paired t-test of the CER that treats languages as a random sample."
    )
    return Table("significance", caption, columns, rows)


_FIGURES = {
    "worst_cer": "Max CER",
    "mean_cer": "Avg CER",
    "best_cer": "best language's CER",
    "mean_lid": "LID",
}


def seeds(comparisons: Sequence[SeedComparison]) -> Table:
    """Each method against the baseline, by the paired t-test over seeds."""
    columns = [
        Column("method", is_number=False),
        Column("against", is_number=False),
        Column("figure", is_number=False),
        Column("seeds", decimals=0),
        Column("difference", signed=True),
        Column("t", decimals=2, signed=True),
        _P_VALUE,
    ]
    rows = [
        [
            Cell(one.method.name),
            Cell(one.against.name),
            Cell(_FIGURES[one.figure]),
            Cell(len(one.seeds), note=_shared_seeds(one)),
            Cell(100 * one.test.value, interval=(100 * one.test.low, 100 * one.test.high)),
            Cell(one.test.t),
            Cell(one.test.p_value),
        ]
        for one in comparisons
    ]
    caption = (
        "Methods minus the baseline over the seeds that both have, in points, with 95 % intervals of the paired "
        "t-test, which cover the variation over training runs."
    )
    if any(len(one.seeds) == 2 for one in comparisons):
        caption += (
            " With two seeds the t-test has one degree of freedom: intervals are very wide, and a p-value above 0.05 "
            "is no evidence that methods are equal."
        )
    return Table("seeds", caption, columns, rows)


def best_language(study: Study, comparisons: Sequence[RunComparison]) -> Table:
    """What happens to the best language."""
    columns = [
        Column("run", is_number=False),
        Column("against", is_number=False),
        _lower("best CER"),
        _lower("baseline's best CER"),
        Column("difference", signed=True),
        _P_VALUE,
    ]
    rows = []
    for one in comparisons:
        row = [Cell(study.label(one.run)), Cell(study.label(one.against))]
        row += [_best(one.run.scores), _best(one.against.scores), *_difference(one.found.summary.get("best_cer"))]
        rows.append(row)
    caption = (
        "CER of the language that a run recognizes best (in parentheses), in per cent, and of the baseline's; "
        "difference in points, with 95 % interval and p-value over test utterances."
    )
    return Table("best-language", caption, columns, rows)


def pace(study: Study) -> Table:
    """How long runs took, and how fast they were."""
    columns = [
        Column("run", is_number=False),
        Column("steps", decimals=0),
        Column("minutes"),
        Column("hours of audio", decimals=2),
        Column("s of audio / s"),
        Column("machine", is_number=False),
    ]
    rows = []
    for run in study.runs:
        own = run.pace
        rows.append(
            [
                Cell(study.label(run)),
                Cell(own.num_steps),
                Cell(None if own.seconds is None else own.seconds / 60),
                Cell(None if own.audio_seconds is None else own.audio_seconds / 3600),
                Cell(own.audio_per_second),
                Cell(_machine(run.about)),
            ]
        )
    caption = (
        "Training: steps, wall-clock with the looks at development data, audio that was trained on, and seconds of "
        "audio in a second of training (the median over steps)."
    )
    return Table("pace", caption, columns, rows)


def differences(study: Study) -> Table:
    """The settings in which runs differ."""
    configs = [flat_config(run) for run in study.runs]
    keys = [key for key in _keys(configs) if len({repr(one.get(key)) for one in configs}) > 1]
    columns = [Column("run", is_number=False), *(Column(key, is_number=False) for key in keys)]
    rows = [
        [Cell(study.label(run)), *(_setting(config.get(key)) for key in keys)]
        for run, config in zip(study.runs, configs, strict=True)
    ]
    return Table("differences", "Settings in which the runs differ; – is not used by the objective.", columns, rows)


def shared_settings(study: Study) -> Table:
    """The settings that all runs share."""
    configs = [flat_config(run) for run in study.runs]
    keys = [key for key in _keys(configs) if len({repr(one.get(key)) for one in configs}) == 1]
    rows = [[Cell(key), _setting(configs[0].get(key))] for key in keys]
    columns = [Column("setting", is_number=False), Column("value", is_number=False)]
    return Table("settings", "Settings that all runs share.", columns, rows)


def weights(study: Study) -> Table:
    """Weights at the end of training, and the lowest and highest they had."""
    groups = sorted({name for run in study.runs for name in run.weights.groups})
    columns = [Column("run", is_number=False), *(Column(group, decimals=2) for group in groups)]
    rows = []
    for run in study.runs:
        own = run.weights.groups
        cells = [
            Cell(own[group][-1], interval=(min(own[group]), max(own[group]))) if own.get(group) else Cell(None)
            for group in groups
        ]
        rows.append([Cell(study.label(run)), *cells])
    caption = "Weight of each group at the end of training, and in parentheses the lowest and highest it had."
    return Table("weights", caption, columns, rows)


def with_lengths(study: Study) -> dict[str, Dataset]:
    """The datasets whose lengths are known, by their names for files and places on the page."""
    found = {run.dataset.path: run.dataset for run in study.runs if run.dataset.durations}
    return dict(zip(slugs([dataset.name for dataset in found.values()]), found.values(), strict=True))


def lengths(dataset: Dataset, name: str) -> Table:
    """Lengths of the training utterances."""
    columns = [
        Column("language", is_number=False),
        Column("utterances", decimals=0),
        Column("hours", decimals=2),
        Column("seconds"),
        Column("longest"),
    ]
    rows = [
        [
            Cell(language),
            Cell(len(own)),
            Cell(sum(own) / 3600),
            Cell(float(np.mean(own)), deviation=float(np.std(own))),
            Cell(max(own)),
        ]
        for language, own in dataset.durations.items()
    ]
    caption = f"Training utterances of {dataset.name}: mean ± standard deviation of their lengths in seconds."
    return Table(f"lengths-{name}", caption, columns, rows)


def confusion(method: Method, name: str) -> Table:
    """How often hypotheses name which language, over all runs of a method."""
    found = total_confusion(method)
    named = sorted({language for own in found.values() for language in own})
    columns = [Column("said", is_number=False), *(Column(language, decimals=0) for language in named)]
    rows = [[Cell(said), *(Cell(own.get(language, 0)) for language in named)] for said, own in found.items()]
    caption = f"{method.name}: how often which language (columns) was recognized, by the language that was said (rows)."
    return Table(f"confusion-{name}", caption, columns, rows)


def total_confusion(method: Method) -> dict[str, dict[str, int]]:
    """Confusions of all runs of a method, added up."""
    total: dict[str, Counter[str]] = {}
    for run in method.runs:
        for said, named in run.scores.confusion.items():
            total.setdefault(said, Counter()).update(named)
    return {said: dict(named) for said, named in total.items()}


def beside_paper(study: Study) -> list[Table]:
    """For each of the paper's sets that runs are of: our figures, and the paper's."""
    by_set: dict[str, list[Method]] = {}
    for method in study.methods:
        if method.first.dataset.set_name is not None:
            by_set.setdefault(method.first.dataset.set_name, []).append(method)
    return [_beside_paper(name, own) for name, own in by_set.items()]


def _beside_paper(set_name: str, methods: Sequence[Method]) -> Table:
    theirs = {
        (row.model, row.objective): row
        for method in methods
        for row in paper_results(set_name, method.first.config.model.encoder)
    }
    languages = sorted(next(iter(theirs.values())).cer)
    columns = [
        Column("method", is_number=False),
        Column("figures of", is_number=False),
        Column("model", is_number=False),
        Column("step size", is_number=False),
        Column("smoothing", is_number=False),
        _lower("Max CER"),
        _lower("Avg CER"),
        _higher("LID"),
        *(_lower(language) for language in languages),
    ]
    rows: dict[str, list[list[Cell]]] = {objective: [] for objective in OBJECTIVES}  # ours, then theirs, of each
    for method in methods:
        rates = method.rates("cer")
        rows.setdefault(method.objective, []).append(
            [
                Cell(method.name),
                Cell("these runs"),
                Cell(method.first.model_name),
                *_settings(method.step_size, method.smoothing),
                *_headline(method),
                *(_over_runs(rates.get(language)) for language in languages),
            ]
        )
    for row in theirs.values():
        rows[row.objective].append(
            [
                Cell(OBJECTIVES[row.objective]),
                Cell("the paper"),
                Cell(row.model),
                *_settings(row.step_size, row.smoothing),
                Cell(row.worst[1], note=row.worst[0]),
                Cell(row.average),
                Cell(row.lid),
                *(Cell(row.cer[language]) for language in languages),
            ]
        )
    profiles = sorted({method.first.scores.profile for method in methods})
    caption = (
        f"The paper's {set_name}: these runs, and what the paper reports ({SOURCES[set_name]}), in per cent. "
        f"Ours are scored under profile {', '.join(profiles)}"
        + (
            "."
            if profiles == ["paper"]
            else "; the authors' scoring is profile paper, so that figures differ somewhat."
        )
        + " LID of these runs is the mean over languages; the authors' scripts count all utterances."
    )
    return Table(f"paper-{set_name}", caption, columns, [row for own in rows.values() for row in own])


def slugs(texts: Iterable[str]) -> list[str]:
    """Names for files and places on a page; where they would be the same, further ones have a number.

    Example:
        >>> slugs(["CTC-DRO, step size 0.001", "data", "Data"])
        ['ctc-dro-step-size-0-001', 'data', 'data-2']
    """
    found: dict[str, None] = {}
    for text in texts:
        plain = "-".join("".join(one if one.isalnum() else " " for one in text.lower()).split())
        numbered = (f"{plain}-{number}" for number in count(2))
        found[next(name for name in chain([plain], numbered) if name not in found)] = None
    return list(found)


def _of_what(study: Study) -> str:
    split = study.runs[0].split
    several = any(len(method.runs) > 1 for method in study.methods)
    return f"Measured on {split}." + (" Mean ± standard deviation over seeds." if several else "")


def _about_bold(study: Study, text: str) -> str:
    """A sentence about bold figures, if there are methods to compare."""
    return text if any(len(methods) > 1 for methods in study.test_sets) else ""


def _listed(seeds: Sequence[int]) -> str:
    """Example:
    >>> _listed([0, 1, 2, 5]), _listed([3])
    ('0–2, 5', '3')
    """
    runs: list[list[int]] = []
    for seed in seeds:
        if runs and seed == runs[-1][-1] + 1:
            runs[-1].append(seed)
        else:
            runs.append([seed])
    return ", ".join(str(own[0]) if len(own) == 1 else f"{own[0]}–{own[-1]}" for own in runs)


def _shared_seeds(one: SeedComparison) -> str:
    """Notes on the seeds of a comparison."""
    numbers = {len(one.method.runs), len(one.against.runs)}
    notes = ["1 degree of freedom"] if len(one.seeds) == 2 else []
    if numbers != {len(one.seeds)}:
        notes.append(f"of {len(one.method.runs)} and {len(one.against.runs)}")
    return "; ".join(notes)


def _settings(step_size: float | None, smoothing: float | None) -> list[Cell]:
    return [Cell(None if one is None else f"{one:g}") for one in (step_size, smoothing)]


def _setting(value: Any) -> Cell:
    return Cell(None if value is None else f"{value:g}" if isinstance(value, float) else str(value))


def _keys(configs: Iterable[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(key for config in configs for key in config))


def _over_runs(found: OverRuns | None, note: str = "", is_worst: bool = False) -> Cell:
    if found is None:
        return Cell(None)
    deviation = None if found.deviation is None else 100 * found.deviation
    return Cell(100 * found.mean, deviation=deviation, note=note, is_worst=is_worst)


def _interval(found: Interval | None, note: str = "") -> Cell:
    if found is None:
        return Cell(None)
    return Cell(100 * found.value, interval=(100 * found.low, 100 * found.high), note=note)


def _difference(found: Difference | None) -> list[Cell]:
    if found is None:
        return [Cell(None), Cell(None)]
    return [Cell(100 * found.value, interval=(100 * found.low, 100 * found.high)), Cell(found.p_value)]


def _best(scores: Scores) -> Cell:
    best = scores.best()
    return Cell(100 * best[1], note=best[0]) if best else Cell(None)


def _mark_best(rows: list[list[Cell]], columns: Sequence[Column], data: Sequence[int]) -> None:
    """Marks the best figure of each column among rows of the same test data, if there are several such rows."""
    for place, column in enumerate(columns):
        for own in set(data):
            chosen = [row for row, of in zip(rows, data, strict=True) if of == own]
            values = [value for row in chosen if isinstance(value := row[place].value, float)]
            if column.better and len(set(values)) > 1:
                best = min(values) if column.better == "lower" else max(values)
                for row in chosen:
                    if row[place].value == best:
                        row[place] = replace(row[place], is_best=True)


def _date(about: Mapping[str, Any]) -> str | None:
    started = about.get("started")
    return started[:16].replace("T", " ") if isinstance(started, str) else None


def _machine(about: Mapping[str, Any]) -> str | None:
    machine = about.get("machine")
    if not isinstance(machine, dict):
        return None
    processes = about.get("num_processes", 1)
    return f"{machine.get('processor', '?')}, {machine.get('cores', '?')} cores, {processes} " + (
        "process" if processes == 1 else "processes"
    )
