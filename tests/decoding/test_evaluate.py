"""Evaluating and transcribing with the model of a small run."""

import json
from dataclasses import replace

import in_process
import numpy as np
import pytest
import soundfile
import torch

from ctcdro.decoding.decode import decode, group_by_length
from ctcdro.decoding.evaluate import evaluate
from ctcdro.decoding.transcribe import Transcriber
from ctcdro.models.recognizer import load
from ctcdro.runs.folder import RunFolder
from ctcdro.scoring.scores import Scores
from ctcdro.scoring.transcripts import read_predictions
from ctcdro.speech.audio import AudioError
from ctcdro.speech.dataset import SpeechDataset
from ctcdro.speech.manifest import Manifest


def test_a_run_learns_to_read_tones(run):
    scores = evaluate(run.path, "test").scores
    assert scores.worst()[1] < 0.1
    assert min(scores.rates("lid").values()) > 0.95


def test_predictions_and_scores_are_written(run):
    scores = evaluate(run.path, "dev", profile="ml-superb2").scores
    manifest = Manifest.read(run.path.parent / "data" / "dev.jsonl")
    predictions = read_predictions(run.predictions("dev"))
    assert [one.id for one in predictions] == [one.id for one in manifest]
    assert Scores.from_record(json.loads(run.scores("dev").read_text())) == scores
    assert scores.profile == "ml-superb2"


def test_batches_change_nothing(run):
    model, vocabulary = load(run.model)
    manifest = Manifest.read(run.path.parent / "data" / "test.jsonl")
    alone = decode(model, vocabulary, manifest, batch_duration=0.1)
    together = decode(model, vocabulary, manifest, batch_duration=100.0, num_workers=2)
    assert alone.predictions == together.predictions
    assert alone.losses == pytest.approx(together.losses, rel=1e-3, abs=1e-3)


def test_another_dataset_is_read_instead_of_the_audio_of_the_manifest(run):
    class NextOne(SpeechDataset):
        """Utterances with the audio of the next one."""

        def __getitem__(self, index):
            return replace(super().__getitem__((index + 1) % len(self)), index=index)

    model, vocabulary = load(run.model)
    manifest = Manifest.read(run.path.parent / "data" / "test.jsonl")
    plain = [one.hyp_text for one in decode(model, vocabulary, manifest).predictions]
    decoded = decode(model, vocabulary, manifest, dataset=NextOne(manifest, vocabulary), batch_duration=100.0)
    assert [one.hyp_text for one in decoded.predictions] == [*plain[1:], plain[0]]
    assert len(set(plain)) > 1


def test_batches_have_all_utterances_and_little_padding():
    durations = torch.rand(200, generator=torch.Generator().manual_seed(0)).numpy() * 10 + 0.1
    batches = group_by_length(durations, 30.0)
    assert sorted(index for batch in batches for index in batch) == list(range(200))
    assert all(max(durations[batch]) * len(batch) <= 30.0 for batch in batches)
    matched = group_by_length(durations, 30.0, most_padding=0.03)
    assert sorted(index for batch in matched for index in batch) == list(range(200))
    assert all(min(durations[batch]) >= 0.97 * max(durations[batch]) for batch in matched)
    assert len(batches) < len(matched) < 200


def test_unreadable_audio_stops_or_counts_as_nothing_recognized(run, tmp_path, caplog):
    manifest = Manifest.read(run.path.parent / "data" / "test.jsonl")
    (tmp_path / "broken.wav").write_text("no audio")
    lines = [json.dumps(one.to_record()) for one in manifest]
    broken = {**manifest[0].to_record(), "audio_filepath": str(tmp_path / "broken.wav"), "id": "broken"}
    (tmp_path / "test.jsonl").write_text("\n".join([*lines, json.dumps(broken)]))
    with pytest.raises(AudioError, match=r"test\.jsonl:9: .*broken\.wav"):
        evaluate(run.path, "test", dataset=tmp_path)
    own = run.scores("test").read_bytes() if run.scores("test").exists() else None
    evaluate(run.path, "test", dataset=tmp_path, on_bad_audio="skip")
    assert "1 of 9 utterances could not be read" in caplog.text
    name = f"test-of-{tmp_path.name}"  # apart from those of the run's own data
    last = read_predictions(run.predictions(name))[-1]
    assert (last.id, last.hyp_lang, last.hyp_text) == ("broken", None, "")
    assert json.loads(run.scores(name).read_text())["skipped"] == 1
    assert (run.scores("test").read_bytes() if run.scores("test").exists() else None) == own


def test_the_command_prints_the_files_that_it_wrote_for_another_dataset(run, tmp_path):
    manifest = Manifest.read(run.path.parent / "data" / "test.jsonl")
    (tmp_path / "fleurs").mkdir()
    records = [one.to_record() | {"audio_filepath": str(one.audio_filepath)} for one in manifest]
    (tmp_path / "fleurs" / "test.jsonl").write_text("\n".join(map(json.dumps, records)))
    done = in_process.run("evaluate", run.path, "--dataset", tmp_path / "fleurs")
    assert done.returncode == 0, done.stderr
    assert f"Predictions: {run.predictions('test-of-fleurs')}\nScores: {run.scores('test-of-fleurs')}" in done.stdout
    assert run.predictions("test-of-fleurs").is_file()


def test_audio_that_the_encoder_does_not_take_is_named(run, tmp_path):
    soundfile.write(tmp_path / "short.wav", np.zeros(200), 16_000)
    with pytest.raises(AudioError, match=r"short.wav: too short: 0.013 s; the model needs 0.025 s."):
        list(Transcriber(run.model).files([tmp_path / "short.wav"]))


def test_a_profile_that_there_is_not_is_refused_before_anything_is_decoded(run):
    with pytest.raises(ValueError, match="`profile` must be one of plain, ml-superb2, paper; got 'foo'"):
        evaluate(run.path, "test", profile="foo", track=None)


def test_files_are_transcribed_one_by_one(run):
    manifest = Manifest.read(run.path.parent / "data" / "test.jsonl")
    evaluate(run.path, "test")
    expected = [(one.hyp_lang, one.hyp_text) for one in read_predictions(run.predictions("test"))]
    found = Transcriber(run.model).files([one.audio_filepath for one in manifest])
    assert [(one.language, one.text) for one in found] == expected


def test_a_broken_file_does_not_keep_the_others_from_being_transcribed(run, tmp_path):
    first, last = sorted((run.path.parent / "data").glob("aaa-test-*.wav"))[:2]
    (tmp_path / "broken.wav").write_bytes(b"RIFF")
    soundfile.write(tmp_path / "short.wav", np.zeros(200), 16_000)
    broken = [tmp_path / "broken.wav", tmp_path / "short.wav"]
    done = in_process.run("transcribe", run.path, first, *broken, last)
    assert done.returncode == 1
    assert [line.split("\t")[0] for line in done.stdout.splitlines()] == [str(first), str(last)]
    summary, *faults = done.stderr.splitlines()
    assert summary == "2 of 4 recordings could not be transcribed:"
    assert [line.split(": ")[0] for line in faults] == [f"  {path}" for path in broken]


def test_commands_print_and_say_where_things_are(run):
    audio = next((run.path.parent / "data").glob("aaa-test-*.wav"))
    for arguments, expected in (
        (["evaluate", run.path, "--split", "dev"], f"Scores: {run.scores('dev')}"),
        (["transcribe", run.path, audio], f"{audio}\tGhotuo (aaa)\t"),
        (["transcribe", run.model, audio, "--format", "json"], '"language": "aaa"'),
    ):
        done = in_process.run(*arguments)
        assert done.returncode == 0, done.stderr
        assert expected in done.stdout


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_missing_device_is_named(run):
    with pytest.raises(ValueError, match="--device cuda:1: PyTorch finds no GPU"):
        evaluate(run.path, device="cuda:1")
    with pytest.raises(ValueError, match="--device cuda: PyTorch finds no GPU"):
        Transcriber(run.model, device="cuda")


def test_what_is_not_there_is_named(run, tmp_path):
    with pytest.raises(ValueError, match=r"not the folder of a run: no config\.yaml in it"):
        evaluate(tmp_path)
    (tmp_path / "config.yaml").touch()
    with pytest.raises(ValueError, match="the run has no model yet"):
        evaluate(tmp_path)
    with pytest.raises(ValueError, match=r"tests\.jsonl not found\. Splits of this dataset: dev, test, train\.$"):
        evaluate(run.path, "tests")
    with pytest.raises(ValueError, match=r"test\.jsonl not found\. .*specify its folder with --dataset"):
        evaluate(run.path, "test", dataset=tmp_path)
    assert RunFolder(run.path).is_finished
