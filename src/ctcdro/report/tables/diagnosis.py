"""The diagnosis of a run as a table, for the terminal and the page."""

from __future__ import annotations

from ...scoring.diagnosis import Diagnosis, LanguageDiagnosis
from ...scoring.verdicts import VERDICTS
from ...speech.language_names import language_name
from ..table import Cell, Column, Table, percent

Row = tuple[str, LanguageDiagnosis]


def diagnosis_table(diagnosis: Diagnosis, name: str = "diagnosis", max_rows: int | None = None) -> Table:
    """One row per language, the worst first."""
    columns: list[Column[Row]] = [
        Column("language", lambda row: language_name(row[0])),
        Column("train CER", lambda row: percent(row[1].train_cer)),
        Column("dev CER", lambda row: percent(row[1].dev_cer)),
        Column("loss /char", lambda row: row[1].loss_per_character, decimals=2),
        Column("char /s", lambda row: row[1].characters_per_second),
        Column("final weight", lambda row: row[1].final_weight, decimals=2),
        Column("mean weight", lambda row: row[1].mean_weight, decimals=2),
        Column("minutes", lambda row: row[1].minutes),
        Column("passes", lambda row: row[1].passes),
        Column("verdict", _verdict),
    ]
    caption = (
        "CER of the selected model on a sample of the training data and on dev, in percent; training loss per "
        "character in the last tenth of the steps, in nats; characters per second of audio; group weight at the end, "
        "and its mean over training; minutes of training audio, and passes over it."
    )
    rows = [(language, diagnosis.languages[language]) for language in diagnosis.by_dev_cer[:max_rows]]
    return Table.of(name, caption, columns, rows)


def _verdict(row: Row) -> Cell:
    return Cell(", ".join(VERDICTS[name].title for name in row[1].verdicts) or None)
