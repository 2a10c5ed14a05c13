"""The page about the architecture: the drawing is current, and the functions on the page exist."""

import ast
import doctest
import importlib.util
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("draw_architecture", DOCS / "draw_architecture.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_drawing_is_current(script):
    assert script.DRAWING.read_text(encoding="utf-8") == script.draw(), "out of date; run `make architecture`"


def test_the_drawing_has_every_folder_above_those_that_it_imports(script):
    graph = script.folder_graph()
    level = script.levels(graph)
    assert all(level[folder] > level[below] for folder in graph for below in graph[folder])
    drawing = script.DRAWING.read_text(encoding="utf-8")
    assert all(f">{folder}/</text>" in drawing for folder in graph)


def test_arrows_lead_to_all_folders_that_imports_lead_to(script):
    graph = script.folder_graph()
    arrows = script.reduced(graph)
    assert all(script.reachable(arrows, folder) == script.reachable(graph, folder) for folder in graph)
    assert sum(map(len, arrows.values())) < sum(map(len, graph.values()))


def test_the_examples_of_the_script_run(script):
    assert doctest.testmod(script).failed == 0


def defined_names(folder):
    """Functions, classes and methods of a folder, such as `Manifest.read`, in whichever file."""
    for path in folder.rglob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                yield node.name
                for inner in node.body if isinstance(node, ast.ClassDef) else []:
                    if isinstance(inner, ast.FunctionDef):
                        yield f"{node.name}.{inner.name}"


def test_functions_and_folders_on_the_page_exist(script):
    text = (DOCS / "project/architecture.md").read_text(encoding="utf-8")
    folders = {folder: set(defined_names(script.PACKAGE / folder)) for folder in script.folder_graph()}
    named = re.findall(rf"`({'|'.join(folders)})\.([\w.]+)`", text)
    assert len(named) > 15
    assert [f"{folder}.{name}" for folder, name in named if name not in folders[folder]] == []
    assert {name for name in re.findall(r"`(\w+)/`", text) if name not in folders} == {"model"}
