"""Run folders: names of files, and numbers that can be computed with."""

import pytest
from cases import case

from ctcdro.runs.folder import ResultName, RunFolder, find_model, is_number


def test_names_of_results_can_be_parsed():
    for name, result in (
        ("test", ResultName("test")),
        ("dev-beam", ResultName("dev", is_beam=True)),
        ("test-of-fleurs", ResultName("test", dataset="fleurs")),
        ("test-of-fleurs-beam", ResultName("test", "fleurs", is_beam=True)),
    ):
        with case(name):
            assert ResultName.parse(name) == result
            assert str(result) == name
            assert RunFolder("run").scores(name).as_posix() == f"run/scores/{name}.json"


def test_only_finite_numbers_of_a_sensible_size_count():
    assert is_number(1.5)
    assert not any(map(is_number, (float("nan"), float("inf"), 1e300, True, "1", None)))


def test_a_folder_of_something_else_is_not_taken_for_a_model(tmp_path):
    with pytest.raises(ValueError, match=r"neither a run nor a model: no config\.yaml or config\.json"):
        find_model(tmp_path)
    (tmp_path / "config.json").touch()
    assert find_model(tmp_path) == tmp_path
