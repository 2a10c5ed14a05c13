"""Recordings of visitors are read within limits, and errors name no path."""

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st

from ctcdro.serve.uploads import UploadError, read_upload
from ctcdro.speech.audio import SAMPLE_RATE, read_audio

RNG = np.random.default_rng(0)


def write(path, samples, rate=SAMPLE_RATE, **options):
    soundfile.write(path, samples, rate, **options)
    return path


def test_a_valid_file_is_read_like_a_training_utterance(tmp_path):
    path = write(tmp_path / "a.flac", 0.1 * RNG.standard_normal((44_100, 2)), 44_100)
    assert np.array_equal(read_upload(path, 10.0), read_audio(path))


def test_a_recording_may_be_as_long_as_the_limit_and_no_longer(tmp_path):
    assert len(read_upload(write(tmp_path / "a.wav", np.zeros(6 * SAMPLE_RATE)), 6.0)) == 6 * SAMPLE_RATE
    longer = write(tmp_path / "b.wav", np.zeros(6 * SAMPLE_RATE + 1))
    with pytest.raises(UploadError, match=r"^The recording is longer than 0\.1 minutes, the limit of this page\."):
        read_upload(longer, 6.0)


def test_an_hour_is_not_decoded_beyond_the_limit(tmp_path, monkeypatch):
    path = write(tmp_path / "hour.flac", np.zeros(3600 * SAMPLE_RATE, dtype=np.int16))
    num_read = []
    real = soundfile.SoundFile.read
    monkeypatch.setattr(
        soundfile.SoundFile,
        "read",
        lambda file, frames=-1, **rest: num_read.append(frames) or real(file, frames, **rest),
    )
    with pytest.raises(UploadError, match="longer than 1 minute,"):
        read_upload(path, 60.0)
    assert sum(num_read) < 200 * SAMPLE_RATE


def nan():
    return np.where(np.arange(16_000) == 8_000, np.nan, 0.0).astype(np.float32)


HOSTILE = {
    "text": lambda path: path.write_text("not audio\n" * 200),
    "empty": lambda path: path.write_bytes(b""),
    "header alone": lambda path: (write(path, np.zeros(100)), path.write_bytes(path.read_bytes()[:44])),
    "not numbers": lambda path: write(path, nan(), subtype="FLOAT"),
    "random bytes": lambda path: path.write_bytes(b"RIFF" + RNG.bytes(5_000)),
    "sample rate": lambda path: write(path, np.zeros(1000), rate=3),
    "one sample": lambda path: write(path, np.zeros(1), rate=192_000),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_file_gives_one_line_without_a_path(tmp_path, kind):
    path = tmp_path / "private: folder" / "a.wav"
    path.parent.mkdir()
    HOSTILE[kind](path)
    with pytest.raises(UploadError) as caught:
        read_upload(path, 60.0)
    message = str(caught.value)
    assert message.startswith("The recording cannot be transcribed: ")
    assert "\n" not in message
    assert "manifest" not in message
    assert not any(part in message for part in (str(tmp_path), "private", "a.wav"))


def test_a_thousand_channels_are_averaged(tmp_path):
    samples = RNG.uniform(-0.5, 0.5, (2_000, 1_000))
    path = write(tmp_path / "a.wav", samples, subtype="FLOAT")
    assert np.allclose(read_upload(path, 60.0), samples.mean(1), atol=1e-5)


@given(st.binary(max_size=300))
def test_any_bytes_are_audio_or_an_upload_error(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("upload") / "a.wav"
    path.write_bytes(content)
    try:
        samples, message = read_upload(path, 1.0), ""
    except UploadError as error:
        samples, message = np.zeros(1), str(error)
    assert np.isfinite(samples).all()
    assert str(path) not in message
