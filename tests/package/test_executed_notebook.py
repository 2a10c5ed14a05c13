"""The notebook runs from its first cell to its last where only the wheel with the extra `demo` is installed."""

import json

import pytest
from environments import ROOT

pytestmark = pytest.mark.package

PARAMETERS = 'package = "{wheel}"\ndemo_options = "--minutes 0.15:0.03:0.03 --steps 30"'


@pytest.fixture(scope="module")
def executed(environment_with, wheel, workspace):
    """The notebook after a run with little data and few steps."""
    environment = environment_with("demo")
    environment.install("ipykernel", "nbclient", "pip")
    notebook = json.loads((ROOT / "notebooks" / "demo.ipynb").read_text(encoding="utf-8"))
    [cell] = [cell for cell in notebook["cells"] if "parameters" in cell["metadata"].get("tags", [])]
    cell["source"] = PARAMETERS.format(wheel=wheel)
    folder = workspace / "notebook"
    folder.mkdir()
    (folder / "demo.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
    environment.run("jupyter-execute", "demo.ipynb", "--output=executed", cwd=folder)
    return [
        cell for cell in json.loads((folder / "executed.ipynb").read_text())["cells"] if cell["cell_type"] == "code"
    ]


def text_of(cell):
    return "".join("".join(output.get("text", "")) for output in cell["outputs"])


def test_it_shows_the_table_and_the_figures(executed):
    by_source = {"".join(cell["source"]): cell for cell in executed}
    [demo] = [cell for source, cell in by_source.items() if "!ctcdro demo" in source]
    assert "CTC-DRO" in text_of(demo)
    assert "\x1b" not in text_of(demo), "no progress bars"
    [shown] = [cell for source, cell in by_source.items() if "display(" in source]
    kinds = [kind for output in shown["outputs"] for kind in output["data"]]
    assert (kinds.count("text/markdown"), kinds.count("image/png")) == (1, 4)


def test_the_noisy_language_gets_the_largest_weight(executed):
    weights = json.loads(text_of(executed[-1]).splitlines()[-1].partition("weights ")[2].replace("'", '"'))
    assert max(weights, key=weights.get) == "noisy"
