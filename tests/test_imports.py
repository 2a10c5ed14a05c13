"""The house rule on imports: downwards only, and nothing heavy at the door."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import ctcdro

PACKAGE = Path(ctcdro.__file__).parent

# Each module and the modules of ours that it may import. Neighbours in a layer do not import each other.
MAY_IMPORT = {
    "weights": set(),
    "ctc": set(),
    "utterance": set(),
    "vocab": set(),
    "packing": set(),
    "on_device": {"weights"},
    "on_host": {"weights"},
    "objectives": {"ctc", "on_device", "on_host", "weights"},
    "planned": {"packing"},
    "sampling": {"packing", "planned"},
    "__init__": {"ctc", "objectives", "sampling", "utterance", "weights"},
}


def own_imports(path):
    """Names of our modules that a file imports, wherever in the file."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.level or (node.module or "").startswith("ctcdro")):
            module = (node.module or "").removeprefix("ctcdro").strip(".")
            yield from [module.split(".")[0]] if module else [alias.name for alias in node.names]
        elif isinstance(node, ast.Import):
            yield from (alias.name.split(".")[1] for alias in node.names if alias.name.startswith("ctcdro."))


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: path.stem)
def test_modules_import_only_what_is_below_them(path):
    assert set(own_imports(path)) <= MAY_IMPORT[path.stem]


def test_the_package_needs_torch_and_numpy_only():
    program = (
        "import sys, torch, numpy; before = set(sys.modules); import ctcdro; "
        "print(*{name.split('.')[0] for name in set(sys.modules) - before} - sys.stdlib_module_names)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) <= {"ctcdro", "torch", "numpy"}


def test_all_public_names_exist_and_are_explained():
    for name in ctcdro.__all__:
        assert getattr(ctcdro, name).__doc__, name
