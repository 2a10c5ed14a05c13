"""`ctcdro sweep`: its options, and what it shows while runs are trained."""

import io
import json
from types import SimpleNamespace

import pytest
from rich.console import Console
from typer.testing import CliRunner

from ctcdro.cli import console
from ctcdro.cli.main import app
from ctcdro.cli.sweep import JobProgress, _parse_options
from ctcdro.sweeps.jobs import Failure, LaunchState


def task(name, fraction=0.0):
    return SimpleNamespace(name=name, progress=lambda: (fraction, f"step {fraction:.0%}"))


@pytest.mark.parametrize("is_terminal", [True, False])
def test_every_run_that_ended_is_named_and_a_terminal_shows_those_at_work(monkeypatch, is_terminal):
    screen = io.StringIO()
    monkeypatch.setattr(console, "messages", Console(file=screen, force_terminal=is_terminal, width=120))
    with JobProgress() as progress:
        state = LaunchState(waiting=[task("c")], running=[task("b", 0.25)], done=[task("a")])
        progress(state)
        state.waiting, state.running = [], [task("c", 0.5)]
        state.failures.append(Failure("b", "b.log", ["no disk"]))
        progress(state)
        state.is_stopping = True
        progress(state)
    shown = screen.getvalue()
    for line in ("1 of 3 are already finished", "b failed (2 of 3)", "Stopping; runs are writing their checkpoints"):
        assert shown.count(line) == 1
    assert ("step 50%" in shown) == is_terminal


def test_the_schema_describes_every_key():
    keys = json.loads(CliRunner().invoke(app, ["sweep", "--schema"]).stdout)["properties"]
    assert {"run", "objectives", "step_sizes", "smoothings", "settings", "seeds", "overrides", "scoring"} == set(keys)
    assert [key for key, about in keys.items() if "description" not in about] == []


def test_options_of_sbatch_are_keys_and_values():
    assert _parse_options(["account=speech", "qos=a=b"]) == {"account": "speech", "qos": "a=b"}
    with pytest.raises(ValueError, match=r"^--sbatch requires KEY=VALUE, e\.g\. account=speech; got 'account'\.$"):
        _parse_options(["account"])


def test_a_configuration_and_a_folder_are_required():
    done = CliRunner().invoke(app, ["sweep"])
    assert done.exit_code == 2
    assert "CONFIG and --out are required" in done.stderr
