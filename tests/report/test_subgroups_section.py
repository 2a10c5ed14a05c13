"""Who is served worst? A planted speaker on the page, in the table files, and datasets without attributes."""

from dataclasses import replace

import numpy as np
import pytest
from run_folders import write_evaluation, write_run
from tones import write_dataset

from ctcdro import Manifest, Utterance
from ctcdro.report.page import write_report
from ctcdro.report.read_runs import read_runs
from ctcdro.report.study import make_study
from ctcdro.report.subgroups import list_attributes, search_subgroups
from ctcdro.scoring.subgroups import find_subgroups
from ctcdro.scoring.transcripts import Prediction
from ctcdro.speech.noise import add_noise
from ctcdro.speech.signal_to_noise import estimate_snr


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two seeds; speaker "y" of the second language has most errors."""
    folder = tmp_path_factory.mktemp("runs")
    dataset = write_dataset(folder / "tones", num_train=3, num_dev=40)
    test = Manifest.read(dataset / "test.jsonl")
    test = [replace(one, speaker="xyz"[index % 3] + one.lang) for index, one in enumerate(test)]
    Manifest(test).write(dataset / "test.jsonl")
    for seed in (0, 1):
        run = write_run(folder / "runs" / f"erm-{seed}", dataset, "erm", seed)
        rng = np.random.default_rng(seed)
        predictions = []
        for one in test:
            share = 0.8 if one.speaker == "ybbb" else 0.1
            text = "".join("z" if rng.random() < share else letter for letter in one.text)
            predictions.append(Prediction(one.id, one.lang, one.text, one.lang, text))
        write_evaluation(run, predictions)
    return folder


def test_the_page_names_the_group_that_is_served_worst(runs, tmp_path):
    write_report([runs], tmp_path / "page.html", tables=tmp_path / "tables")
    page = (tmp_path / "page.html").read_text()
    assert '<h2 id="h-subgroups">Who is served worst?</h2>' in page
    assert "Baseline (ERM). speaker ybbb: CER" in page
    [table] = (tmp_path / "tables").glob("subgroups-*.csv")
    header, first, *_ = table.read_text().splitlines()
    assert header.startswith("subgroup,utterances,CER,expected CER,excess")
    assert first.startswith("speaker ybbb,14,")


def test_attributes_are_those_of_the_manifest_and_of_the_audio(runs):
    study = make_study(read_runs([runs]).runs)
    [(_, by_manifest)], [(_, by_audio)] = (search_subgroups(study, with_audio) for with_audio in (False, True))
    assert by_audio.num_searched > by_manifest.num_searched > 6
    assert by_manifest.found[0].conditions == {"speaker": "ybbb"}
    assert by_manifest.found[0].excess.low > 0.2
    assert len(by_manifest.found) == 1


def test_utterances_that_switch_between_languages_are_a_subgroup():
    utterances = [
        Utterance("a.wav", 1.0, "a", "aaa", lang_shares={"aaa": 0.6, "bbb": 0.4} if index % 3 == 0 else None)
        for index in range(30)
    ]
    attributes = list_attributes(["aaa"] * 30, utterances, None)
    assert list(attributes) == ["languages"]
    edits = np.array([8.0 if one.lang_shares else 1.0 for one in utterances])
    [found] = find_subgroups(edits, np.full(30, 10.0), np.zeros(30, int), attributes).found
    assert found.conditions == {"languages": "aaa and bbb"}
    assert list_attributes(["aaa"] * 10, utterances[1:2] * 10, None) == {}


def test_a_report_without_the_dataset_has_no_such_section(tmp_path):
    dataset = write_dataset(tmp_path / "tones", num_train=3, num_dev=4)
    write_run(tmp_path / "runs" / "erm", dataset)
    for path in dataset.glob("*"):
        path.unlink()
    write_report([tmp_path], tmp_path / "page.html", audio=False)
    assert "Who is served worst?" not in (tmp_path / "page.html").read_text()


def test_estimated_noise_follows_added_noise():
    time = np.arange(48_000) / 16_000
    speech = np.sin(2 * np.pi * 300 * time) * (np.sin(2 * np.pi * 1.5 * time) > 0)
    levels = [estimate_snr(add_noise(speech, snr, np.random.default_rng(0))) for snr in (0, 5, 10, 20)]
    assert levels == sorted(levels)
    assert levels[-1] - levels[0] > 15
    assert estimate_snr(np.zeros(10)) == 0
