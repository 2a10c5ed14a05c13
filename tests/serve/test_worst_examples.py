"""The worst utterances of the development set, of each language."""

import shutil

import numpy as np
import pytest
from run_folders import write_evaluation, write_run
from tones import write_dataset

from ctcdro.report.read_runs import read_runs
from ctcdro.scoring.transcripts import Prediction
from ctcdro.serve.examples import find_examples
from ctcdro.serve.uploads import UploadError
from ctcdro.speech.audio import read_audio


@pytest.fixture
def runs(tmp_path):
    """Two runs that recognize everything but the longest utterance of each language."""
    dataset = write_dataset(tmp_path / "tones", num_train=2, num_dev=5)
    paths = []
    for objective in ("erm", "ctc-dro"):
        run = write_run(tmp_path / objective, dataset, objective, share_wrong=0.0, split="dev")
        [result] = read_runs([run.path], "dev").runs
        longest = {one.lang: one.id for one in sorted(result.predictions, key=lambda one: len(one.text))}
        predictions = [
            Prediction(one.id, one.lang, one.text, one.lang, "" if one.id == longest[one.lang] else one.text)
            for one in result.predictions
        ]
        write_evaluation(run, predictions, split="dev")
        paths.append(run.path)
    return paths, longest


def test_the_worst_of_each_language_come_first(runs):
    paths, longest = runs
    examples = find_examples(paths, 2)
    assert {example.utterance.id for example in examples[:2]} == set(longest.values())
    assert [example.cer for example in examples] == [1.0, 1.0, 0.0, 0.0]
    assert [example.utterance.lang for example in examples].count("aaa") == 2
    assert find_examples(paths, 0) == []


def test_their_audio_is_that_of_the_dataset(runs):
    [first, *_] = find_examples(runs[0], 1)
    assert np.array_equal(first.read(), read_audio(first.utterance.audio_filepath))


def test_missing_audio_is_an_error_without_a_path(runs, tmp_path):
    [first, *_] = find_examples(runs[0], 1)
    for path in (tmp_path / "tones").glob("*.wav"):
        path.unlink()
    with pytest.raises(UploadError) as caught:
        first.read()
    assert str(tmp_path) not in str(caught.value)


def test_a_run_without_results_or_dataset_has_no_examples(runs, tmp_path):
    paths, _ = runs
    shutil.rmtree(tmp_path / "tones")
    assert find_examples(paths, 2) == []
    shutil.rmtree(paths[0] / "predictions")
    assert find_examples(paths[:1], 2) == []
