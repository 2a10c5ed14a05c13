"""The diagnosis at the end of training: its sample, its figures, and runs that end in unusual ways."""

import json
from collections import Counter
from pathlib import Path

import pytest
from exact_runs import Launch
from tones import write_dataset

from ctcdro.decoding.evaluate import evaluate
from ctcdro.runs.config import parse_config
from ctcdro.runs.folder import RunFolder
from ctcdro.scoring.diagnosis import read_diagnosis
from ctcdro.speech.manifest import Manifest
from ctcdro.storage.json_files import read_log
from ctcdro.training import loop
from ctcdro.training.loop import train
from ctcdro.training.setup import set_up_run
from ctcdro.training.training_sample import sample_training_data

pytestmark = pytest.mark.usefixtures("one_thread")

NUM_TRAIN, NUM_DEV = 12, 5


def config(dataset, *overrides):
    values = {
        "dataset": str(dataset),
        "model": {"encoder": "mel-small"},
        "objective": {"step_size": 1e-2, "smoothing": 0.5},
        "data": {"num_workers": 0},
        "sampling": {"batch_duration": 4.0},
        "optimizer": {"learning_rate": 2e-3, "batches_per_step": 2},
        "training": {"num_batches": 20, "validate_every_batches": 10, "trackers": []},
    }
    return parse_config(values, overrides)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    return write_dataset(tmp_path_factory.mktemp("dataset"), num_train=NUM_TRAIN, num_dev=NUM_DEV)


@pytest.fixture(scope="module")
def finished(dataset, one_thread, tmp_path_factory):
    return train(config(dataset), tmp_path_factory.mktemp("runs") / "run")


def sample_of(dataset, by="lang"):
    manifests = [Manifest.read(dataset / f"{split}.jsonl") for split in ("train", "dev")]
    return sample_training_data(*manifests, manifests[0].groups(by), lambda manifest, on_bad_audio: None)


def test_the_sample_has_as_many_utterances_per_language_as_dev(dataset):
    manifest = sample_of(dataset).manifest
    assert Counter(one.lang for one in manifest) == {"aaa": NUM_DEV, "bbb": NUM_DEV}
    assert len({one.id for one in manifest}) == 2 * NUM_DEV
    assert list(sample_of(dataset).manifest) == list(manifest)
    assert manifest.lines == sorted(manifest.lines)


def test_a_language_without_development_data_has_a_sample_of_the_typical_size(tmp_path):
    data = write_dataset(tmp_path / "data", num_train=4, num_dev=3)
    dev = data / "dev.jsonl"
    dev.write_text("".join(line for line in dev.read_text().splitlines(keepends=True) if '"aaa"' in line))
    assert Counter(one.lang for one in sample_of(data).manifest) == {"aaa": 3, "bbb": 3}
    diagnosis = read_diagnosis(train(config(data, "training.num_batches=4"), tmp_path / "run").diagnosis)
    assert (diagnosis.languages["bbb"].dev_cer, diagnosis.languages["bbb"].num_sampled) == (None, 3)


def test_errors_are_those_of_the_selected_model(finished, dataset, tmp_path):
    diagnosis = read_diagnosis(finished.diagnosis)
    sample = sample_of(dataset).manifest
    sample.write(tmp_path / "sample.jsonl")
    on_sample = evaluate(finished.path, "sample", dataset=tmp_path).scores.rates("cer")
    on_dev = evaluate(finished.path, "dev").scores.rates("cer")
    for language, own in diagnosis.languages.items():
        assert own.train_cer == pytest.approx(on_sample[language])
        assert own.dev_cer == pytest.approx(on_dev[language])
        assert own.num_sampled == NUM_DEV
    assert (diagnosis.step, diagnosis.num_steps) == (10, 10)


def test_figures_are_those_of_the_log_and_the_data(finished, dataset):
    diagnosis = read_diagnosis(finished.diagnosis)
    records = list(read_log(finished.group_weights))
    train_data = Manifest.read(dataset / "train.jsonl")
    for language, own in diagnosis.languages.items():
        utterances = [one for one in train_data if one.lang == language]
        seconds = sum(one.duration for one in utterances)
        assert own.minutes == pytest.approx(seconds / 60)
        assert own.characters_per_second == pytest.approx(sum(len(one.text) for one in utterances) / seconds)
        assert own.final_weight == records[-1]["weights"][language]
        assert own.mean_weight == pytest.approx(sum(record["weights"][language] for record in records) / 10)
        assert own.passes == pytest.approx(sum(one["durations"].get(language, 0) for one in records) / seconds)
        last = records[-1]
        loss = last["losses"][language] * last["num_utterances"][language]
        assert own.loss_per_character == pytest.approx(loss / last["num_characters"][language])
        assert own.loss_per_second == pytest.approx(loss / last["durations"][language])


def test_the_step_log_counts_what_each_step_has_used(dataset, tmp_path):
    """Steps of one batch, so that its only group is the whole step; the language token is not a character."""
    overrides = ("optimizer.batches_per_step=1", "sampling.exponent=1", "sampling.batch_duration=2")
    run = set_up_run(config(dataset, *overrides), RunFolder(tmp_path / "run"))
    manifest = Manifest.read(dataset / "train.jsonl")
    plan = run.stream._sampler.plan(0)
    for batch in (plan[number] for number in range(5)):
        record = loop.train_step(run)
        [language] = {manifest[index].lang for index in batch}
        assert record["num_utterances"] == {language: len(batch)}
        assert record["num_characters"] == {language: sum(len(manifest[index].text) for index in batch)}
        assert record["durations"] == {language: pytest.approx(sum(manifest.durations[batch]), abs=1e-3)}


@pytest.mark.parametrize(
    ("by", "expected"), [("lang", {"aaa": "aaa", "bbb": "bbb"}), ("lang,corpus", 4), ("corpus", {})]
)
def test_figures_of_groups_belong_to_a_language_only_if_no_group_mixes_languages(tmp_path, by, expected):
    data = write_dataset(tmp_path / "data", num_train=4, num_dev=2)
    train_file = data / "train.jsonl"
    records = [json.loads(line) for line in train_file.read_text().splitlines()]
    train_file.write_text(
        "".join(json.dumps({**record, "corpus": "xy"[place % 2]}) + "\n" for place, record in enumerate(records))
    )
    languages = sample_of(data, by).languages
    assert languages == expected or len(languages) == expected
    if by != "lang":
        run = train(config(data, f"data.group_by={by}", "training.num_batches=8"), tmp_path / "run")
        weights = [own.final_weight for own in read_diagnosis(run.diagnosis).languages.values()]
        assert weights == [None, None] if by == "corpus" else sum(weights) == pytest.approx(1)


def test_normalized_losses_are_not_shown_as_losses_per_character(dataset, tmp_path):
    run = train(config(dataset, "objective.loss_normalization=label", "training.num_batches=4"), tmp_path / "run")
    own = read_diagnosis(run.diagnosis).languages["aaa"]
    assert own.loss_per_character is own.loss_per_second is None
    assert own.passes > 0


def test_a_run_killed_before_its_model_is_published_ends_with_the_same_diagnosis(finished, dataset, tmp_path):
    class KilledError(Exception):
        pass

    def fail(run):
        raise KilledError

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(loop, "publish_best_model", fail)
        with pytest.raises(KilledError):
            train(config(dataset), tmp_path / "run")
    run = RunFolder(tmp_path / "run")
    run.diagnosis.unlink()
    train(config(dataset), run.path)
    assert run.diagnosis.read_bytes() == finished.diagnosis.read_bytes()


def test_two_processes_write_the_diagnosis_of_one(dataset, tmp_path):
    """With a learning rate of almost zero both have the same model."""
    same = config(dataset, "optimizer.learning_rate=1e-12", "training.num_batches=8", "optimizer.batches_per_step=4")
    same.write(tmp_path / "config.yaml")
    Launch(tmp_path / "config.yaml", tmp_path / "two", num_processes=2).finish()
    two, one = (read_diagnosis(path.diagnosis) for path in (RunFolder(tmp_path / "two"), train(same, tmp_path / "one")))
    for language, own in one.languages.items():
        assert two.languages[language].train_cer == own.train_cer
        assert two.languages[language].passes == pytest.approx(own.passes)
        assert two.languages[language].loss_per_character == pytest.approx(own.loss_per_character, rel=1e-4)


def test_audio_that_training_did_not_need_may_be_unreadable(tmp_path):
    data = write_dataset(tmp_path / "data", num_train=8, num_dev=8)
    one = config(data, "training.num_batches=2", "sampling.batch_duration=2")
    plan = set_up_run(one, RunFolder(tmp_path / "plan")).stream._sampler.plan(0)
    used = {*plan[0], *plan[1]}
    unused = next(own for index, own in enumerate(Manifest.read(data / "train.jsonl")) if index not in used)
    Path(unused.audio_filepath).write_bytes(b"RIFF")
    own = read_diagnosis(train(one, tmp_path / "run").diagnosis).languages[unused.lang]
    assert own.num_sampled == 7


def test_ids_may_be_missing_or_repeated(tmp_path):
    data = write_dataset(tmp_path / "data", num_train=6, num_dev=4)
    train_file = data / "train.jsonl"
    records = [json.loads(line) | {"id": "same"} for line in train_file.read_text().splitlines()]
    del records[0]["id"]
    train_file.write_text("".join(json.dumps(record) + "\n" for record in records))
    run = train(config(data, "training.num_batches=4"), tmp_path / "run")
    assert read_diagnosis(run.diagnosis).languages["aaa"].num_sampled == 4
