"""Errors before and after training on the page, and runs without them."""

import pytest
from run_folders import write_run
from tones import write_dataset

from ctcdro.report.page import write_report
from ctcdro.report.read_runs import read_runs
from ctcdro.scoring.before_after import BeforeAfter, describe_before_after, read_before_after
from ctcdro.storage.json_files import write_json

FOUND = BeforeAfter(
    "runs/a", ["ces", "cmn"], {"ces": 0.2, "cmn": 0.5, "kor": 1.0}, {"ces": 0.25, "cmn": 0.4, "kor": 0.3}
)


def test_the_page_shows_what_was_learned_and_forgotten(tmp_path):
    dataset = write_dataset(tmp_path / "tones", num_train=3, num_dev=4)
    run = write_run(tmp_path / "runs" / "grown", dataset, "erm")
    write_json(run.before_after, FOUND.to_record())
    write_report([tmp_path], tmp_path / "page.html", audio=False, tables=tmp_path / "tables")
    assert "Czech (ces) was forgotten most: its CER rose from 20.0% to 25.0%." in (tmp_path / "page.html").read_text()
    [table] = (tmp_path / "tables").glob("before-after-*.csv")
    assert table.read_text().splitlines() == [
        "language,new,CER before,CER after,relative change (%)",
        "Czech (ces),,20,25,25",
        "Mandarin Chinese (cmn),,50,40,-20",
        "Korean (kor),new,100,30,-70",
    ]
    for damaged in ([], {}, FOUND.to_record() | {"after": {"ces": 0.1}}, FOUND.to_record() | {"before": {"ces": "0"}}):
        write_json(run.before_after, damaged)
        with pytest.raises(ValueError, match=r"before_after\.json: expected what `ctcdro train` writes"):
            read_runs([run.path])
    write_json(run.before_after, FOUND.to_record() | {"after": {}})
    assert read_before_after(run.before_after) is None, "the run is not finished"
    run.before_after.unlink()
    write_report([tmp_path], tmp_path / "page.html", audio=False)
    assert "before-after" not in (tmp_path / "page.html").read_text()


def test_in_words():
    for after in (0.1, 0.2, 0.209):
        better = BeforeAfter("a", ["ces"], {"ces": 0.2, "kor": 1.0}, {"ces": after, "kor": 1.0})
        assert describe_before_after(better) == "No language of the earlier model got worse by more than 5%."
    assert describe_before_after(BeforeAfter("a", [], {"ces": 0.0}, {"ces": 0.2})) == "All languages are new."
    assert BeforeAfter("a", [], {"ces": 0.0}, {"ces": 0.2}).change("ces") is None
