"""The diagnosis on the page and on the terminal, and runs without one."""

import io

import pytest
from rich.console import Console
from run_folders import write_run
from tones import write_dataset

from ctcdro.report.page import write_report
from ctcdro.report.read_runs import read_runs
from ctcdro.report.tables.diagnosis import diagnosis_table
from ctcdro.scoring.diagnosis import Diagnosis, LanguageDiagnosis
from ctcdro.storage.json_files import write_json

HOSTILE = "<b>k7</b>"
WRONG = LanguageDiagnosis(
    ["label-errors", "overfit"], 0.021, 0.487, 0.1, 0.5, 5.4, 0.2, 0.3, 10.0, 3.3, 60, 9, [HOSTILE]
)
FITS = LanguageDiagnosis(["good-fit"], 0.01, 0.02, None, None, 12.0, None, None, 10.0, None, 60, 0, [])
DIAGNOSIS = Diagnosis(3, 3, {"aaa": FITS, "bbb": WRONG})


@pytest.fixture
def folder(tmp_path):
    dataset = write_dataset(tmp_path / "tones", num_train=3, num_dev=4)
    run = write_run(tmp_path / "runs" / "new", dataset, "ctc-dro")
    write_json(run.diagnosis, DIAGNOSIS.to_record())
    write_run(tmp_path / "runs" / "old", dataset, "erm")
    return tmp_path


def test_the_page_shows_the_diagnosis_of_each_run_that_has_one(folder):
    write_report([folder], folder / "page.html", audio=False, tables=folder / "tables")
    page = (folder / "page.html").read_text()
    assert page.count('<table id="table-diagnosis-') == 1
    assert "Worst language: Barai (bbb), label errors and overfit." in page
    assert "CER 2.1% on training data, 48.7% on dev." in page
    assert HOSTILE not in page
    assert "&lt;b&gt;k7&lt;/b&gt;" in page
    [table] = (folder / "tables").glob("diagnosis-*.csv")
    assert table.read_text().splitlines()[1].startswith("Barai (bbb),2.1,48.7,0.1,5.4,0.2,0.3,10,3.3,")


def test_a_report_of_runs_without_a_diagnosis_has_no_such_section(folder):
    write_report([folder / "runs" / "old"], folder / "page.html", audio=False)
    assert "diagnosis" not in (folder / "page.html").read_text().lower()


def test_a_damaged_diagnosis_is_named(folder):
    (folder / "runs" / "new" / "diagnosis.json").write_text("[]")
    with pytest.raises(ValueError, match=r"diagnosis\.json: not a diagnosis"):
        read_runs([folder / "runs" / "new"])


def test_all_columns_fit_a_terminal_of_80_columns():
    console = Console(file=io.StringIO(), width=80)
    console.print(diagnosis_table(DIAGNOSIS).to_rich(stack_titles=True))
    text = console.file.getvalue()
    assert "…" not in text
    assert all(
        word in text for word in ("Barai", "2.1", "48.7", "0.10", "5.4", "0.20", "0.30", "10.0", "3.3", "overfit")
    )
