"""Run folders become results; missing files are reported with the command that creates them."""

import json
import shlex
import shutil
import tracemalloc
from dataclasses import replace

import pytest
from run_folders import write_run
from tones import write_dataset

from ctcdro import Manifest, Utterance
from ctcdro.prepare.readers.ml_superb_sets import SETS
from ctcdro.report.read_runs import WeightHistory, read_dataset, read_runs


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    return write_dataset(tmp_path_factory.mktemp("data") / "tones", num_train=3, num_dev=5)


@pytest.fixture
def run(tmp_path, dataset):
    return write_run(tmp_path / "run", dataset, "ctc-dro")


def test_weights_are_uniform_if_all_groups_have_the_same_at_all_steps():
    assert WeightHistory([1, 2], {"aaa": [0.5, 0.5], "bbb": [0.5, 0.5]}).is_uniform
    assert not WeightHistory([1], {"aaa": [0.4], "bbb": [0.6]}).is_uniform
    assert not WeightHistory([1, 2], {"aaa": [0.5, 0.4], "bbb": [0.5, 0.6]}).is_uniform


def test_a_run_is_read_with_all_that_it_left_behind(run, dataset):
    [result] = read_runs([run.path]).runs
    assert result.name == "run"
    assert result.scores.to_record() == json.loads(run.scores("test").read_text())
    assert result.weights.steps == [1, 2, 3]
    assert result.weights.groups["bbb"] == pytest.approx([0.55, 0.6, 0.65])
    assert not result.weights.is_uniform
    assert result.speed.num_steps == 3
    assert result.speed.audio_seconds == 180.0
    assert result.speed.audio_per_second == 2.0  # 60 s of audio, every 30 s
    assert sorted(result.dataset.durations) == ["aaa", "bbb"]
    assert set(result.counts.ids) == set(result.dataset.utterances)


def test_of_a_folder_of_runs_those_that_are_scored_are_taken(tmp_path, dataset):
    for seed in (0, 1):
        write_run(tmp_path / "sweep" / "runs" / f"s{seed}", dataset, seed=seed)
    unscored = write_run(tmp_path / "sweep" / "runs" / "s2", dataset, seed=2)
    unscored.scores("test").unlink()
    found = read_runs([tmp_path / "sweep"])
    assert [run.name for run in found.runs] == ["s0", "s1"]
    assert found.num_skipped == 1


def test_a_run_that_is_named_twice_is_read_once(run):
    assert len(read_runs([run.path, run.path / ".." / "run"]).runs) == 1


def test_runs_of_the_same_name_are_called_by_more_of_their_paths(tmp_path, dataset):
    folders = [write_run(tmp_path / parent / "run", dataset).path for parent in ("a", "b")]
    assert [run.name for run in read_runs(folders).runs] == ["a/run", "b/run"]


def test_an_unfinished_run_is_rejected_with_the_command_that_resumes_it(run):
    shutil.rmtree(run.model)
    with pytest.raises(
        ValueError, match=r"run: the run is not finished. Resume it with `ctcdro train .*config.yaml --out .*run`"
    ):
        read_runs([run.path])


def test_a_run_without_scores_is_rejected_with_the_command_that_evaluates_it(run):
    with pytest.raises(ValueError, match=r"scores/dev.json: no such file. Run `ctcdro evaluate .*run --split dev`"):
        read_runs([run.path], "dev")


def test_commands_can_be_pasted_whatever_a_folder_is_called(run, tmp_path):
    name = "my run; rm -rf $HOME `x` 'y'"
    run.path.rename(tmp_path / name)
    with pytest.raises(ValueError, match=r"no such file\. Run `ctcdro evaluate") as refused:
        read_runs([tmp_path / name], "dev")
    command = str(refused.value).partition("Run `")[2].removesuffix("`.")
    assert shlex.split(command) == ["ctcdro", "evaluate", str(tmp_path / name), "--split", "dev"]


def test_a_run_json_that_would_fill_the_memory_is_refused_by_name(run):
    run.run.write_text('{"a": [' + "{}," * 20_000_000 + "{}]}")
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=r"run\.json: the file is larger than 16,777,216 bytes"):
            read_runs([run.path])
        assert tracemalloc.get_traced_memory()[1] < 100_000_000
    finally:
        tracemalloc.stop()


def test_scores_of_a_beam_search_are_of_the_same_utterances(run, tmp_path):
    with pytest.raises(ValueError, match=r"ctcdro evaluate .*run --split test --dataset FOLDER/fleurs --beam-size 16`"):
        read_runs([run.path], "test-of-fleurs-beam")
    with pytest.raises(ValueError, match=r"ctcdro evaluate .*run --split test --beam-size 16`"):
        read_runs([run.path], "test-beam")
    for path in (run.scores, run.predictions):
        shutil.copy(path("test"), path("test-beam"))
    assert read_runs([run.path], "test-beam").runs[0].dataset == read_runs([run.path], "test").runs[0].dataset


def test_a_folder_of_runs_without_scores_is_refused(tmp_path, dataset):
    write_run(tmp_path / "runs" / "a", dataset).scores("test").unlink()
    with pytest.raises(
        ValueError, match=r"none of its 1 runs is finished and scored on 'test'. Score finished runs with `ctcdro eval"
    ):
        read_runs([tmp_path])


def test_figures_are_those_of_the_predictions(run):
    lines = run.predictions("test").read_text().splitlines(keepends=True)
    run.predictions("test").write_text("".join(lines[1:]))
    assert read_runs([run.path]).runs[0].scores.together.num_utterances == len(lines) - 1
    run.predictions("test").write_text("".join([*lines, lines[0]]))
    with pytest.raises(ValueError, match=r"predictions/test.jsonl: `records` must have unique ids"):
        read_runs([run.path])


def test_damaged_scores_are_refused_by_name(run):
    run.scores("test").write_text("{}")
    with pytest.raises(ValueError, match=r"scores/test.json: not scores written by ctcdro"):
        read_runs([run.path])


def test_a_folder_without_runs_is_rejected(tmp_path):
    with pytest.raises(ValueError, match=r"found neither config.yaml nor runs/"):
        read_runs([tmp_path])
    with pytest.raises(ValueError, match=r"`runs` must have at least one run"):
        read_runs([])


def test_a_dataset_that_was_moved_costs_lengths_and_audio_only(run, tmp_path, dataset):
    moved = write_run(tmp_path / "other", shutil.copytree(dataset, tmp_path / "data"))
    shutil.rmtree(tmp_path / "data")
    [result] = read_runs([moved.path]).runs
    assert result.dataset.durations == result.dataset.utterances == {}
    assert result.scores.together.num_utterances == 10


def test_a_log_that_broke_off_is_read_to_its_end(run):
    with open(run.group_weights, "a") as file:
        file.write('{"step": 4, "wei')
    assert read_runs([run.path]).runs[0].weights.steps == [1, 2, 3]


@pytest.mark.parametrize("content", ["{", "[1]"])
def test_a_broken_run_json_is_named(run, content):
    run.run.write_bytes(content.encode("latin-1"))
    with pytest.raises(ValueError, match=r"run/run\.json: (not JSON|expected what `ctcdro train` writes)"):
        read_runs([run.path])


@pytest.mark.parametrize(("line", "place"), [('{"step": 4}', 0), ('{"weights": {"aaa": 1.0, "bbb": 0.0}}', 3)])
def test_a_line_without_weights_is_named(run, line, place):
    lines = run.group_weights.read_text().splitlines()
    lines.insert(place, line)
    run.group_weights.write_text("\n".join(lines))
    with pytest.raises(ValueError, match=rf"run/group_weights\.jsonl:{place + 1}: expected"):
        read_runs([run.path])


def test_a_line_with_weights_of_other_groups_is_named(run):
    with open(run.group_weights, "a") as file:
        file.write('{"step": 4, "weights": {"aaa": 1.0}}\n')
    with pytest.raises(ValueError, match=r"group_weights\.jsonl:4: expected .* weights of aaa, bbb; got"):
        read_runs([run.path])


def test_runs_have_the_same_test_data_if_their_references_are_the_same(run, tmp_path, dataset):
    runs = [run.path, write_run(tmp_path / "same", dataset).path]
    manifest = Manifest.read(dataset / "test.jsonl")
    (tmp_path / "data").mkdir()
    Manifest(replace(one, text=one.text[::-1]) for one in manifest).write(tmp_path / "data" / "test.jsonl")
    runs.append(write_run(tmp_path / "other", tmp_path / "data").path)
    first, same, other = read_runs(runs).runs
    assert first.counts.ids == other.counts.ids
    assert first.test_data == same.test_data != other.test_data


def write_manifests(folder, pairs):
    folder.mkdir()
    utterances = [Utterance("a.wav", 1.0, "a", lang, corpus=corpus) for lang, corpus in pairs]
    for split in ("train", "test"):
        Manifest(utterances).write(folder / f"{split}.jsonl")


@pytest.mark.parametrize("name", ["set4", "scale18"])
def test_a_set_of_the_paper_is_known_by_its_languages_and_corpora(tmp_path, name):
    pairs = [(lang, corpus.replace("googlei18n", "googlei18n_asr")) for lang, corpus in SETS[name]]
    write_manifests(tmp_path / "data", pairs)
    assert read_dataset(tmp_path / "data", "test").set_name == name


def test_the_languages_of_a_set_from_elsewhere_are_not_the_set(tmp_path):
    write_manifests(tmp_path / "data", [(lang, "elsewhere") for lang, _ in SETS["set1"]])
    assert read_dataset(tmp_path / "data", "test").set_name is None


@pytest.mark.parametrize("corpus", ["synthetic", "mine"])
def test_synthetic_speech_is_known_by_its_corpus(tmp_path, corpus):
    write_manifests(tmp_path / "data", [("ces", corpus)])
    assert read_dataset(tmp_path / "data", "test").is_synthetic == (corpus == "synthetic")


def test_utterances_without_ids_are_found_by_their_place(tmp_path):
    write_manifests(tmp_path / "data", [("ces", "mine"), ("pol", "mine")])
    assert read_dataset(tmp_path / "data", "test").utterances["1"].lang == "pol"
