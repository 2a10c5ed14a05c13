"""A table has the same content in every format, and text from data is escaped in all of them."""

import csv
import io

from rich.console import Console

from ctcdro.report.table import Cell, Column, Table, p_value_column, percent, write_tables

HOSTILE = r"a|b & <script>alert(1)</script> \input{x} 5% $x$ #_^~{} *b* [red]"


def make_table(*rates):
    columns = [Column("run", lambda item: item[0]), Column("CER", lambda item: item[1], "lower")]
    items = [(f"run {number}", rate) for number, rate in enumerate(rates)]
    return Table.of("results", "Results", columns, items, comparable=lambda item: "test")


def test_texts_cannot_break_out_of_any_form():
    table = Table.of("t", HOSTILE, [Column("run", str), Column("CER", lambda _: 1.0)], [HOSTILE])
    [_, _, row, *_] = table.to_markdown().splitlines()
    assert "<script" not in row
    assert row.replace(r"\|", "").count("|") == 3
    latex = table.to_latex()
    assert r"\input" not in latex
    assert r"\textbackslash{}input\{x\}" in latex
    assert list(csv.reader(io.StringIO(table.to_csv())))[1] == [HOSTILE, "1"]
    assert HOSTILE in printed(table)


def printed(table):
    console = Console(file=io.StringIO(), width=200)
    console.print(table.to_rich())
    return console.file.getvalue()


def test_on_a_terminal_numbers_are_aligned_and_intervals_stand_to_their_right():
    table = make_table(percent(0.5, interval=(0.4, 0.6)), percent(1.0, deviation=0.1, note="nan"))
    assert printed(table).splitlines() == [
        "run             CER                ",
        "run 0          50.0  (40.0 to 60.0)",
        "run 1  100.0 ± 10.0  (nan)         ",
    ]


def test_the_best_number_of_comparable_rows_is_marked():
    columns = [Column("run", str), Column("LID", lambda item: float(item), "higher")]
    table = Table.of("t", "", columns, [1, 2, 11, 12, 21], comparable=lambda item: item // 10)
    assert [row[1].is_best for row in table.rows] == [False, True, False, True, False]  # one alone is not the best
    assert not any(row[1].is_best for row in make_table(1.0, 1.0).rows)
    assert make_table(2.0, 1.0).to_markdown().splitlines() == [
        "| run | CER ↓ |",
        "|---|--:|",
        "| run 0 | 2.0 |",
        "| run 1 | **1.0** |",
        "",
        "Results",
    ]
    assert r"\textbf{1.0}" in make_table(2.0, 1.0).to_latex()


def test_latex_is_a_table_with_a_caption_and_a_label():
    assert make_table(Cell(60.8, deviation=2.1)).to_latex().splitlines() == [
        r"\begin{table}",
        r"\centering",
        r"\caption{Results}",
        r"\label{tab:results}",
        r"\begin{tabular}{lr}",
        r"\toprule",
        r"run & CER $\downarrow$ \\",
        r"\midrule",
        r"run 0 & 60.8 $\pm$ 2.1 \\",
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]


def test_csv_has_all_digits_and_a_column_for_each_part():
    table = make_table(percent(1 / 3, interval=(0.25, 0.5)), Cell(None, note="none"))
    assert list(csv.DictReader(io.StringIO(table.to_csv()))) == [
        {"run": "run 0", "CER": "33.3333", "CER low": "25", "CER high": "50", "CER note": ""},
        {"run": "run 1", "CER": "", "CER low": "", "CER high": "", "CER note": "none"},
    ]


def test_a_cell_has_its_deviation_interval_and_note():
    column = Column("CER", lambda cell: cell)
    assert column.text(Cell(60.84, deviation=2.1, note="nan")) == "60.8 ± 2.1 (nan)"
    assert column.text(Cell(-4.0, interval=(-6.0, -1.96))) == "-4.0 (-6.0 to -2.0)"
    assert column.text(Cell(None)) == "–"


def test_small_p_values_and_signs_are_shown():
    columns = [p_value_column("p", lambda value: value), Column("d", lambda value: -value, signed=True)]
    assert Table.of("t", "", columns, [1e-9, 2.0]).texts() == [["< 0.001", "-0.0"], ["2.000", "-2.0"]]


def test_tables_are_written_in_three_forms(tmp_path):
    write_tables([make_table(percent(0.5, deviation=0.1))], tmp_path / "tables")
    assert sorted(path.name for path in tmp_path.glob("tables/*")) == ["results.csv", "results.md", "results.tex"]
    assert "50.0 ± 10.0" in (tmp_path / "tables" / "results.md").read_text(encoding="utf-8")
