"""Errors about dead processes."""

import pytest

from ctcdro.runtime.workers import explain_dead_processes


@pytest.mark.parametrize(
    ("message", "kind", "explanation"),
    [
        ("DataLoader worker (pid 7) is killed by signal: Killed.", ChildProcessError, "A data-loading worker has"),
        ("Connection closed by peer [127.0.0.1]:9", ConnectionError, "Another process of this run has died"),
        ("shapes differ", RuntimeError, "^shapes differ$"),
    ],
)
def test_dead_processes_are_explained_and_other_errors_are_not_changed(message, kind, explanation):
    with pytest.raises(kind, match=explanation), explain_dead_processes():
        raise RuntimeError(message)
