"""The diff on the page about extensions applies to the package as it is, and adds a method that trains."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import ctcdro

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "extend.md"
PROGRAM = """
import torch
from ctcdro.objectives.methods import METHODS
from ctcdro.runs.config import parse_config

config = parse_config({"dataset": "set1", "objective": {"name": "tilted", "temperature": 50}}).objective
objective = METHODS["tilted"].create(2, config.settings)
for _ in range(3):
    objective(torch.tensor([100.0, 50.0]), torch.tensor([0, 1]))
torch.testing.assert_close(objective.weights, torch.tensor([2.0, 1.0]).softmax(0))
print(objective)
"""


@pytest.mark.skipif(shutil.which("git") is None, reason="git applies the diff")
def test_a_method_is_one_file_and_one_entry(tmp_path):
    (diff,) = re.findall(r"```diff\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    package = tmp_path / "src" / "ctcdro"
    shutil.copytree(Path(ctcdro.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    subprocess.run(["git", "apply"], input=diff, text=True, cwd=tmp_path, check=True)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env={"PYTHONPATH": str(tmp_path / "src")}, capture_output=True, text=True
    )
    assert done.stdout.startswith("CTCDRO(num_groups=2, temperature=50.0, signal='loss_per_second'"), done.stderr
