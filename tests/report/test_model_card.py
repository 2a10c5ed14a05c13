"""A run with a pretrained encoder, from training to a folder for transformers with its card."""

import shutil

import in_process
import pytest
import tiny_encoders
import yaml
from huggingface_hub import ModelCard
from tones import write_dataset

from ctcdro.decoding.evaluate import evaluate
from ctcdro.report.card_metadata import model_index
from ctcdro.report.model_card import model_card
from ctcdro.runs.config import parse_config
from ctcdro.runs.folder import RunFolder
from ctcdro.scoring.scores import score
from ctcdro.scoring.transcripts import Prediction
from ctcdro.speech.language_names import language_name
from ctcdro.speech.vocabulary import Vocabulary
from ctcdro.training.loop import train


@pytest.fixture(scope="module")
def run(one_thread, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    values = {
        "dataset": str(write_dataset(folder / "tones", num_train=6, num_dev=2)),
        "model": {
            "encoder": tiny_encoders.write("wav2vec2", folder / "encoder"),
            "head": "linear",
            "lora": {"rank": 2},
        },
        "data": {"num_workers": 0},
        "sampling": {"batch_duration": 3.0},
        "optimizer": {"batches_per_step": 1},
        "training": {"num_batches": 4, "validate_every_batches": 4, "trackers": ["tensorboard"]},
    }
    return train(parse_config(values), folder / "run")


def test_figures_go_to_tensorboard(run):
    assert list(run.tracking.rglob("events.out.tfevents*"))


def test_a_card_without_test_data_has_no_results(run):
    assert "The model has not been evaluated" in model_card(run)


def test_the_card_has_data_languages_results_and_limitations(run):
    scores = evaluate(run.path, "test").scores
    card = model_card(run)
    for expected in (
        'language:\n- "aaa"\n- "bbb"',
        "| dataset | tones |",
        "| objective | CTC-DRO |",
        "| encoder | encoder |",
        "## Limitations",
    ):
        assert expected in card
    assert f"| Ghotuo (aaa) | 2 | {100 * scores.languages['aaa'].cer:.1f} |" in card
    assert f"| worst CER: {scores.worst_label(show=language_name)} |" in card
    assert "Group weights at the end of training: Ghotuo (aaa) 0." in card


def test_the_hub_reads_the_results(run):
    scores = evaluate(run.path, "test").scores
    card = ModelCard(model_card(run, "onnx"))
    assert card.data.library_name == "onnx"
    assert card.data.model_name == "run"
    found = {(result.dataset_config, result.metric_name): result.metric_value for result in card.data.eval_results}
    assert found == {
        ("all languages", "worst CER over languages"): round(100 * scores.worst()[1], 2),
        ("all languages", "mean CER over languages"): round(100 * scores.mean(), 2),
        **{(name, "CER"): round(100 * rate, 2) for name, rate in scores.rates("cer").items()},
    }
    [result] = [result for result in card.data.eval_results if result.dataset_config == "aaa"]
    assert (result.task_type, result.metric_type) == ("automatic-speech-recognition", "cer")
    assert (result.dataset_name, result.dataset_type, result.dataset_split) == ("tones", "tones", "test")


def test_the_type_of_a_dataset_looks_like_an_id_on_the_hub():
    scores = score([Prediction("1", "aaa", "ab", "aaa", "ab")])
    [_, result] = model_index("m", "my tones (2)", scores)["results"]
    assert result["dataset"] == {"name": "my tones (2)", "type": "my-tones-2-", "config": "aaa", "split": "test"}


def test_the_card_hides_the_path_of_the_encoder(run):
    assert str(run.path.parent) not in model_card(run)


@pytest.mark.parametrize(
    ("encoder", "shown"),
    [
        ("facebook/wav2vec2-xls-r-300m", "facebook/wav2vec2-xls-r-300m"),
        ("/home/someone/encoders/mine/", "mine"),
        ("../encoders/mine", "mine"),
    ],
)
def test_an_encoder_is_called_by_its_name(run, tmp_path, encoder, shown):
    assert f"| encoder | {shown} |" in model_card(changed(run, tmp_path, model={"encoder": encoder}))


@pytest.mark.parametrize(
    ("sampling", "shown"),
    [
        ({"batch_duration": 6}, "length-matched, 6 s"),
        ({"sampler": "group-uniform", "batch_size": 3}, "group-uniform, 3 utterances"),
    ],
)
def test_batches_are_described_by_the_settings_of_their_sampler(run, tmp_path, sampling, shown):
    assert f"| batches | {shown} |" in model_card(changed(run, tmp_path, sampling=sampling))


def test_the_hub_reads_languages_as_text(run, tmp_path):
    folder = changed(run, tmp_path)
    Vocabulary(["no", "yes", "1e5"], "abc").save(folder.vocabulary)
    header = yaml.safe_load(model_card(folder).split("---\n")[1])
    assert header["language"] == ["1e5", "no", "yes"]


def changed(run, tmp_path, **sections):
    """A run with another configuration, and all else that a card needs."""
    folder = RunFolder(tmp_path / "changed")
    folder.path.mkdir()
    parse_config({"dataset": "tones", **sections}).write(folder.config)
    for name in ("run.json", "vocab.json"):
        shutil.copy(run.path / name, folder.path)
    return folder


def test_the_exported_folder_is_loaded_by_transformers_alone(run, tmp_path):
    command = ("export", run.path, "--out", tmp_path / "exported")
    done = in_process.run(*command)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "exported" / "README.md").read_text(encoding="utf-8").startswith("---\nlanguage:")
    from transformers import AutoModelForCTC

    assert type(AutoModelForCTC.from_pretrained(tmp_path / "exported")).__name__ == "Wav2Vec2ForCTC"
    again = in_process.run(*command)
    assert again.returncode == 2
    assert "is not empty" in again.stderr


def test_the_command_writes_onnx_graphs(run, tmp_path):
    done = in_process.run("export", run.path, "--format", "onnx", "--int8", "--out", tmp_path / "exported")
    assert done.returncode == 0, done.stderr
    assert {"model.onnx", "model.int8.onnx", "tokens.txt"} < {path.name for path in (tmp_path / "exported").iterdir()}
    card = (tmp_path / "exported" / "README.md").read_text(encoding="utf-8")
    assert "library_name: onnx" in card
    assert "| `logprobs` | (batch, frames, labels) |" in card


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--format", "tflite"], "--format"),
        (["--int8"], "int8 weights need the format onnx. Use --format onnx"),
    ],
)
def test_errors_of_the_command_are_one_line(run, tmp_path, options, message):
    done = in_process.run("export", run.path, "--out", tmp_path / "exported", *options)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "exported").exists()


def test_a_model_of_another_version_is_named(run, tmp_path):
    folder = RunFolder(shutil.copytree(run.path, tmp_path / "new"))
    config = folder.model / "config.json"
    config.write_text(config.read_text().replace("ctcdro recognizer 1", "ctcdro recognizer 2"))
    done = in_process.run("export", folder.path, "--out", tmp_path / "exported")
    assert done.returncode == 2
    assert "config.json: written by another version of ctcdro (format 'ctcdro recognizer 2'; this" in done.stderr
    assert done.stderr.count("\n") == 1
