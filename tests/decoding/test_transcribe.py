"""Recordings of any length, transcribed by a model that reads tones."""

import io
import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
from in_process import run as run_command
from rich.console import Console
from tones import LETTERS, RATE, SECONDS_A_LETTER, spoken

from ctcdro.cli import console
from ctcdro.cli.console import escaped
from ctcdro.decoding import transcribe
from ctcdro.decoding.beam_search import BeamSearch
from ctcdro.decoding.output_folder import OutputFolder
from ctcdro.decoding.recordings import AudioInput, find_recordings, total_seconds
from ctcdro.decoding.transcribe import Transcriber
from ctcdro.decoding.transcript import RecordingTranscript
from ctcdro.models.recognizer import load
from ctcdro.speech.audio import AudioError
from ctcdro.speech.manifest import Manifest


@pytest.fixture(scope="module")
def manifest(run):
    return Manifest.read(run.path.parent / "data" / "test.jsonl")


@pytest.fixture(scope="module")
def transcriber(run):
    return Transcriber(run.model)


@pytest.fixture(scope="module")
def long_recording(manifest, tmp_path_factory):
    """All test utterances in a row with pauses of 1 s: the file, and the seconds at which each begins."""
    rng = np.random.default_rng(0)
    parts, starts, position = [], [], 0
    for utterance in manifest:
        samples, _ = soundfile.read(utterance.audio_filepath)
        parts += [samples, 0.01 * rng.standard_normal(RATE)]
        starts.append(position / RATE)
        position += len(samples) + RATE
    path = tmp_path_factory.mktemp("long") / "long.flac"
    soundfile.write(path, np.concatenate(parts), RATE)
    return path, starts


def test_the_segments_of_a_long_recording_are_transcribed_like_recordings(transcriber, run, manifest, long_recording):
    path, starts = long_recording
    [long] = Transcriber(run.model, window=4.0).files([path])
    samples, _ = soundfile.read(path, dtype="float32")
    assert long.duration == pytest.approx(len(samples) / RATE)
    assert [segment.start for segment in long.segments[1:]] == pytest.approx(np.array(starts[1:]) - 0.5, abs=0.1)
    for segment in long.segments:
        alone = transcriber.samples(samples[round(segment.start * RATE) : round(segment.end * RATE)])
        assert (segment.text, segment.language) == (alone.text, alone.language)
        expected = [segment.start + word.start for word in alone.words]
        assert [word.start for word in segment.words] == pytest.approx(expected, abs=1e-3)
    [whole] = Transcriber(run.model, window=60.0).files([path])
    assert len(whole.segments) == 1


def test_letters_are_where_they_are_spoken(transcriber, manifest):
    num_right = 0
    for transcript, utterance in zip(
        transcriber.files([one.audio_filepath for one in manifest]), manifest, strict=True
    ):
        if transcript.text == utterance.text:
            num_right += 1
            letters = [one for word in transcript.words for one in word.characters]
            for number, letter in enumerate(letters):
                start = 0.04 + number * (SECONDS_A_LETTER + 0.04)
                assert start - 0.06 < (letter.start + letter.end) / 2 < start + SECONDS_A_LETTER + 0.06
                assert 0.1 < letter.confidence <= 1.0
    assert num_right > 4


def test_batches_and_broken_files_do_not_change_the_order(transcriber, manifest, long_recording, tmp_path, monkeypatch):
    (tmp_path / "broken.wav").write_bytes(b"RIFF")
    short = [one.audio_filepath for one in manifest]
    paths = [short[0], long_recording[0], tmp_path / "broken.wav", *short[1:], long_recording[0]]
    expected = [text for path in paths if path != paths[2] for text in [next(transcriber.files([path])).text]]
    monkeypatch.setattr(transcribe, "SECONDS_AHEAD", 3.0)
    errors = []
    found = list(transcriber.files(paths, on_error=errors.append))
    assert [one.path for one in found] == [str(path) for path in paths if path != paths[2]]
    assert [one.text for one in found] == expected
    assert len(errors) == 1
    with pytest.raises(AudioError, match=r"broken\.wav"):
        list(transcriber.files(paths))


def test_a_file_that_breaks_off_later_does_not_stop_the_others(transcriber, long_recording, manifest, tmp_path):
    data = long_recording[0].read_bytes()
    (tmp_path / "cut.flac").write_bytes(data[: len(data) // 2])
    errors = []
    found = list(transcriber.files([tmp_path / "cut.flac", manifest[0].audio_filepath], on_error=errors.append))
    assert [one.path for one in found] == [manifest[0].audio_filepath]
    assert "cut.flac: damaged" in str(errors[0])
    assert errors[0].__traceback__ is errors[0].__cause__ is None  # their frames would keep a resampler alive


def test_progress_is_in_seconds_of_audio(run, manifest, long_recording, tmp_path):
    (tmp_path / "text.wav").write_text("no audio")
    first = manifest[0]
    recordings = [AudioInput(str(long_recording[0])), AudioInput(first.audio_filepath, 0.0, first.duration)]
    advances = []
    list(Transcriber(run.model, window=4.0, batch_duration=4.0).files(recordings, on_progress=advances.append))
    assert len(advances) > 2
    assert sum(advances) == pytest.approx(total_seconds(recordings), abs=0.01)
    missing = AudioInput(str(tmp_path / "missing.wav"))
    assert total_seconds([*recordings, missing, AudioError("")]) == total_seconds(recordings)
    for unknown in (str(tmp_path / "text.wav"), "s3://bucket/a.wav"):
        assert total_seconds([*recordings, AudioInput(unknown)]) is None


def test_a_terminal_shows_a_bar_between_results(run, long_recording, monkeypatch):
    screen = io.StringIO()
    monkeypatch.setattr(console, "messages", Console(file=screen, width=80, force_terminal=True, color_system=None))
    monkeypatch.setattr(console, "shows_bars", lambda: True)
    path, _ = long_recording
    done = run_command("transcribe", run.path, path, path, "--window", "4")
    assert done.returncode == 0, done.stderr
    assert [line.split("\t")[0] for line in done.stdout.splitlines()] == [str(path)] * 2
    assert "  0%" in screen.getvalue()
    assert "100%" in screen.getvalue()


def test_a_truncated_recording_is_not_transcribed_as_a_shorter_one(run, manifest, tmp_path):
    content = Path(manifest[0].audio_filepath).read_bytes()
    (tmp_path / "cut.wav").write_bytes(content[: len(content) // 2])
    done = run_command("transcribe", run.path, tmp_path / "cut.wav")
    assert (done.returncode, done.stdout) == (1, "")
    assert "cut.wav: damaged: truncated after" in done.stderr


def test_an_array_is_transcribed_like_its_file_at_any_rate(transcriber, manifest):
    samples, rate = soundfile.read(manifest[0].audio_filepath, dtype="float32")
    [expected] = transcriber.files([manifest[0].audio_filepath])
    assert transcriber.samples(samples, rate).segments == expected.segments
    assert transcriber.samples(np.repeat(samples, 3), 3 * rate).text == expected.text
    for wrong in (np.zeros((2, 100)), [], [np.nan] * 1000):
        with pytest.raises(ValueError, match=r"`samples` must be finite numbers of shape \(n,\)"):
            transcriber.samples(wrong)
    with pytest.raises(ValueError, match="`sample_rate` must be from 1,000"):
        transcriber.samples(samples, 0)


def test_a_forced_language_excludes_the_letters_of_others(run, manifest):
    forced = Transcriber(run.model, language="bbb")
    for transcript in forced.files([one.audio_filepath for one in manifest]):
        assert set(transcript.text) <= {*LETTERS["bbb"], " "}
        assert transcript.language == "bbb"
        assert transcript.languages["bbb"] == pytest.approx(1.0)
    with pytest.raises(ValueError, match="`language` must be one of aaa, bbb; got 'ccc'"):
        Transcriber(run.model, language="ccc")


def test_a_model_without_the_characters_of_languages_still_loads(run, manifest, tmp_path, caplog):
    folder = shutil.copytree(run.model, tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    assert config.pop("characters_by_language") == {name: LETTERS[name] for name in ("aaa", "bbb")}
    (folder / "config.json").write_text(json.dumps(config))
    forced = Transcriber(folder, language="bbb")
    assert "does not store the characters of each language" in caplog.text
    [transcript] = forced.files([manifest[0].audio_filepath])
    assert transcript.language == "bbb"
    (folder / "config.json").write_text(json.dumps({**config, "characters_by_language": {"aaa": "x"}}))
    with pytest.raises(ValueError, match=r"config\.json: `characters_by_language` must have the languages"):
        load(folder)


def test_sound_without_pauses_is_one_segment_and_loses_no_letters(run):
    rng = np.random.default_rng(0)
    text = "".join(rng.choice(list(LETTERS["aaa"]), 60))
    samples = spoken(text, rng)
    transcript = Transcriber(run.model, window=4.0).samples(samples)
    assert len(transcript.segments) == 1
    letters = transcript.text.replace(" ", "")
    assert abs(len(letters) - len(text)) <= 6


def test_beam_search_gives_times_too(run, manifest):
    pytest.importorskip("flashlight.lib.text.decoder")
    _, vocabulary = load(run.model)
    search = BeamSearch(vocabulary)
    for greedy, transcript in zip(
        Transcriber(run.model).files([one.audio_filepath for one in manifest]),
        Transcriber(run.model, beam=search).files([one.audio_filepath for one in manifest]),
        strict=True,
    ):
        if transcript.text == greedy.text:
            starts = [[one.start for one in transcript.words] for transcript in (greedy, transcript)]
            assert starts[0] == pytest.approx(starts[1], abs=0.1)


def test_inputs_are_files_folders_and_manifests(manifest, run, tmp_path):
    data = run.path.parent / "data"
    found = list(find_recordings([data, data / "test.jsonl", data / "aaa-test-0.wav", tmp_path, tmp_path / "no.jsonl"]))
    files = sorted(map(str, data.glob("*.wav")))
    assert [one.path for one in found[: len(files)]] == files
    listed = found[len(files) : len(files) + len(manifest)]
    assert listed == [AudioInput(one.audio_filepath, one.offset, one.duration, one.id) for one in manifest]
    assert found[-3] == AudioInput(str(data / "aaa-test-0.wav"))
    assert "no audio files in this folder" in str(found[-2])
    assert isinstance(found[-1], AudioError)


def test_a_record_has_everything_in_it(transcriber, manifest):
    [transcript] = transcriber.files([AudioInput(manifest[0].audio_filepath, 0.0, manifest[0].duration, "first")])
    record = json.loads(json.dumps(transcript.to_record(num_languages=1)))
    assert (record["id"], record["text"], record["language"]) == ("first", transcript.text, transcript.language)
    assert list(record["languages"]) == [transcript.language]
    [segment] = record["segments"]
    words = segment["words"]
    assert " ".join(word["text"] for word in words) == segment["text"] == record["text"]
    assert all("".join(one["text"] for one in word["characters"]) == word["text"] for word in words)
    assert all(0 <= word["start"] < word["end"] <= record["duration"] + 0.1 for word in words)


def test_commands_write_every_format(run, long_recording, tmp_path):
    srt = pytest.importorskip("srt")
    path, _ = long_recording
    shutil.copytree(path.parent, tmp_path / "a")
    (tmp_path / "paths.txt").write_text(f"{tmp_path / 'a' / path.name}\n\n")
    arguments = ("transcribe", run.path, path, "--list", tmp_path / "paths.txt", "--window", "4")
    for name, ending in {"text": "txt", "json": "json", "srt": "srt", "vtt": "vtt"}.items():
        done = run_command(*arguments, "--format", name, "--out", tmp_path / "out")
        assert (done.returncode, done.stdout) == (0, f"Transcripts: {tmp_path / 'out'}\n"), done.stderr
        files = [(tmp_path / "out" / f"long{number}.{ending}").read_text() for number in ("", "-2")]
        record = json.loads(run_command(*arguments[:3], "--window", "4", "--format", "json").stdout)
        if name == "text":
            assert " ".join(files[0].split("\n")).strip() == record["text"]
        elif name == "json":
            assert json.loads(files[0]) == {**json.loads(files[1]), "path": str(path)} == record
        elif name == "srt":
            assert " ".join(cue.content for cue in srt.parse(files[0])) == record["text"]
        else:
            assert files[0].startswith("WEBVTT\n\n")
    done = run_command(*arguments, "--format", "srt")
    assert "--format srt with 2 recordings requires --out" in done.stderr
    printed = run_command(*arguments[:3], "--window", "4", "--format", "srt").stdout
    assert printed == (tmp_path / "out" / "long.srt").read_text()


def test_paths_on_stdin_and_bad_inputs_are_each_one_line(run, manifest, tmp_path, monkeypatch):
    (tmp_path / "empty.wav").touch()
    (tmp_path / "text.wav").write_text("no audio")
    (tmp_path / "none").mkdir()
    lines = [tmp_path / "empty.wav", tmp_path / "text.wav", tmp_path / "none", tmp_path / os.fsdecode(b"caf\xe9.wav")]
    good = manifest[0].audio_filepath
    listed = io.BytesIO(b"\n".join(os.fsencode(path) for path in [*lines, good]))
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(listed, encoding="utf-8"))
    done = run_command("transcribe", run.path, "-")
    assert done.returncode == 1
    assert [line.split("\t")[0] for line in done.stdout.splitlines()] == [good]
    assert "manifest" not in done.stderr
    summary, *faults = done.stderr.splitlines()
    assert summary == "4 of 5 recordings could not be transcribed:"
    assert [line.split(": ")[0].strip() for line in faults] == [escaped(str(path)) for path in lines]


def test_a_model_that_does_not_fit_is_one_line(run, manifest, tmp_path):
    for name, change, message in (
        ("config.json", '{"format": "ctcdro recognizer 9"}', "written by another version of ctcdro"),
        ("vocab.json", json.dumps({"<pad>": 0, "<unk>": 1, "|": 2, "[aaa]": 3, "[bbb]": 4}), "has 5 labels"),
    ):
        folder = shutil.copytree(run.model, tmp_path / name)
        (folder / name).write_text(change)
        done = run_command("transcribe", folder, manifest[0].audio_filepath)
        assert done.returncode == 2
        [line] = done.stderr.splitlines()
        assert name in line
        assert message.removeprefix("has ") in line


def test_the_window_is_as_long_as_training_utterances_within_limits(run, tmp_path):
    longest = max(Manifest.read(run.path.parent / "data" / "train.jsonl").durations)
    settings = load(run.model)[0].settings
    assert settings.longest_seconds == longest
    for seconds, expected in ((1.0, 5.0), (12.5, 12.5), (100.0, 30.0), (None, 30.0)):
        model, vocabulary = load(run.model)
        model.settings = replace(settings, longest_seconds=seconds)
        model.save(tmp_path / "model", vocabulary)
        assert Transcriber(tmp_path / "model").window == expected


@pytest.mark.parametrize("window", [0.1, 1e308, np.nan])
def test_a_window_that_is_too_short_or_no_duration_is_refused(run, window):
    with pytest.raises(ValueError, match=r"`window` must be at least 0\.6 seconds, and below 1e\+09; got"):
        Transcriber(run.model, window=window)


def test_files_of_transcripts_have_names_that_fit_a_file_system(run, manifest, tmp_path):
    path = shutil.copy(manifest[0].audio_filepath, tmp_path / f"{'ř' * 120}.wav")
    done = run_command("transcribe", run.path, path, path, "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert sorted(one.name for one in (tmp_path / "out").iterdir()) == [f"{'ř' * 100}-2.txt", f"{'ř' * 100}.txt"]


def test_files_of_transcripts_have_the_names_of_the_recordings(run, manifest, tmp_path):
    names = ["My talk", "Přednáška č. 1", "talk [ces] one", "two\nlines", "..."]
    paths = [shutil.copy(manifest[0].audio_filepath, tmp_path / f"{name}.wav") for name in names]
    done = run_command("transcribe", run.path, *paths, "--format", "srt", "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    expected = {f"{name}.srt".replace("\n", "_") for name in names}
    assert {one.name for one in (tmp_path / "out").iterdir()} == expected


@pytest.mark.parametrize(("id", "name"), [("a/../b c", "a_.._b_c.txt"), ("..", "recording.txt"), ("", "a b.txt")])
def test_files_of_utterances_have_their_id_as_name(tmp_path, id, name):
    transcript = RecordingTranscript("folder/a b.wav", 1.0, (), id)
    assert OutputFolder(tmp_path, "text").write(transcript) == tmp_path / name


def test_lists_without_paths_are_named(run, tmp_path, monkeypatch):
    (tmp_path / "nothing.txt").write_text("\n \n")
    done = run_command("transcribe", run.path, "--list", tmp_path / "nothing.txt")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "nothing.txt has no paths. List one per line." in done.stderr
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO()))
    assert "standard input has no paths" in run_command("transcribe", run.path, "-").stderr


def test_a_list_may_have_names_in_any_encoding(run, manifest, tmp_path):
    path = os.fsencode(tmp_path) + b"/caf\xe9.wav"
    shutil.copy(manifest[0].audio_filepath, path)
    (tmp_path / "paths.txt").write_bytes(path + b"\r\n")
    arguments = ("transcribe", run.path, "--list", tmp_path / "paths.txt", "--format", "json")
    done = run_command(*arguments, "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    written = (tmp_path / "out" / "caf_.json").read_text(encoding="utf-8")
    assert os.fsencode(json.loads(written)["path"]) == path
    assert json.loads(written) == json.loads(run_command(*arguments).stdout)


def test_the_limit_of_the_encoder_applies(folders, tmp_path):
    from ctcdro.models.recognizer import build
    from ctcdro.speech.vocabulary import Vocabulary

    vocabulary = Vocabulary(["aaa"], "ab")
    build(folders["whisper"], len(vocabulary), seed=0).save(tmp_path / "model", vocabulary)
    transcriber = Transcriber(tmp_path / "model", window=60.0)
    assert transcriber.window == 3.0
    samples = 0.1 * torch.randn(10 * RATE, generator=torch.Generator().manual_seed(0)).numpy()
    assert transcriber.samples(samples).duration == 10.0
