"""The rules of the package: imports go downward, importing it is cheap, files are short, class names are unique."""

import ast
import importlib.util
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import ctcdro

PACKAGE = Path(ctcdro.__file__).parent

# The folders of the package, lowest first. A folder imports only from itself and from folders earlier in this list;
# nothing imports the integrations.
FOLDERS = [
    "runtime",
    "storage",
    "objectives",
    "sampling",
    "speech",
    "runs",
    "scoring",
    "prepare",
    "synthetic",
    "check",
    "models",
    "decoding",
    "grouping",
    "training",
    "report",
    "serve",
    "sweeps",
    "demo",
    "recipes",
    "integrations",
    "cli",
]


MAX_LINES = 320

spec = importlib.util.spec_from_file_location("draw_architecture", PACKAGE.parents[1] / "docs/draw_architecture.py")
graph = importlib.util.module_from_spec(spec)
spec.loader.exec_module(graph)

MODULES = graph.modules()
IMPORTS = {name: {*graph.imports(path)} - {"__version__"} for name, path in MODULES.items()}
folder = graph.folder_of


def test_all_modules_but_the_entry_points_are_in_folders():
    assert {name for name in MODULES if "/" not in name} == {"__init__", "__main__"}
    assert {folder(name) for name in MODULES if "/" in name} == set(FOLDERS)


def test_imports_between_folders_go_downward():
    upward = [
        f"{name} imports {imported}"
        for name, found in IMPORTS.items()
        if "/" in name
        for imported in found
        if folder(name) != folder(imported) and FOLDERS.index(folder(name)) <= FOLDERS.index(folder(imported))
    ]
    assert upward == []


def test_no_module_imports_itself_by_way_of_others():
    order = TopologicalSorter(IMPORTS)
    order.prepare()  # raises CycleError


def test_nothing_imports_the_integrations():
    assert not [
        name
        for name, found in IMPORTS.items()
        if folder(name) != "integrations"
        for one in found
        if folder(one) == "integrations"
    ]


def test_no_file_is_longer_than_the_limit():
    lengths = {name: len(path.read_text(encoding="utf-8").splitlines()) for name, path in MODULES.items()}
    assert {name: length for name, length in lengths.items() if length > MAX_LINES} == {}


def test_no_class_name_is_defined_twice():
    homes = {}
    for name, path in MODULES.items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name, []).append(name)
    assert {name: files for name, files in homes.items() if len(files) > 1} == {}


def test_the_package_needs_torch_and_numpy_only():
    program = (
        "import sys, torch, numpy; before = set(sys.modules); from ctcdro import *; "
        "print(*{name.split('.')[0] for name in set(sys.modules) - before} - sys.stdlib_module_names)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) <= {"ctcdro", "torch", "numpy"}


# A package that each integration needs, and the extra that installs it.
EXTRAS = {
    "espnet": ("espnet2", "espnet"),
    "hf_trainer": ("transformers", "hf-trainer"),
    "lhotse": ("lhotse", "lhotse"),
    "lightning": ("lightning", "lightning"),
    "speechbrain": ("speechbrain", "speechbrain"),
}


def test_an_integration_without_its_toolkit_names_the_extra():
    program = f"""
import importlib, sys
for toolkit, (package, extra) in {EXTRAS!r}.items():
    sys.modules[package] = None
    try:
        importlib.import_module(f"ctcdro.integrations.{{toolkit}}")
    except ImportError as error:
        assert f"pip install 'ctcdro[{{extra}}]'" in str(error), error
    else:
        raise AssertionError(toolkit)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_nothing_heavy_is_imported_before_it_is_used():
    program = "import sys, ctcdro; assert 'torch' not in sys.modules and 'numpy' not in sys.modules; print(dir(ctcdro))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "LengthMatchedBatchSampler" in done.stdout


def test_all_public_names_exist_and_are_explained():
    for name in ctcdro.__all__:
        assert getattr(ctcdro, name).__doc__, name
