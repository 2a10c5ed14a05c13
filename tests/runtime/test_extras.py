"""If an optional package is missing, the error names its extra."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from ctcdro.runtime.extras import MissingExtraError, extra

OPTIONAL = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]["optional-dependencies"]

# Import names of the packages, where they differ.
MODULES = {
    "pyyaml": "yaml",
    "espeakng-loader": "espeakng_loader",
    "flashlight-text": "flashlight",
    "scikit-learn": "sklearn",
}

# Blocked modules cannot be found, as if their package were not installed.
BLOCKING = """
import sys
from importlib.machinery import PathFinder

class Finder(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.split(".")[0] in {blocked!r} else PathFinder.find_spec(name, path, target)

sys.meta_path = [Finder if finder is PathFinder else finder for finder in sys.meta_path]
"""


def modules_of(name):
    """Top-level modules of the packages of an extra, those of the extras in it included."""
    found = set()
    for requirement in OPTIONAL[name]:
        package = requirement.split(";")[0].split(">=")[0].strip()
        if package.startswith("ctcdro["):
            found.update(*(modules_of(inner) for inner in package[7:-1].split(",")))
        else:
            found.add(MODULES.get(package, package))
    return found | ({"pydantic"} if "typer" in found else set())  # which typer needs


def run_with_only(installed, program, folder):
    """Runs a program where, of all optional packages, only those of one extra can be imported; it prints JSON."""
    blocked = set().union(*map(modules_of, OPTIONAL)) - (modules_of(installed) if installed else set())
    command = [sys.executable, "-c", BLOCKING.format(blocked=blocked) + program]
    return json.loads(subprocess.run(command, capture_output=True, text=True, cwd=folder, check=True).stdout)


COMMANDS = {
    "train run.yaml -o run": "train",
    "evaluate .": "train",
    "transcribe . a.wav": "train",
    "export . -o out": "train",
    "report . -o page.html": "report",
    "sweep sweep.yaml -o sweep": "sweep",
    "config init": "train",
    "config check run.yaml": "train",
    "demo": "demo",
    "prepare synthetic -o corpus": "demo",
    "prepare huggingface no-such-dataset -o corpus": "huggingface",
    "check . --figure lengths.png": "report",
    "groups . -o grouped --encoder mel-small": "groups",
}


RUN_ALL = """
import contextlib, io, json
from ctcdro.cli.main import main

results = {{}}
for command in {commands!r}:
    sys.argv[1:] = command.split()
    with contextlib.redirect_stderr(io.StringIO()) as stderr, contextlib.redirect_stdout(io.StringIO()):
        try:
            main()
        except SystemExit as error:
            results[command] = error.code, stderr.getvalue()
print(json.dumps(results))
"""


def test_a_command_names_its_own_extra(tmp_path):
    for name in ("run.yaml", "sweep.yaml", "a.wav"):
        (tmp_path / name).touch()
    results = run_with_only("data", RUN_ALL.format(commands=list(COMMANDS)), tmp_path)
    assert results.keys() == COMMANDS.keys()
    for command, (status, stderr) in results.items():
        [line] = [line for line in stderr.splitlines() if line.startswith("ctcdro: ")]
        assert f"needs the extra `{COMMANDS[command]}`" in line, command
        assert f"pip install 'ctcdro[{COMMANDS[command]}]'" in line, command
        assert status == 2


MODULE_EXTRAS = {
    **{"runs.config": "train", "training.setup": "train", "training.loop": "train", "decoding.evaluate": "train"},
    **{"scoring.scores": "data", "speech.audio": "data", "check.check": "data", "prepare.joined": "data"},
    **{"report.page": "report", "grouping.find": "groups", "sweeps.sweep": "sweep", "demo.demo": "demo"},
}

IMPORT_ALL = """
import importlib, json

errors = {{}}
for module in {modules!r}:
    try:
        importlib.import_module("ctcdro." + module)
    except ImportError as error:
        errors[module] = str(error)
print(json.dumps(errors))
"""


def test_a_module_names_an_extra_where_only_the_core_is_installed(tmp_path):
    errors = run_with_only(None, IMPORT_ALL.format(modules=list(MODULE_EXTRAS)), tmp_path)
    assert errors.keys() == MODULE_EXTRAS.keys()
    for module, message in errors.items():
        assert f"pip install 'ctcdro[{MODULE_EXTRAS[module]}]'" in message, module


def test_the_outermost_user_is_named_with_the_first_cause():
    with pytest.raises(MissingExtraError) as raised, extra("report", "`ctcdro report`"), extra("train", "Training"):
        import no_such_package  # noqa: F401
    assert str(raised.value) == (
        "`ctcdro report` needs the extra `report`: pip install 'ctcdro[report]' (No module named 'no_such_package')"
    )
    assert raised.value.name == "no_such_package"
    assert type(raised.value.__cause__) is ModuleNotFoundError


def test_other_errors_pass_unchanged():
    with pytest.raises(ZeroDivisionError), extra("train", "Training"):
        print(1 / 0)
