"""Where an optional package is missing, the extra that has it is named."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from ctcdro.runtime.extras import MissingExtraError, extra

OPTIONAL = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]["optional-dependencies"]

# Import names of the packages, where they differ.
MODULES = {"pyyaml": "yaml", "espeakng-loader": "espeakng_loader", "flashlight-text": "flashlight"}

# No finder finds a blocked module, as where its package is not installed.
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


def run_with_only(installed, program):
    """Runs a program where, of all optional packages, only those of one extra can be imported."""
    blocked = set().union(*map(modules_of, OPTIONAL)) - (modules_of(installed) if installed else set())
    return subprocess.run(
        [sys.executable, "-c", BLOCKING.format(blocked=blocked) + program], capture_output=True, text=True
    )


COMMANDS = {
    "train run.yaml -o run": "train",
    "evaluate .": "train",
    "transcribe . a.wav": "train",
    "export . out": "train",
    "report . -o page.html": "report",
    "sweep sweep.yaml -o sweep": "sweep",
    "demo": "demo",
    "prepare synthetic -o corpus": "demo",
    "prepare huggingface no-such-dataset -o corpus": "huggingface",
    "check . --figure lengths.png": "report",
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_names_its_own_extra(command, tmp_path):
    program = f"import os; os.chdir({str(tmp_path)!r}); sys.argv[1:] = {command.split()!r}; "
    done = run_with_only("data", program + "from ctcdro.cli.main import main; main()")
    name = COMMANDS[command]
    assert done.returncode == 2
    [line] = [line for line in done.stderr.splitlines() if line.startswith("ctcdro: ")]
    assert f"needs the extra `{name}`" in line
    assert f"pip install 'ctcdro[{name}]'" in line


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("runs.config", "train"),
        ("training.setup", "train"),
        ("training.loop", "train"),
        ("decoding.evaluate", "train"),
        ("scoring.scores", "data"),
        ("speech.audio", "data"),
        ("check.check", "data"),
        ("report.page", "report"),
        ("sweeps.sweep", "sweep"),
        ("demo.demo", "demo"),
    ],
)
def test_a_module_names_an_extra_where_only_the_core_is_installed(module, name):
    done = run_with_only(None, f"import ctcdro.{module}")
    assert done.returncode == 1
    assert f"pip install 'ctcdro[{name}]'" in done.stderr.splitlines()[-1]


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
