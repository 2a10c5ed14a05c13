"""`make test` fails if a test crashes its process: runs pytest with the options of the Makefile on tests that crash."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OPTIONS = shlex.split(re.search(r"^PYTEST := .* -m pytest (.+)$", (ROOT / "Makefile").read_text(), re.M)[1])

HARMLESS = """
import pytest

@pytest.mark.parametrize("number", range(5))
def test_nothing(number):
    pass
"""

CRASH = """
import os, signal

def test_before():
    pass

def test_that_crashes():
    {}

def test_after():
    pass
"""

CRASH_ON_IMPORT = """
import os, signal

if os.environ["PYTEST_XDIST_WORKER"] == "gw1":
    os.kill(os.getpid(), signal.SIGILL)

def test_never_reached():
    pass
"""


@pytest.fixture
def make_test(tmp_path):
    """Runs pytest like `make test`, in a folder with harmless tests and the given ones."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "tests" / "helpers"),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # for speed
        "PYTEST_XDIST_AUTO_NUM_WORKERS": "2",
    }
    line = [sys.executable, "-m", "pytest", "-p", "xdist", "-p", "crashed_workers", *OPTIONS]
    for name in "abcd":
        (tmp_path / f"test_{name}.py").write_text(HARMLESS)

    def run(*given, options=()):
        for number, text in enumerate(given):
            (tmp_path / f"test_given_{number}.py").write_text(text)
        # Without a time limit, the child itself could hang.
        return subprocess.run(
            [*line, *options], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
        )

    return run


@pytest.mark.parametrize(("name", "num_crashes"), [("SIGKILL", 1), ("SIGILL", 10)])
def test_crashes_end_the_suite_with_a_failure_that_names_a_test(make_test, name, num_crashes):
    done = make_test(*[CRASH.format(f"os.kill(os.getpid(), signal.{name})")] * num_crashes)
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout
    assert re.search(r"FAILED test_given_\d.py::test_that_crashes", done.stdout)


def test_a_worker_that_crashes_while_tests_are_collected_fails_the_suite(make_test):
    done = make_test(CRASH_ON_IMPORT)
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout
    assert "[gw1] node down" in done.stdout


def test_a_test_that_never_ends_is_stopped_and_named(make_test):
    done = make_test(CRASH.format("signal.pause()"), options=["-o", "faulthandler_timeout=2"])
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout
    assert "FAILED test_given_0.py::test_that_crashes" in done.stdout
