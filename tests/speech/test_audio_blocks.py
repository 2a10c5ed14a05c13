"""Recordings read block by block, by libsndfile and by FFmpeg."""

import sys

import numpy as np
import pytest
import soundfile

from ctcdro.speech import audio_blocks
from ctcdro.speech.audio import AudioError, read_audio
from ctcdro.speech.audio_blocks import read_blocks

SECONDS = 3.0


def tone(rate, frequency=440.0, seconds=SECONDS):
    return (0.3 * np.sin(2 * np.pi * frequency * np.arange(round(seconds * rate)) / rate)).astype(np.float32)


def write_media(path, codec="aac", with_video=False, with_audio=True):
    """A tone in the left channel, silence in the right, and optionally a black video."""
    av = pytest.importorskip("av")
    rate = 48_000
    with av.open(str(path), "w") as container:
        if with_video:
            video = container.add_stream("mpeg4", rate=10)
            video.width = video.height = 16
        if with_audio:
            audio = container.add_stream(codec, rate=rate, layout="stereo")
        for _ in range(10 if with_video else 0):
            container.mux(video.encode(av.VideoFrame.from_ndarray(np.zeros((16, 16, 3), np.uint8), format="rgb24")))
        if with_video:
            container.mux(video.encode())
        if with_audio:
            left = tone(rate)
            frame = av.AudioFrame.from_ndarray(np.stack([left, 0 * left]), format="fltp", layout="stereo")
            frame.sample_rate = rate
            resampler = av.AudioResampler(audio.format.name, "stereo", rate)
            queue = av.AudioFifo()
            for resampled in resampler.resample(frame) + resampler.resample(None):
                resampled.pts = None
                queue.write(resampled)
            while (part := queue.read(audio.codec_context.frame_size or 1024, partial=True)) is not None:
                container.mux(audio.encode(part))
            container.mux(audio.encode())
    return path


@pytest.mark.parametrize("rate", [8_000, 16_000, 44_100])
def test_blocks_joined_are_what_is_read_at_once(tmp_path, monkeypatch, rate):
    monkeypatch.setattr(audio_blocks, "SAMPLES_PER_BLOCK", 5_000)
    path = tmp_path / "a.flac"
    rng = np.random.default_rng(0)
    soundfile.write(path, 0.1 * rng.standard_normal((3 * rate, 2)), rate)
    for segment in ((), (0.5,), (0.7, 1.3)):
        blocks = list(read_blocks(path, *segment))
        assert len(blocks) > 2
        np.testing.assert_array_equal(np.concatenate(blocks), read_audio(path, *segment))


def test_audio_of_which_resampling_leaves_nothing_is_an_error_as_when_read_at_once(tmp_path):
    soundfile.write(tmp_path / "a.wav", np.zeros(1), 192_000)
    for read in (read_audio, lambda path: list(read_blocks(path))):
        with pytest.raises(AudioError, match=r"a\.wav: segment too short: no samples left after resampling to 16000"):
            read(tmp_path / "a.wav")


@pytest.mark.parametrize(
    ("name", "codec", "with_video"), [("a.m4a", "aac", False), ("a.webm", "libopus", False), ("a.mp4", "aac", True)]
)
def test_media_are_read_as_the_mean_of_their_channels(tmp_path, name, codec, with_video):
    path = write_media(tmp_path / name, codec, with_video)
    samples = np.concatenate(list(read_blocks(path)))
    assert len(samples) / 16_000 == pytest.approx(SECONDS, abs=0.1)
    spectrum = np.abs(np.fft.rfft(samples[:32_000]))
    assert np.argmax(spectrum) / 2 == pytest.approx(440, abs=2)
    assert np.abs(samples[4_000:-4_000]).max() == pytest.approx(0.15, abs=0.02)
    part = np.concatenate(list(read_blocks(path, 1.0, 0.5)))
    np.testing.assert_array_equal(part, samples[16_000:24_000])
    with pytest.raises(AudioError, match=rf"{name}: damaged: audio ends at .* s of 10.000 s"):
        list(read_blocks(path, 0.0, 10.0))


def test_files_without_sound_are_named_with_the_reason(tmp_path):
    write_media(tmp_path / "silent.mp4", with_video=True, with_audio=False)
    (tmp_path / "empty.wav").touch()
    (tmp_path / "text.wav").write_text("no audio")
    for name, reason in {
        "silent.mp4": "no audio track",
        "empty.wav": "empty file",
        "text.wav": r"not audio that libsndfile can read \(.*\). .* FFmpeg cannot read it either",
        "missing.wav": "no such file",
    }.items():
        with pytest.raises(AudioError, match=rf"{name}: {reason}"):
            list(read_blocks(tmp_path / name))


def test_without_ffmpeg_the_error_names_the_extra(tmp_path, monkeypatch):
    (tmp_path / "a.m4a").write_bytes(b"anything")
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(AudioError, match=r"a\.m4a: .*need the extra `media`: pip install 'ctcdro\[media\]'"):
        list(read_blocks(tmp_path / "a.m4a"))


def test_a_playlist_cannot_make_ffmpeg_read_other_files(tmp_path):
    write_media(tmp_path / "secret.m4a")
    for name, text in {
        "list.m3u8": "#EXTM3U\n#EXT-X-TARGETDURATION:3\n#EXTINF:3,\nsecret.m4a\n#EXT-X-ENDLIST\n",
        "list.ffconcat": "ffconcat version 1.0\nfile 'secret.m4a'\n",
    }.items():
        (tmp_path / name).write_text(text)
        with pytest.raises(AudioError, match="FFmpeg cannot read it either"):
            list(read_blocks(tmp_path / name))
