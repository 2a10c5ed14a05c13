"""The measured results: docs/results.json is complete, and README, pages and figures show what it has."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from run_folders import write_run
from tones import write_dataset

from ctcdro.storage.json_files import write_json
from ctcdro.sweeps.config import parse_sweep
from ctcdro.sweeps.selection import read_row
from ctcdro.sweeps.sweep import SweepFolder

DOCS = Path(__file__).parents[2] / "docs"
sys.path.append(str(DOCS))  # tests run in any order, so it stays

import render_results  # noqa: E402
import result_tables  # noqa: E402
from results_file import read_results, write_results  # noqa: E402

RESULTS = read_results()


def test_pages_and_figures_are_current():
    found = subprocess.run([sys.executable, DOCS / "render_results.py", "--check"], capture_output=True, text=True)
    assert found.returncode == 0, found.stdout + found.stderr


def test_no_value_begins_a_line_where_markdown_would_read_html():
    for page in render_results.pages():
        assert not re.search(r"^<!-- results: [\w-]+ -->\S", page.read_text(encoding="utf-8"), flags=re.MULTILINE), page


@pytest.mark.parametrize("name", RESULTS["experiments"])
def test_an_experiment_has_its_fields_and_a_value_for_every_seed(name):
    experiment = RESULTS["experiments"][name]
    for field in ("title", "question", "setup", "data", "machine", "date", "commit", "command", "finding"):
        assert experiment[field], field
        assert "TODO" not in experiment[field]
    assert not re.search(r"\d\.\d", experiment["finding"]), "figures are computed, not typed"
    for row in experiment["rows"]:
        values = [row["worst"], row["mean"], *row.get("languages", {}).values(), *row.get("changes", {}).values()]
        lengths = {len(value) for value in values if isinstance(value, list)}
        assert lengths <= {row.get("seeds", experiment.get("seeds", 1))}


def test_tables_are_rectangular_and_say_where_they_come_from():
    for name, table in RESULTS["tables"].items():
        assert {len(row) for row in table["rows"]} == {len(table["columns"])}, name
        assert name == "paper-training-time" or (table["commit"] and table["date"] and table["command"]), name


def test_blocks_and_values_in_sentences_are_filled_and_filling_again_changes_nothing():
    page = "A <!-- results: value -->old<!-- end results --> in a sentence.\n\n"
    page += "<!-- results: table -->\n<!-- end results -->\n"
    content = {"value": "5%", "table": "| a |\n| --- |\n| 1 |"}
    filled = render_results.fill(page, content, "page")
    assert filled == (
        "A <!-- results: value -->5%<!-- end results --> in a sentence.\n\n"
        "<!-- results: table -->\n\n| a |\n| --- |\n| 1 |\n\n<!-- end results -->\n"
    )
    assert render_results.fill(filled, content, "page") == filled
    with pytest.raises(SystemExit, match="no result named 'value'"):
        render_results.fill(page, {}, "page")


def test_changes_have_an_interval_over_seeds_or_list_two_of_them():
    baseline = {"worst": [60.0, 64.0, 61.0], "mean": [30.0, 31.0], "lid": {"mean": 90.0, "sd": 1.0}}
    row = {"worst": [50.0, 56.0, 54.0], "mean": [30.5, 30.0], "lid": [92.0]}
    # The mean of -10, -8 and -7, and 4.303 standard errors of 0.882.
    assert result_tables.change(row, baseline, "worst") == "−8.3 (−12.1 to −4.5)"
    assert result_tables.change(row, baseline, "mean") == "−0.2 (+0.5, −1.0)"
    assert result_tables.change(row, baseline, "lid") == "+2.0"


def test_the_paper_reports_these_gains():
    content = render_results.contents(RESULTS)
    assert (content["paper-worst-gain"], content["paper-mean-gain"]) == ("47.1%", "32.9%")  # in its abstract
    assert content["paper-more-time"] == "1.3%"


def test_the_file_keeps_its_content_and_has_a_line_per_row(tmp_path):
    tricky = {"rows": [["a [b]", 'c "{d}"'], [1, 2.5]], "text": "e\\", "nested": {"f": {"g": [1, 2]}}}
    write_results(tricky, tmp_path / "results.json")
    assert read_results(tmp_path / "results.json") == tricky
    assert '[ "a [b]", "c \\"{d}\\"" ]' in (tmp_path / "results.json").read_text()


def test_a_sweep_is_imported_with_its_scores_per_seed_and_the_texts_of_the_experiment(tmp_path):
    dataset = tmp_path / "data"
    write_dataset(dataset)
    folder = SweepFolder(tmp_path / "sweep")
    folder.path.mkdir()
    settings = [{"objective": "erm"}, {"objective": "ctc-dro", "step_size": 1e-3, "smoothing": 0.5}]
    run = {"dataset": str(dataset), "model": {"encoder": "mel-small"}}
    config = parse_sweep({"run": run, "settings": settings, "seeds": [3, 5]})
    config.write(folder.config)
    rows = []
    for setting in config.grid():
        for seed in config.seeds:
            write_run(folder.run(setting, seed).path, dataset, setting.objective, seed)
            rows.append(read_row(folder.run(setting, seed), setting, seed, "test"))
    write_json(folder.table, [row.to_record() for row in rows])
    results = {"experiments": {"mine": {"question": "Does it help?", "rows": []}}}
    render_results.import_sweep(folder.path, results, "mine")
    mine = results["experiments"]["mine"]
    assert (mine["question"], mine["seeds"]) == ("Does it help?", 2)
    baseline, ours = mine["rows"]
    assert baseline["method"] == "Baseline (ERM)"
    assert (ours["method"], ours["step_size"], ours["smoothing"]) == ("CTC-DRO", 1e-3, 0.5)
    assert ours["worst"] == [round(100 * row.worst_cer, 3) for row in rows[2:]]
    assert set(ours["languages"]) == set(json.loads(folder.run(setting, 3).scores("test").read_text())["languages"])
    assert "CTC-DRO" in result_tables.experiment_table(mine)
