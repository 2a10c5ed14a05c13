"""The subgroups that are served worst, as a table."""

from __future__ import annotations

from ...scoring.subgroups import Subgroup, SubgroupSearch
from ..subgroups import show_conditions
from ..table import Column, Table, interval_cell, p_value_column, percent


def subgroups_table(search: SubgroupSearch, name: str = "subgroups") -> Table:
    """One row per subgroup, the clearest first."""
    columns: list[Column[Subgroup]] = [
        Column("subgroup", lambda one: show_conditions(one.conditions)),
        Column("utterances", lambda one: one.num_utterances, decimals=0),
        Column("CER", lambda one: percent(one.rate)),
        Column("expected CER", lambda one: percent(one.expected)),
        Column("excess", lambda one: interval_cell(one.excess), signed=True),
        p_value_column("p", lambda one: one.p_value),
    ]
    caption = (
        "CER of the subgroup, and the CER that it would have if each utterance had that of its language, in percent; "
        "the difference with its 95% interval; p-value. Interval and p-value are corrected for the number of "
        "subgroups. Utterances of one row do not count for the next rows."
    )
    return Table.of(name, caption, columns, search.found)
