"""Benchmarks store their tables in docs/results.json."""

import run
from measuring import ResultTable


def test_a_table_is_printed_row_by_row_and_replaces_the_last_measurement_of_its_name(monkeypatch, capsys):
    stored = {"tables": {"loss-cost": {"setup": "Batches of 50 s.", "commit": "old", "rows": [["1.5"]]}}}
    monkeypatch.setattr(run, "read_results", lambda: stored)
    monkeypatch.setattr(run, "write_results", stored.update)
    table = ResultTable("batch", "ratio")
    table.add("10 × 5 s", "1.02")
    assert capsys.readouterr().out == "| batch | ratio |\n| --- | --- |\n| 10 × 5 s | 1.02 |\n"
    run.store({"loss-cost": table}, {"commit": "new"})
    new = stored["tables"]["loss-cost"]
    assert (new["setup"], new["commit"]) == ("Batches of 50 s.", "new")
    assert (new["columns"], new["rows"]) == (["batch", "ratio"], [["10 × 5 s", "1.02"]])
