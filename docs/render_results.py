"""Fills the measured tables of README and documentation, and draws their figures, from docs/results.json.

    python docs/render_results.py                               fill all pages, draw all figures; or `make results`
    python docs/render_results.py --check                       report pages and figures that are not current
    python docs/render_results.py import runs/sweep --as NAME   copy the test scores of a sweep to results.json

A page has marked places: `<!-- results: NAME -->`, the content, `<!-- end results -->`. If the first mark ends its
line, the content is a block, otherwise a value in a sentence. `--list` prints all names.

results.json has
    machines      by name
    experiments   runs with seeds. CER and LID are in percent. A value of a row is a list with one number per seed, from
                  which mean, standard deviation and the interval of the change are computed, or `{"mean": 80.0, "sd":
                  2.0}` where no more was recorded. A row is compared with the last baseline before it. Rows with a
                  `summary` are in the table of all experiments. Experiments named `study-…` form the study
    tables        other measurements. A cell is text, a number, or a list with one number per seed
    facts         single values
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import textwrap
from datetime import UTC, datetime
from pathlib import Path

from result_figures import FIGURES, draw_figure, is_current
from result_tables import (
    Record,
    coverage_table,
    experiment_table,
    language_table,
    more_time,
    paper_gain,
    paper_table,
    plain_table,
    seed_table,
    summary_table,
    training_time_table,
    worst_rates,
)
from results_file import read_results, write_results
from study_tables import dataset_table, overview_table, totals_table

DOCS = Path(__file__).parent
MARKED = re.compile(r"(<!-- results: ([\w-]+) -->)(.*?)(<!-- end results -->)", flags=re.DOTALL)

COMPARISONS = ("study-", "fine-tuning-", "controls-")  # experiments whose rows have all languages of all seeds

# All that pages can show.


NUMBERS = {2: "two", 3: "three", 4: "four", 5: "five"}


def paragraph(text: str) -> str:
    return textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False)


def provenance(record: Record, machines: Record) -> str:
    commands = record["command"] if isinstance(record["command"], list) else [record["command"]]
    machine = machines.get(record["machine"], {"name": record["machine"]})["name"]
    heading = f"**Command** (commit {record['commit']}, {record['date']}, {machine})."
    return f"{heading}\n\n```\n" + "\n".join(commands) + "\n```"


def experiment_record(experiment: Record, machines: Record) -> str:
    split = {"test": "test data", "dev": "development data"}[experiment["split"]]
    seeds = experiment.get("seeds", 1)
    table = f"**Table.** Results on the {split} in percent"
    table += f", mean ± sd of {NUMBERS.get(seeds, seeds)} seeds." if seeds > 1 else ", one seed."
    if seeds > 2:
        table += " Changes against the baseline have a 95% interval over seeds (paired t-test), or list two seeds,"
    elif seeds == 2:
        table += " Changes against the baseline list both seeds,"
    table += " where values per seed were recorded." if seeds > 1 else ""
    prose = [
        paragraph(f"**Question.** {experiment['question']}"),
        paragraph(f"**Setup.** {experiment['setup']} Data: {experiment['data']}."),
        paragraph(table),
        experiment_table(experiment),
        paragraph(f"**Finding.** {experiment['finding']}"),
        provenance(experiment, machines),
    ]
    return "\n\n".join(prose)


def contents(results: Record) -> dict[str, str]:
    """The content of every marked place, by name."""
    experiments, tables, machines = results["experiments"], results["tables"], results["machines"]
    found = {name: fact["text"] for name, fact in results["facts"].items()}
    for name, experiment in experiments.items():
        found[name] = experiment_table(experiment)
        found[f"{name}-full"] = experiment_record(experiment, machines)
        if any(len(row.get("languages", {})) > 1 for row in experiment["rows"]):
            found[f"{name}-languages"] = language_table(experiment)
        if any("intervals" in row for row in experiment["rows"]):
            found[f"{name}-seeds"] = seed_table(experiment)
    for name, table in tables.items():
        found[name] = plain_table(table)
        direction = f" **{table['better'].capitalize()} ratios are better.**" if "better" in table else ""
        record = [paragraph(f"{table['setup']}{direction}"), found[name], provenance(table, machines)]
        found[f"{name}-full"] = "\n\n".join(record)
    ratios = [float(row[2].split()[0]) for row in tables["loss-cost"]["rows"]]
    times = tables["paper-training-time"]
    return {
        **found,
        "interval-coverage": coverage_table(tables["interval-coverage"]),
        **{f"{name}-study": dataset_table(one) for name, one in experiments.items() if name.startswith(COMPARISONS)},
        "study-overview": overview_table(results),
        "study-totals": totals_table(results),
        "controls-totals": totals_table(results, "controls"),
        "demo-worst": worst_rates(experiments["demo"]),
        "all-experiments": summary_table(experiments.values()),
        "paper-results": paper_table(),
        "paper-worst-gain": paper_gain(2),
        "paper-mean-gain": paper_gain(3),
        "paper-training-time": training_time_table(times),
        "paper-more-time": more_time(*times["rows"][0][1:]),
        "loss-overhead": f"{min(ratios):.3f} to {max(ratios):.3f} times",
        "reference-machine": "- " + "\n- ".join(machines["reference"]["description"].split("; ")),
    }


def pages() -> list[Path]:
    return [DOCS.parent / "README.md", *sorted(DOCS.rglob("*.md"))]


def fill(text: str, content: dict[str, str], page: str) -> str:
    """The text of a page with its marked places filled."""

    def filled(match: re.Match[str]) -> str:
        start, name, before, end = match.groups()
        if name not in content:
            raise SystemExit(f"{page}: there is no result named {name!r}; `--list` prints all names.")
        separator = "\n\n" if before.startswith("\n") else ""
        return separator.join([start, content[name], end])

    return MARKED.sub(filled, text)


# Sweeps.


def import_sweep(folder: Path, results: Record, name: str) -> None:
    """Adds the test scores of a sweep, or replaces those of an experiment and keeps its texts."""
    from ctcdro.objectives.methods import METHODS
    from ctcdro.runs.parsing import describe_settings
    from ctcdro.scoring.scores import read_scores
    from ctcdro.sweeps.config import read_sweep
    from ctcdro.sweeps.sweep import SweepFolder

    sweep = SweepFolder(folder)
    config = read_sweep(sweep.config)
    table = json.loads(sweep.table.read_text(encoding="utf-8"))
    rows = []
    for setting_of_row in config.grid():
        runs = [sweep.run(setting_of_row, seed) for seed in config.seeds]
        if runs[0].path.name not in {Path(row["run"]).name for row in table}:
            continue  # not selected
        scores = [read_scores(run.scores("test")) for run in runs]
        rates = [one.rates("cer") for one in scores]
        tuned = METHODS[setting_of_row.objective].tuned
        row = {"method": setting_of_row.method, **{key: setting_of_row.values[key] for key in tuned}}
        if note := describe_settings({key: value for key, value in setting_of_row.values.items() if key not in tuned}):
            row["note"] = note
        row["worst"] = [round(100 * one.worst("cer")[1], 3) for one in scores]
        row["mean"] = [round(100 * one.mean("cer"), 3) for one in scores]
        row["lid"] = [round(100 * one.mean("lid"), 3) for one in scores]
        row["languages"] = {language: [round(100 * one[language], 3) for one in rates] for language in rates[0]}
        rows.append(row)
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=DOCS, capture_output=True, text=True).stdout
    texts = dict.fromkeys(("title", "question", "setup", "data", "finding"), "") | {"command": []}
    old = results["experiments"].get(name, {**texts, "machine": "reference"})
    about = {"date": datetime.now(UTC).date().isoformat(), "commit": commit.strip(), "split": "test"}
    results["experiments"][name] = {**old, **about, "seeds": len(config.seeds), "rows": rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing; exit status 1 if a page is not current")
    parser.add_argument("--list", action="store_true", help="print the names of all results")
    command = parser.add_subparsers(dest="command").add_parser("import", help="copy the test scores of a sweep")
    command.add_argument("sweep", type=Path, help="folder of a finished sweep")
    command.add_argument("--as", dest="name", required=True, help="name of the experiment in results.json")
    arguments = parser.parse_args()
    results = read_results()
    if arguments.command == "import":
        import_sweep(arguments.sweep, results, arguments.name)
        write_results(results)
        return
    content = contents(results)
    if arguments.list:
        print(*sorted(content), sep="\n")
        return
    stale = [path for path in FIGURES if not is_current(path, results)]
    if not arguments.check:
        for path in stale:
            draw_figure(path, results)
    for page in pages():
        before = page.read_text(encoding="utf-8")
        after = fill(before, content, str(page))
        if after != before:
            stale.append(page)
            if not arguments.check:
                page.write_text(after, encoding="utf-8")
    for path in stale:
        print(f"{path.relative_to(DOCS.parent)}: {'not current; run `make results`' if arguments.check else 'written'}")
    if arguments.check and stale:
        sys.exit(1)


if __name__ == "__main__":
    main()
