"""Imports without garbage collection."""

import gc

import pytest

from ctcdro.cli.imports import keep_imports


def test_collection_is_off_during_imports_and_skips_what_they_created():
    try:
        with keep_imports():
            assert not gc.isenabled()
        assert gc.isenabled()
        assert gc.get_freeze_count() > 0
        with pytest.raises(ImportError), keep_imports():
            raise ImportError
        assert gc.isenabled()
    finally:
        gc.unfreeze()
