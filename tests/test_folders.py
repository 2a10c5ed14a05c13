"""Folders appear whole or not at all."""

import pytest

from ctcdro.folders import folder_written_whole, is_empty


def test_a_folder_replaces_an_earlier_one_when_it_is_complete(tmp_path):
    target = tmp_path / "deep" / "model"
    for content in ("one", "two"):
        with folder_written_whole(target) as unfinished:
            (unfinished / content).write_text(content)
            assert not (target / content).exists()
        assert [path.name for path in target.iterdir()] == [content]
    assert [path.name for path in target.parent.iterdir()] == ["model"]


def test_a_failure_leaves_everything_as_it_was(tmp_path):
    with folder_written_whole(tmp_path / "model") as unfinished:
        (unfinished / "one").write_text("one")

    def fail():
        with folder_written_whole(tmp_path / "model") as unfinished:
            (unfinished / "two").write_text("two")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    assert [path.name for path in (tmp_path / "model").iterdir()] == ["one"]


def test_a_name_relative_to_the_working_folder_will_do(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with folder_written_whole("model"):
        pass
    assert (tmp_path / "model").is_dir()


def test_what_is_empty(tmp_path):
    assert is_empty(tmp_path)
    assert is_empty(tmp_path / "nowhere")
    (tmp_path / "file").write_text("")
    assert not is_empty(tmp_path)
