"""One table type for the terminal, the page, the model card and files.

A column has a name, a function that computes its cells, and a number format. A cell contains a text, or a number with
an optional deviation over runs, interval and note. `Table` renders itself for a terminal and as Markdown, LaTeX and
CSV; the template of the page renders it as HTML. All of them escape texts from data.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from ..scoring.formatting import NO_VALUE
from ..storage.atomic import atomic_write
from ..storage.paths import PathLike

if TYPE_CHECKING:
    import rich.table

    from ..scoring.intervals import Interval

Item = TypeVar("Item")

MAX_WORD = 20
"""Letters; a terminal breaks longer words in narrow columns."""

_LATEX = {
    **{character: f"\\{character}" for character in "&%$#_{}"},
    **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "–": "--"},
    **{"±": r"$\pm$", "Δ": r"$\Delta$", "↓": r"$\downarrow$", "↑": r"$\uparrow$"},
    **{"<": r"\textless{}", ">": r"\textgreater{}"},
}


def escape_markdown(text: str) -> str:
    """Escapes text so that Markdown shows it unchanged, on one line."""
    text = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;")
    return "".join(f"\\{character}" if character in "\\|*_`[]" else character for character in text)


def escape_latex(text: str) -> str:
    return "".join(_LATEX.get(character, character) for character in " ".join(text.split()))


@dataclass(frozen=True)
class Cell:
    """A text or a number; None is shown as a dash."""

    value: str | float | None
    deviation: float | None = None
    interval: tuple[float, float] | None = None
    note: str = ""
    is_best: bool = False
    """Best number of its column, shown in bold."""
    is_worst: bool = False
    """Worst language of its row, underlined."""


def percent(
    rate: float | None,
    deviation: float | None = None,
    interval: tuple[float, float] | None = None,
    note: str = "",
    is_worst: bool = False,
) -> Cell:
    """A cell with a rate, or a difference of rates, in percent."""
    if rate is None:
        return Cell(None)
    limits = None if interval is None else (100 * interval[0], 100 * interval[1])
    return Cell(100 * rate, None if deviation is None else 100 * deviation, limits, note, is_worst=is_worst)


def interval_cell(interval: Interval | None, note: str = "") -> Cell:
    """A cell with a rate, or a difference of rates, and its interval in percent."""
    return Cell(None) if interval is None else percent(interval.value, None, (interval.low, interval.high), note)


@dataclass(frozen=True)
class Column(Generic[Item]):
    """A column: its name, the cell of each item, and the number format."""

    name: str
    cell: Callable[[Item], Cell | str | float | None]
    better: Literal["", "lower", "higher"] = ""
    decimals: int = 1
    signed: bool = False
    least: float | None = None
    """Smaller numbers are shown as `< least`."""

    @property
    def title(self) -> str:
        return self.name + {"lower": " ↓", "higher": " ↑", "": ""}[self.better]

    def text(self, cell: Cell) -> str:
        return " ".join(filter(None, [self.main(cell), self.extras(cell)]))

    def main(self, cell: Cell) -> str:
        """The value and its deviation."""
        if cell.value is None or isinstance(cell.value, str):
            return NO_VALUE if cell.value is None else cell.value
        if self.least is not None and cell.value < self.least:
            return f"< {self.least:g}"
        deviation = "" if cell.deviation is None else f" ± {cell.deviation:,.{self.decimals}f}"
        return self._number(cell.value) + deviation

    def extras(self, cell: Cell) -> str:
        """Interval and note, each in parentheses."""
        low_to_high = "" if cell.interval is None else f"({' to '.join(map(self._number, cell.interval))})"
        return " ".join(filter(None, [low_to_high, f"({cell.note})" if cell.note else ""]))

    def _number(self, value: float) -> str:
        return f"{value:{'+' if self.signed else ''},.{self.decimals}f}"


def p_value_column(name: str, cell: Callable[[Item], Cell | float | None]) -> Column[Item]:
    return Column(name, cell, decimals=3, least=0.001)


@dataclass(frozen=True)
class Table:
    """Rows of cells. The first column names the rows."""

    name: str
    """Used for file names and as the anchor on the page."""
    caption: str
    columns: Sequence[Column[Any]]
    rows: list[list[Cell]]
    num_summary_rows: int = 0
    """Rows at the end that summarize the others; a terminal shows a blank line before them."""

    @classmethod
    def of(
        cls,
        name: str,
        caption: str,
        columns: Sequence[Column[Item]],
        items: Iterable[Item],
        *,
        summary: Iterable[Item] = (),
        comparable: Callable[[Item], Any] | None = None,
    ) -> Table:
        """Creates one row per item. Marks the best number of each column among items with the same `comparable` key."""
        summary = list(summary)
        items = [*items, *summary]
        computed = ([column.cell(item) for column in columns] for item in items)
        rows = [[cell if isinstance(cell, Cell) else Cell(cell) for cell in row] for row in computed]
        if comparable is not None:
            keys = [comparable(item) for item in items]
            for key in set(keys):
                _mark_best([row for row, row_key in zip(rows, keys, strict=True) if row_key == key], columns)
        return cls(name, caption, columns, rows, len(summary))

    def is_number(self, index: int) -> bool:
        return any(isinstance(row[index].value, int | float) for row in self.rows)

    def texts(self) -> list[list[str]]:
        return [[column.text(cell) for column, cell in zip(self.columns, row, strict=True)] for row in self.rows]

    def to_rich(self, *, stack_titles: bool = False) -> rich.table.Table:
        """A table for the terminal: numbers are aligned, intervals and notes have their own column, texts may wrap.

        Args:
            stack_titles: one word of a column title per line, for tables with many narrow columns.
        """
        import rich.table
        from rich.text import Text

        table = rich.table.Table(box=None, header_style="bold", pad_edge=False)
        shown: list[list[str]] = []
        for index, column in enumerate(self.columns):
            is_number = self.is_number(index)
            title = column.name.replace(" ", "\n") if stack_titles else column.name
            justify: Literal["left", "right"] = "right" if is_number else "left"
            words = " ".join([column.name, *(column.main(row[index]) for row in self.rows)]).split()
            width = min(MAX_WORD, max(map(len, words)))
            table.add_column(Text(title), justify=justify, no_wrap=is_number, overflow="fold", min_width=width)
            shown.append([column.main(row[index]) for row in self.rows])
            extras = [column.extras(row[index]) for row in self.rows]
            if any(extras):
                table.add_column(no_wrap=True)
                shown.append(extras)
        for number, texts in enumerate(zip(*shown, strict=True)):
            if number == len(self.rows) - self.num_summary_rows:
                table.add_row()
            table.add_row(*map(Text, texts))
        return table

    def to_markdown(self) -> str:
        """Markdown, with best numbers in bold and worst languages underlined."""
        titles = [escape_markdown(column.title) for column in self.columns]
        rows = [titles, *self._marked(escape_markdown, "**{}**", "<u>{}</u>")]
        lines = [f"| {' | '.join(row)} |" for row in rows]
        marks = ("--:" if self.is_number(index) else "---" for index in range(len(self.columns)))
        lines.insert(1, f"|{'|'.join(marks)}|")
        caption = [escape_markdown(self.caption), ""] if self.caption else []
        return "\n".join([*lines, "", *caption])

    def to_latex(self) -> str:
        """LaTeX for the package booktabs, with best numbers in bold and worst languages underlined."""
        alignment = "".join("r" if self.is_number(index) else "l" for index in range(len(self.columns)))
        lines = [
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{escape_latex(self.caption)}}}",
            rf"\label{{tab:{self.name}}}",
            rf"\begin{{tabular}}{{{alignment}}}",
            r"\toprule",
            " & ".join(escape_latex(column.title) for column in self.columns) + r" \\",
            r"\midrule",
        ]
        marked = self._marked(escape_latex, r"\textbf{{{}}}", r"\underline{{{}}}")
        lines += [" & ".join(row) + r" \\" for row in marked]
        return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}", ""])

    def _marked(self, escape: Callable[[str], str], best: str, worst: str) -> Iterable[list[str]]:
        for row, texts in zip(self.rows, self.texts(), strict=True):
            marked = []
            for cell, text in zip(row, map(escape, texts), strict=True):
                text = worst.format(text) if cell.is_worst else text
                marked.append(best.format(text) if cell.is_best else text)
            yield marked

    def to_csv(self) -> str:
        """CSV with six digits, and separate columns for deviations, limits of intervals and notes."""
        columns = []
        for index, column in enumerate(self.columns):
            cells = [row[index] for row in self.rows]
            parts: dict[str, list[str | float | None]] = {
                "": [cell.value for cell in cells],
                " deviation": [cell.deviation for cell in cells],
                " low": [cell.interval and cell.interval[0] for cell in cells],
                " high": [cell.interval and cell.interval[1] for cell in cells],
                " note": [cell.note or None for cell in cells],
            }
            for part, values in parts.items():
                if not part or any(value is not None for value in values):
                    texts = (f"{value:.6g}" if isinstance(value, int | float) else value for value in values)
                    columns.append([column.name + part, *texts])
        file = io.StringIO()
        csv.writer(file, lineterminator="\n").writerows(zip(*columns, strict=True))
        return file.getvalue()


def write_tables(tables: Iterable[Table], folder: PathLike) -> None:
    """Writes each table as .md, .csv and .tex."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    for table in tables:
        for ending, text in (("md", table.to_markdown()), ("csv", table.to_csv()), ("tex", table.to_latex())):
            with atomic_write(Path(folder) / f"{table.name}.{ending}") as file:
                file.write(text)


def _mark_best(rows: Sequence[list[Cell]], columns: Sequence[Column[Any]]) -> None:
    for index, column in enumerate(columns):
        values = [value for row in rows if isinstance(value := row[index].value, float)]
        if column.better and len(set(values)) > 1:
            best = min(values) if column.better == "lower" else max(values)
            for row in rows:
                row[index] = replace(row[index], is_best=row[index].value == best)
