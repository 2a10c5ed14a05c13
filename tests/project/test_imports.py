"""The house rule on imports: between folders they go downward only, and nothing heavy is imported at the door."""

import ast
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import ctcdro

PACKAGE = Path(ctcdro.__file__).parent

# The folders of the package, lowest first. A folder imports from itself and from those above it in this list; the
# integrations are imported by nothing.
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
    "training",
    "report",
    "sweeps",
    "demo",
    "integrations",
    "cli",
]


def own_imports(path):
    """Names of our modules that a file imports, wherever in the file, as `data/audio`."""
    folder = path.relative_to(PACKAGE).parent.parts
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.level or (node.module or "").split(".")[0] == "ctcdro"):
            base = folder[: len(folder) + 1 - node.level] if node.level else ()
            module = [*base, *(node.module or "").removeprefix("ctcdro").strip(".").split(".")]
            module = "/".join(part for part in module if part)
            is_module = (PACKAGE / f"{module}.py").exists()
            yield from [module] if is_module else [f"{module}/{alias.name}".lstrip("/") for alias in node.names]
        elif isinstance(node, ast.Import):
            yield from (alias.name[7:].replace(".", "/") for alias in node.names if alias.name.startswith("ctcdro."))


MODULES = {path.relative_to(PACKAGE).with_suffix("").as_posix(): path for path in sorted(PACKAGE.rglob("*.py"))}
IMPORTS = {name: {*own_imports(path)} - {"__version__"} for name, path in MODULES.items()}


def folder(module):
    return module.partition("/")[0]


def test_only_the_doors_lie_outside_of_the_folders():
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


@pytest.mark.parametrize("toolkit", EXTRAS)
def test_an_integration_without_its_toolkit_names_the_extra(toolkit):
    package, extra = EXTRAS[toolkit]
    program = f"import sys; sys.modules[{package!r}] = None; import ctcdro.integrations.{toolkit}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 1
    assert f"pip install 'ctcdro[{extra}]'" in done.stderr.splitlines()[-1]


def test_nothing_heavy_is_imported_before_it_is_used():
    program = "import sys, ctcdro; assert 'torch' not in sys.modules and 'numpy' not in sys.modules; print(dir(ctcdro))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "LengthMatchedBatchSampler" in done.stdout


def test_all_public_names_exist_and_are_explained():
    for name in ctcdro.__all__:
        assert getattr(ctcdro, name).__doc__, name
