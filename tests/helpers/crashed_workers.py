"""Hooks of pytest: a suite in which a worker of pytest-xdist crashed has failed, also if no test was running."""

import pytest

crashed = []


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node, error):
    if error:
        crashed.append(node.gateway.id)


def pytest_sessionfinish(session):
    if crashed and session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
