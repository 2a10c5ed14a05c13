from cpu_bfloat16 import pytest_configure, pytest_runtest_setup  # noqa: F401
