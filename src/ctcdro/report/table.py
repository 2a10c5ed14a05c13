"""A table, and how it is written: Markdown and LaTeX for people, CSV for machines; the page draws it itself.

A cell holds a text, or a number with what belongs to it: a deviation over runs, an interval, a note such as the
language it is of. CSV has each of these in a column of its own, and numbers to six digits.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..storage.atomic import atomic_write
from ..storage.paths import PathLike

NOTHING = "–"


@dataclass(frozen=True)
class Cell:
    """What stands in one place of a table.

    Example:
        >>> Cell(60.84, deviation=2.1, note="nan").shown()
        '60.8 ± 2.1 (nan)'
        >>> Cell(-4.0, interval=(-6.0, -1.96)).shown(signed=True), Cell(None).shown()
        ('-4.0 (-6.0 to -2.0)', '–')
    """

    value: str | float | None
    deviation: float | None = None
    interval: tuple[float, float] | None = None
    note: str = ""
    is_best: bool = False
    """Of its column, as the paper has it in bold."""
    is_worst: bool = False
    """Of its row: the worst language, as the paper has it underlined."""

    def shown(self, decimals: int = 1, signed: bool = False) -> str:
        if self.value is None:
            return NOTHING
        if isinstance(self.value, str):
            return self.value + (f" ({self.note})" if self.note else "")
        form = f"{'+' if signed else ''},.{decimals}f"
        parts = [f"{self.value:{form}}"]
        if self.deviation is not None:
            parts.append(f"± {self.deviation:,.{decimals}f}")
        if self.interval is not None:
            parts.append(f"({self.interval[0]:{form}} to {self.interval[1]:{form}})")
        if self.note:
            parts.append(f"({self.note})")
        return " ".join(parts)


@dataclass(frozen=True)
class Column:
    """The head of a column, and how its numbers are shown."""

    name: str
    is_number: bool = True
    decimals: int = 1
    signed: bool = False
    better: str = ""
    """`lower` or `higher`; nothing if neither is."""
    least: float | None = None
    """Numbers below are shown as less than this, as p-values are."""

    @property
    def title(self) -> str:
        return self.name + {"lower": " ↓", "higher": " ↑"}.get(self.better, "")


@dataclass(frozen=True)
class Table:
    """Rows of cells under columns; the first column names the rows."""

    name: str
    """Of its file, and its place on the page."""
    caption: str
    columns: list[Column]
    rows: list[list[Cell]]

    def shown(self) -> list[list[str]]:
        """The cells as people read them."""
        return [[_shown(cell, column) for cell, column in zip(row, self.columns, strict=True)] for row in self.rows]

    def to_markdown(self) -> str:
        r"""Best figures in bold, worst languages underlined.

        Example:
            >>> table = Table("a", "A table", [Column("run", is_number=False), Column("CER")], [])
            >>> table.rows.append([Cell("a|b"), Cell(2.0, is_best=True)])
            >>> print(table.to_markdown())
            | run | CER |
            |---|--:|
            | a\|b | **2.0** |
            <BLANKLINE>
            A table
            <BLANKLINE>
        """
        lines = [_markdown_row([_markdown(column.title) for column in self.columns])]
        lines.append("|" + "|".join("--:" if column.is_number else "---" for column in self.columns) + "|")
        for row, texts in zip(self.rows, self.shown(), strict=True):
            cells = zip(row, texts, strict=True)
            marked = [_marked(_markdown(text), cell, "**{}**", "<u>{}</u>") for cell, text in cells]
            lines.append(_markdown_row(marked))
        return "\n".join([*lines, "", _markdown(self.caption), ""])

    def to_csv(self) -> str:
        """Example:
        >>> rows = [[Cell("a"), Cell(60.8, deviation=2.125, note="nan")]]
        >>> print(Table("a", "", [Column("run", is_number=False), Column("CER")], rows).to_csv())
        run,CER,CER deviation,CER note
        a,60.8,2.125,nan
        <BLANKLINE>
        """
        parts = [self._csv_parts(number) for number in range(len(self.columns))]
        file = io.StringIO()
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(
            [
                f"{column.name} {part}".strip()
                for column, own in zip(self.columns, parts, strict=True)
                for part in ("", *own)
            ]
        )
        for row in self.rows:
            writer.writerow(
                [value for cell, own in zip(row, parts, strict=True) for value in _csv_values(cell, ("", *own))]
            )
        return file.getvalue()

    def _csv_parts(self, number: int) -> list[str]:
        cells = [row[number] for row in self.rows]
        found = ["deviation"] if any(cell.deviation is not None for cell in cells) else []
        found += ["low", "high"] if any(cell.interval is not None for cell in cells) else []
        return found + (["note"] if any(cell.note for cell in cells) else [])

    def to_latex(self) -> str:
        r"""For the package booktabs; best figures in bold, worst languages underlined.

        Example:
            >>> rows = [[Cell("50 %_"), Cell(60.8, deviation=2.1, is_best=True)]]
            >>> columns = [Column("run", is_number=False), Column("CER", better="lower")]
            >>> print(Table("a", "A & B", columns, rows).to_latex())
            \begin{table}
            \centering
            \caption{A \& B}
            \label{tab:a}
            \begin{tabular}{lr}
            \toprule
            run & CER $\downarrow$ \\
            \midrule
            50 \%\_ & \textbf{60.8 $\pm$ 2.1} \\
            \bottomrule
            \end{tabular}
            \end{table}
            <BLANKLINE>
        """
        lines = [
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{_latex(self.caption)}}}",
            rf"\label{{tab:{self.name}}}",
            rf"\begin{{tabular}}{{{''.join('r' if column.is_number else 'l' for column in self.columns)}}}",
            r"\toprule",
            " & ".join(_latex(column.title) for column in self.columns) + r" \\",
            r"\midrule",
        ]
        for row, texts in zip(self.rows, self.shown(), strict=True):
            marked = [
                _marked(_latex(text), cell, r"\textbf{{{}}}", r"\underline{{{}}}")
                for cell, text in zip(row, texts, strict=True)
            ]
            lines.append(" & ".join(marked) + r" \\")
        return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}", ""])


def write_tables(tables: Sequence[Table], folder: PathLike) -> list[Path]:
    """Writes each table as .md, .csv and .tex, and returns the files."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    written = []
    for table in tables:
        for ending, text in (("md", table.to_markdown()), ("csv", table.to_csv()), ("tex", table.to_latex())):
            path = Path(folder) / f"{table.name}.{ending}"
            with atomic_write(path) as file:
                file.write(text)
            written.append(path)
    return written


def _shown(cell: Cell, column: Column) -> str:
    if column.least is not None and isinstance(cell.value, float) and cell.value < column.least:
        return f"< {column.least:g}"
    return cell.shown(column.decimals, column.signed)


def _marked(text: str, cell: Cell, best: str, worst: str) -> str:
    text = worst.format(text) if cell.is_worst else text
    return best.format(text) if cell.is_best else text


def _markdown_row(texts: Sequence[str]) -> str:
    return "| " + " | ".join(texts) + " |"


def _markdown(text: str) -> str:
    """Text that Markdown shows as it is, on one line."""
    text = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;")
    return "".join(f"\\{one}" if one in "\\|*_`[]" else one for one in text)


_LATEX = {
    **{one: f"\\{one}" for one in "&%$#_{}"},
    **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "–": "--"},
    **{"±": r"$\pm$", "Δ": r"$\Delta$", "↓": r"$\downarrow$", "↑": r"$\uparrow$"},
    **{"<": r"\textless{}", ">": r"\textgreater{}"},
}


def _latex(text: str) -> str:
    return "".join(_LATEX.get(one, one) for one in " ".join(text.split()))


def _csv_values(cell: Cell, parts: Sequence[str]) -> list[str]:
    low, high = cell.interval or (None, None)
    values = {"": cell.value, "deviation": cell.deviation, "low": low, "high": high, "note": cell.note}
    return [_csv(values[part]) for part in parts]


def _csv(value: str | float | None) -> str:
    return "" if value is None else value if isinstance(value, str) else f"{value:.6g}"
