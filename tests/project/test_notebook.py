"""The notebook is stored without results, and its commands exist."""

import json
from pathlib import Path

NOTEBOOK = json.loads((Path(__file__).parents[2] / "notebooks" / "demo.ipynb").read_text(encoding="utf-8"))


def test_it_is_stored_without_outputs():
    code = [cell for cell in NOTEBOOK["cells"] if cell["cell_type"] == "code"]
    assert len(code) > 5
    assert [cell["outputs"] for cell in code] == [[]] * len(code)
    assert {cell["execution_count"] for cell in code} == {None}
    assert NOTEBOOK["metadata"].keys() == {"kernelspec", "language_info"}
