"""The cache of convolutions is limited, unless the user has set a limit."""

import os

from ctcdro.runtime.convolution_cache import CAPACITY, VARIABLE, limit_convolution_cache


def test_the_limit_is_set_unless_the_user_has_set_one(monkeypatch):
    monkeypatch.setenv(VARIABLE, "7")
    limit_convolution_cache()
    assert os.environ[VARIABLE] == "7"
    monkeypatch.delenv(VARIABLE)
    limit_convolution_cache()
    assert os.environ[VARIABLE] == str(CAPACITY)
