"""The budget of a guard on the page and on the terminal, and runs without one."""

import pytest
from run_folders import write_run
from tones import write_dataset

from ctcdro.cli.diagnosis import print_budget
from ctcdro.report.page import write_report
from ctcdro.report.read_runs import read_runs
from ctcdro.report.study import make_study
from ctcdro.scoring.budget import Budget, describe_budget, read_budget
from ctcdro.storage.json_files import write_json

BUDGET = Budget("runs/erm", 0.05, {"ces": 0.2, "cmn": 0.5, "kor": 0.0}, {"ces": 0.205, "cmn": 0.6, "kor": 0.0})


@pytest.fixture
def folder(tmp_path):
    dataset = write_dataset(tmp_path / "tones", num_train=3, num_dev=4)
    run = write_run(tmp_path / "runs" / "guarded", dataset, "error-weighted")
    write_json(run.budget, BUDGET.to_record())
    write_run(tmp_path / "runs" / "erm", dataset, "erm")
    return run


def test_the_page_and_the_terminal_show_the_budget_of_runs_with_a_guard(folder, tmp_path, capsys):
    write_report([tmp_path], tmp_path / "page.html", audio=False, tables=tmp_path / "tables")
    page = (tmp_path / "page.html").read_text()
    assert page.count('<table id="table-budget-') == 1
    sentence = "Over budget, with a CER more than 5.0% above that of the baseline: Mandarin Chinese (cmn)."
    assert f"Error-weighted. {sentence}" in page
    [table] = (tmp_path / "tables").glob("budget-*.csv")
    assert table.read_text().splitlines() == [
        "language,baseline CER,CER,change,allowed,budget used",
        "Mandarin Chinese (cmn),50,60,20,5,400",
        "Czech (ces),20,20.5,2.5,5,50",
        "Korean (kor),0,0,,5,",
    ]
    print_budget(folder)
    assert sentence in capsys.readouterr().err
    dataset, guard = tmp_path / "tones", f"objective.baseline={tmp_path / 'runs' / 'erm'}"
    for seed in (0, 1):  # each with its own baseline
        write_run(tmp_path / "more" / str(seed), dataset, "error-weighted", seed, overrides=[f"{guard}-{seed}"])
    study = make_study(read_runs([folder.path, *(tmp_path / "more").iterdir()]).runs)
    assert [method.name for method in study.methods] == [
        "Error-weighted",
        "Error-weighted, baseline erm-0, max relative loss 0.05",
    ]
    write_report([tmp_path / "runs" / "erm"], tmp_path / "page.html", audio=False)
    assert "budget" not in (tmp_path / "page.html").read_text().lower()


def test_budgets_in_words_and_damaged_files(folder):
    assert read_budget(folder.budget) == BUDGET
    without_errors = Budget("runs/erm", 0.0, {"ces": 0.0, "cmn": 0.2}, {"ces": 0.01, "cmn": 0.2})
    assert (without_errors.over, without_errors.used("cmn")) == (["ces"], None)
    within = Budget("runs/erm", 0.05, {"ces": 0.2}, {"ces": 0.1})
    assert describe_budget(within).startswith("Every language is within its budget: no CER is more than 5.0% above")
    for damaged in ([], {}, BUDGET.to_record() | {"cer": {"ces": "0.2"}}):
        write_json(folder.budget, damaged)
        with pytest.raises(ValueError, match=r"budget\.json: expected what `ctcdro train` writes"):
            read_runs([folder.path])
