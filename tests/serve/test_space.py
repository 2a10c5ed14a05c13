"""The folder of a Hugging Face Space."""

import ast
import json
import re
from pathlib import Path

import pytest
import yaml
from served_runs import write_served_run
from tones import write_dataset

import ctcdro
from ctcdro.models.recognizer import load
from ctcdro.serve.space import GRADIO_VERSION, write_space

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("space")
    run = write_served_run(folder / "run", write_dataset(folder / "tones", num_train=2))
    path = run.model / "config.json"
    config = json.loads(path.read_text())
    config["settings"]["encoder"] = "mel-small"
    path.write_text(json.dumps(config))
    return run


@pytest.fixture(scope="module")
def space(run):
    folder = run.path.parent / "space"
    write_space(run, folder)
    return folder


def test_the_folder_has_all_that_a_space_needs(space, run):
    files = {str(path.relative_to(space)) for path in space.rglob("*") if path.is_file()}
    model = {"model/config.json", "model/model.safetensors", "model/vocab.json"}
    assert files == {"app.py", "requirements.txt", "README.md", *model}
    before, after = load(run.model)[0].state_dict(), load(space / "model")[0].state_dict()
    assert all(before[name].equal(after[name]) for name in before)
    assert f"ctcdro[serve,media]=={ctcdro.__version__}\n" in (space / "requirements.txt").read_text()
    assert "Limitations" in (space / "README.md").read_text()


def test_the_header_is_that_of_a_space_with_the_tested_version(space):
    _, header, body = (space / "README.md").read_text().split("---\n", 2)
    values = yaml.safe_load(header)
    assert {"title", "emoji", "colorFrom", "colorTo", "license"} <= set(values)
    assert (values["sdk"], values["sdk_version"], values["app_file"]) == ("gradio", GRADIO_VERSION, "app.py")
    assert not body.startswith("---")
    assert f"gradio=={GRADIO_VERSION}\n" in (ROOT / "constraints.txt").read_text()


def test_the_app_calls_what_exists(space):
    tree = ast.parse((space / "app.py").read_text())
    [module] = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module.startswith("ctcdro")]
    source = Path(ctcdro.__file__).parent.parent / (module.module.replace(".", "/") + ".py")
    assert all(re.search(rf"^def {alias.name}\(", source.read_text(), re.MULTILINE) for alias in module.names)


def test_no_path_of_this_machine_is_written(run, tmp_path):
    path = run.model / "config.json"
    before = path.read_text()
    config = json.loads(before)
    config["settings"]["encoder"] = "/home/somebody/private/checkpoint"
    path.write_text(json.dumps(config))
    write_space(run, tmp_path / "space")
    path.write_text(before)
    texts = [path.read_text() for path in (tmp_path / "space").rglob("*") if path.suffix in (".json", ".md", ".py")]
    assert not any("/home/" in text or str(run.path.parent) in text for text in texts)
    assert '"encoder": "checkpoint"' in (tmp_path / "space" / "model" / "config.json").read_text()


def test_a_folder_with_content_is_not_replaced(run, tmp_path):
    (tmp_path / "mine").write_text("mine")
    with pytest.raises(ValueError, match="is not empty"):
        write_space(run, tmp_path)
    assert (tmp_path / "mine").read_text() == "mine"
