"""The command line without the start of a process, which takes longer than most commands."""

import contextlib
import io
import sys
from types import SimpleNamespace
from unittest import mock

from ctcdro.cli.main import main


def run(*arguments, cwd="."):
    """Runs a command; returns its exit status and output like `subprocess.run`."""
    stdout, stderr = io.StringIO(), io.StringIO()
    with (
        mock.patch.object(sys, "argv", ["ctcdro", *map(str, arguments)]),
        contextlib.chdir(cwd),
        contextlib.redirect_stdout(stdout),
        contextlib.redirect_stderr(stderr),
    ):
        try:
            main()
            status = 0
        except SystemExit as error:
            status = error.code or 0
    return SimpleNamespace(returncode=status, stdout=stdout.getvalue(), stderr=stderr.getvalue())
