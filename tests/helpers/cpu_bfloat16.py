"""Hooks of pytest: tests marked `bfloat16` are skipped where the CPU cannot multiply matrices in bfloat16."""

import os

import pytest

from ctcdro.runtime import bfloat16


def pytest_configure(config):
    config.addinivalue_line("markers", "bfloat16: multiplies matrices in bfloat16 on the CPU")
    # Before torch is imported. Workers of pytest-xdist, and commands that tests start, inherit the answer.
    bfloat16.prepare_cpu()


def pytest_runtest_setup(item):
    if item.get_closest_marker("bfloat16") and os.environ[bfloat16.VARIABLE] == "fails":
        pytest.skip("bfloat16 does not work on this CPU")
