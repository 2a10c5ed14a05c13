"""Runs that start from other models: new languages, exact restarts, errors before and after, and what is printed."""

import exact_runs
import pytest
import tiny_encoders
from exact_runs import interrupt, outcome
from tones import write_dataset

from ctcdro import Manifest
from ctcdro.cli.diagnosis import print_before_after
from ctcdro.models.recognizer import load
from ctcdro.runs.config import parse_config
from ctcdro.storage.json_files import read_json, read_log
from ctcdro.training.loop import train
from ctcdro.training.progress_text import describe_start

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    return write_dataset(tmp_path_factory.mktemp("dataset"), num_train=10, num_dev=2)


@pytest.fixture(scope="module")
def earlier(dataset, tmp_path_factory):
    """A finished run on the first language, with a frozen encoder that has dropout."""
    folder = tmp_path_factory.mktemp("earlier")
    one = folder / "dataset"
    one.mkdir()
    for split in ("train", "dev"):
        manifest = Manifest.read(dataset / f"{split}.jsonl")
        Manifest([utterance for utterance in manifest if utterance.lang == "aaa"]).write(one / f"{split}.jsonl")
    encoder = tiny_encoders.write_with_dropout(folder / "encoder")
    return train(exact_runs.make_config(one, encoder, "frozen"), folder / "run")


def growing(dataset, earlier, **model):
    values = exact_runs.make_config(dataset, "mel-small").model_dump(mode="json")
    return parse_config(values | {"model": {"init_from": str(earlier.path), **model}}, [])


def test_a_run_from_a_frozen_one_trains_everything_and_resumes_exactly(dataset, earlier, tmp_path, capsys):
    records = []
    config = growing(dataset, earlier)
    assert (config.model.head, config.model.freeze_encoder) == ("transformer", False)
    folder = train(config, tmp_path / "whole", callback=records.append)
    before, _ = load(earlier.model)
    after, vocabulary = load(folder.model)
    assert vocabulary.languages == ["aaa", "bbb"]
    name = "encoder.network.encoder.layers.0.attention.q_proj.weight"
    assert (before.state_dict()[name] != after.state_dict()[name]).any()
    assert describe_start(records[0]).startswith(f"Started from {earlier.model}: ")
    assert "[bbb]" in describe_start(records[0])
    for step in (0, 1, 4):
        interrupt(config, tmp_path / "run", step)
    assert outcome(train(config, tmp_path / "run").path) == outcome(folder.path)
    found = read_json(folder.before_after)
    assert read_json(tmp_path / "run" / "before_after.json") == found
    assert found["known_languages"] == ["aaa"]
    selected = [record for record in read_log(folder.log) if record.get("is_best")][-1]
    assert found["after"] == selected["cer"]
    assert found["before"]["aaa"] == read_json(earlier.diagnosis)["languages"]["aaa"]["dev_cer"]
    print_before_after(folder)
    assert "new" in capsys.readouterr().err


def test_only_the_encoder(dataset, earlier, tmp_path):
    config = growing(dataset, earlier, init_head=False, head="linear")
    records = []
    folder = train(config, tmp_path / "run", callback=records.append)
    assert describe_start(records[0]).endswith(f"encoder copied, new head with {len(load(folder.model)[1])} labels.")
    assert not folder.before_after.exists()


def test_wrong_models_to_start_from(dataset, earlier, tmp_path):
    def fails(message, **model):
        with pytest.raises(ValueError, match=message):
            train(growing(dataset, earlier, **model), tmp_path / "run")

    fails("has the encoder .*, but model.encoder is mel-small", encoder="mel-small", head="linear", init_head=False)
    fails("and the head transformer, but model.encoder is mel-small and model.head is linear", encoder="mel-small")
    fails("has the head transformer, but model.head is linear", head="linear")
    fails("model.init_from: .*nowhere: no such folder", init_from=str(tmp_path / "nowhere"))
    unfinished = tmp_path / "unfinished"
    unfinished.mkdir()
    (unfinished / "config.yaml").write_text("")
    fails("the run has no model yet", init_from=str(unfinished))
    with pytest.raises(ValueError, match=r"model\.init_head: false has no effect without `init_from`"):
        parse_config({"dataset": "data", "model": {"init_head": False}}, [])
