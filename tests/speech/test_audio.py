"""Reading audio: all common formats, rates and layouts; stretches; and files that are not what they should be."""

import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
import soundfile
from cases import case
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader

from ctcdro.speech import audio
from ctcdro.speech.audio import (
    SAMPLE_RATE,
    TOLERANCE,
    AudioError,
    AudioHeader,
    audio_duration,
    header,
    read_audio,
    read_to_end,
)
from ctcdro.speech.audio_blocks import read_blocks

FORMATS = {
    "wav": ("WAV", "PCM_16"),
    "wav24": ("WAV", "PCM_24"),
    "wavfloat": ("WAV", "FLOAT"),
    "flac": ("FLAC", "PCM_16"),
    "flac24": ("FLAC", "PCM_24"),
    "vorbis": ("OGG", "VORBIS"),
    "opus": ("OGG", "OPUS"),
    "mp3": ("MP3", "MPEG_LAYER_III"),
}
LOSSLESS = ["wav", "wav24", "wavfloat", "flac", "flac24"]
RATES = [8000, 16_000, 22_050, 44_100, 48_000]


def tone(num_samples, rate, num_channels=1, seed=0):
    """A tone below the band limit of all rates, other in each channel, and a little noise."""
    rng = np.random.default_rng(seed)
    phase = 2 * np.pi * 440 * np.arange(num_samples) / rate
    channels = [0.4 / (1 + number) * np.sin((1 + number) * phase) for number in range(num_channels)]
    samples = np.stack(channels, axis=1) + 0.001 * rng.standard_normal((num_samples, num_channels))
    return samples[:, 0] if num_channels == 1 else samples


def write(path, samples, rate=SAMPLE_RATE, kind="wav"):
    form, subtype = FORMATS[kind]
    soundfile.write(path, samples, rate, format=form, subtype=subtype)
    return path


@pytest.mark.parametrize("kind", FORMATS)
def test_every_format_and_rate_gives_the_tone_that_was_written(tmp_path, kind):
    layouts = [(SAMPLE_RATE, 1), (48_000 if kind == "opus" else 44_100, 2)]  # Opus has no 44.1 kHz
    layouts += [(8000, 1), (22_050, 1)] if kind == "wav" else []
    for rate, num_channels in layouts:
        with case(f"{rate} Hz, {num_channels} channels"):
            assert_tone_is_read(tmp_path / "a", kind, rate, num_channels)


def assert_tone_is_read(path, kind, rate, num_channels):
    num_samples = rate + 123
    write(path, tone(num_samples, rate, num_channels), rate, kind)
    assert header(path) == AudioHeader(num_samples / rate, rate, num_channels)
    read = read_audio(path)
    assert read.dtype == np.float32
    assert read.ndim == 1
    assert abs(len(read) - round(num_samples * SAMPLE_RATE / rate)) <= 1
    expected = tone(len(read), SAMPLE_RATE, num_channels).reshape(len(read), -1).mean(axis=1)
    middle = slice(1000, -1000)
    error = np.sqrt(np.mean((read - expected)[middle] ** 2) / np.mean(expected[middle] ** 2))
    assert error < (0.02 if kind in LOSSLESS else 0.2)


def test_lossless_samples_are_those_of_the_file(tmp_path):
    for kind in LOSSLESS:
        path = write(tmp_path / kind, tone(5000, SAMPLE_RATE), kind=kind)
        np.testing.assert_array_equal(read_audio(path), soundfile.read(path, dtype="float32")[0])


@pytest.mark.parametrize("num_channels", [2, 6])
def test_mono_is_the_mean_of_the_channels(tmp_path, num_channels):
    samples = np.random.default_rng(0).uniform(-1, 1, (3000, num_channels))
    path = write(tmp_path / "a.wav", samples, kind="wavfloat")
    np.testing.assert_allclose(read_audio(path), samples.mean(axis=1), atol=1e-6)


@given(num_samples=st.integers(10, 9000), rate=st.sampled_from([*RATES, 11_025, 24_000, 96_000]))
@settings(max_examples=40)
def test_resampling_keeps_the_duration(tmp_path_factory, num_samples, rate):
    path = write(tmp_path_factory.mktemp("audio") / "a.wav", tone(num_samples, rate), rate)
    assert abs(len(read_audio(path)) - round(num_samples * SAMPLE_RATE / rate)) <= 1


def test_another_sample_rate_may_be_asked_for(tmp_path):
    path = write(tmp_path / "a.wav", tone(1600, SAMPLE_RATE))
    assert len(read_audio(path, sample_rate=8000)) == 800


# Stretches.


@pytest.mark.parametrize(
    ("kind", "largest_difference"),
    [("wav", 0.0), ("flac", 0.0), ("vorbis", 0.0), ("mp3", 1e-6), ("opus", 5e-3)],
)
def test_a_stretch_is_a_slice_of_the_whole(tmp_path, kind, largest_difference):
    rng = np.random.default_rng(1)
    path = write(tmp_path / "a", tone(6 * SAMPLE_RATE, SAMPLE_RATE), kind=kind)
    whole = read_audio(path)
    for start, num_samples in zip(rng.integers(1, 5 * SAMPLE_RATE, 8), rng.integers(1, SAMPLE_RATE, 8), strict=True):
        stretch = read_audio(path, start / SAMPLE_RATE, num_samples / SAMPLE_RATE)
        assert len(stretch) == num_samples
        assert np.abs(stretch - whole[start : start + num_samples]).max() <= largest_difference
    np.testing.assert_allclose(read_audio(path, offset=5.5), whole[88_000:], atol=largest_difference)


@given(st.floats(0, 1.5), st.floats(0.01, 0.5))
@settings(max_examples=40)
def test_adjacent_stretches_neither_overlap_nor_leave_a_gap(tmp_path_factory, offset, duration):
    path = write(tmp_path_factory.mktemp("audio") / "a.flac", tone(2 * SAMPLE_RATE, SAMPLE_RATE), kind="flac")
    first = read_audio(path, offset, duration)
    both = np.concatenate([first, read_audio(path, offset + duration)]) if offset + duration < 1.999 else first
    np.testing.assert_array_equal(both, read_audio(path, offset)[: len(both)])


def test_a_stretch_of_a_resampled_file_is_near_that_of_the_whole(tmp_path):
    path = write(tmp_path / "a.wav", tone(88_200, 44_100), 44_100)
    stretch = read_audio(path, offset=0.5, duration=1.0)
    assert len(stretch) == 16_000
    np.testing.assert_allclose(stretch[400:-400], read_audio(path)[8000:24_000][400:-400], atol=1e-3)


def test_a_stretch_may_end_a_little_after_the_file_does(tmp_path):
    path = write(tmp_path / "a.wav", tone(16_000, SAMPLE_RATE))
    assert len(read_audio(path, offset=0.5, duration=0.5 + 0.9 * TOLERANCE)) == 8000
    with pytest.raises(
        AudioError, match=r"a\.wav: the file is 1\.000 s long, but the segment ends at 1\.060 s\. Fix `offset`"
    ):
        read_audio(path, offset=0.5, duration=0.56)


def test_an_offset_beyond_the_end_is_named(tmp_path):
    path = write(tmp_path / "a.wav", tone(16_000, SAMPLE_RATE))
    for offset in (1.0, 1e9):
        with pytest.raises(AudioError, match=r"a\.wav: `offset` is .* s, but the file is 1\.000 s long\. Fix"):
            read_audio(path, offset)


def test_a_stretch_without_a_sample_is_named(tmp_path):
    path = write(tmp_path / "a.wav", tone(16_000, SAMPLE_RATE))
    with pytest.raises(AudioError, match=r"a\.wav: segment too short: no samples left after resampling to 16000 Hz"):
        read_audio(path, duration=1e-6)


def test_arguments_that_are_no_seconds_are_rejected(tmp_path):
    path = write(tmp_path / "a.wav", tone(16_000, SAMPLE_RATE))
    for arguments in ({"offset": -1.0}, {"offset": float("nan")}, {"duration": 0.0}):
        with pytest.raises(ValueError, match=f"`{next(iter(arguments))}` must be .* seconds"):
            read_audio(path, **arguments)


# Files that are not what they should be.


def test_a_missing_file_is_named(tmp_path):
    for function in (header, read_audio):
        with pytest.raises(AudioError, match=r"nowhere/a\.wav: no such file\. .* been moved\?"):
            function(tmp_path / "nowhere" / "a.wav")


def test_a_folder_is_named(tmp_path):
    with pytest.raises(AudioError, match="is a folder; expected an audio file"):
        read_audio(tmp_path)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="nothing is forbidden here")
def test_a_forbidden_file_is_named(tmp_path):
    path = write(tmp_path / "a.wav", tone(100, SAMPLE_RATE))
    path.chmod(0)
    with pytest.raises(AudioError, match=r"a\.wav: permission denied"):
        read_audio(path)


def test_files_that_hold_something_else_are_named(tmp_path):
    for name in ("a.wav", "a.mp3", "a.raw", "a"):
        with case(name):
            path = tmp_path / name
            for content, message in ((b"", "empty file"), (b"dobr\xc3\xbd den\n" * 50, "not audio that")):
                path.write_bytes(content)
                for function in (header, read_audio):
                    with pytest.raises(
                        AudioError, match=f"{name}: {message}.* replace it|{name}: {message}. Replace the file"
                    ):
                        function(path)


def test_a_header_without_audio_is_named(tmp_path):
    path = write(tmp_path / "a.wav", np.zeros(0))
    for function in (header, read_audio):
        with pytest.raises(AudioError, match=r"a\.wav: no audio after the header\. Replace the file"):
            function(path)


def test_a_sample_rate_that_cannot_be_is_named(tmp_path):
    path = write(tmp_path / "a.wav", tone(100, 16_000), rate=10)
    with pytest.raises(AudioError, match="damaged header: sample rate 10 Hz"):
        read_audio(path)


def test_a_sample_that_is_not_finite_is_named(tmp_path):
    for wrong, num_channels in ((np.nan, 1), (-np.inf, 1), (np.inf, 2)):
        with case(f"{wrong}, {num_channels} channels"):
            samples = tone(16_000, SAMPLE_RATE, num_channels)
            samples[12_000] = wrong
            samples[12_000] *= 1 if num_channels == 1 else [1, -1]
            path = write(tmp_path / "a.wav", samples, kind="wavfloat")
            with pytest.raises(AudioError, match=r"a\.wav: the sample at 0\.750 s is NaN or infinite"):
                read_audio(path, offset=0.5)
            assert len(read_audio(path, duration=0.5)) == 8000


def test_a_sample_far_beyond_full_scale_is_named(tmp_path):
    for value in (8.1, -1e4):
        with case(value):
            samples = np.zeros(16_000)
            samples[4_000] = value
            soundfile.write(tmp_path / "a.wav", samples, 16_000, subtype="FLOAT")
            with pytest.raises(AudioError, match=r"a\.wav: the sample at 0\.250 s is .*, far beyond full scale"):
                read_audio(tmp_path / "a.wav")


def test_floating_point_samples_may_exceed_full_scale(tmp_path):
    soundfile.write(tmp_path / "a.wav", np.full(16_000, 2.5), 16_000, subtype="FLOAT")
    assert read_audio(tmp_path / "a.wav").max() == 2.5


@pytest.mark.parametrize("kind", ["flac", "mp3", "vorbis", "opus"])
def test_a_file_damaged_in_the_middle_is_named(tmp_path, kind):
    path = write(tmp_path / "a", np.random.default_rng(0).normal(0, 0.1, 5 * SAMPLE_RATE), kind=kind)
    content = bytearray(path.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 3000] = bytes(3000)
    path.write_bytes(content)
    with pytest.raises(AudioError, match=r"a: damaged: (cannot be decoded \(|audio ends at [234]\.\d+ s of 5\.000 s)"):
        read_audio(path)
    assert len(read_audio(path, duration=0.5)) == 8000  # audio before it is intact


def audio_or_named_fault(path):
    """The samples; a single one if there is an `AudioError` that names the file."""
    try:
        return read_audio(path)
    except AudioError as error:
        return np.zeros(1 if str(error).startswith(f"{path}: ") else 0)


@pytest.mark.parametrize("kind", FORMATS)
def test_a_file_that_broke_off_is_an_error_or_shorter_and_never_a_crash(tmp_path, kind):
    path = write(tmp_path / "a", np.random.default_rng(0).normal(0, 0.1, 3 * SAMPLE_RATE), kind=kind)
    content = path.read_bytes()
    for length in np.linspace(0, len(content) - 1, 40).astype(int):
        path.write_bytes(content[:length])
        assert 0 < len(audio_or_named_fault(path)) <= 3 * SAMPLE_RATE
        if length < 0.9 * len(content):
            with pytest.raises(AudioError):
                read_audio(path, duration=3.0)


@pytest.mark.parametrize("kind", [kind for kind in FORMATS if kind.startswith("wav") or FORMATS[kind][0] == "OGG"])
def test_a_truncated_file_is_not_a_shorter_one(tmp_path, kind):
    path = write(tmp_path / "a", np.random.default_rng(0).normal(0, 0.1, 8 * SAMPLE_RATE), kind=kind)
    content = path.read_bytes()
    path.write_bytes(content[: 2 * len(content) // 3])
    for read in (header, read_audio, read_to_end, lambda path: list(read_blocks(path))):
        with pytest.raises(AudioError, match=r"a: damaged: truncated after [45]\.\d+ s\. Replace the file"):
            read(path)
    with pytest.raises(AudioError, match="a: damaged: truncated after"):
        audio_duration(path.read_bytes(), "a")
    assert len(read_audio(path, duration=0.5)) == 8000  # audio before the end is intact


@pytest.mark.parametrize("size", [0x7FFFF000, 0x7FFFFFFF, 0xFFFFFFFF])
def test_a_wav_file_that_was_written_to_a_pipe_is_not_truncated(tmp_path, size):
    path = write(tmp_path / "a.wav", tone(16_000, SAMPLE_RATE))
    content = bytearray(path.read_bytes())
    content[4:8] = content[40:44] = size.to_bytes(4, "little")
    path.write_bytes(content)
    assert len(read_audio(path)) == 16_000


@pytest.mark.parametrize("kind", ["wav", "vorbis"])
def test_other_data_after_the_audio_is_ignored(tmp_path, kind):
    path = write(tmp_path / "a", tone(16_000, SAMPLE_RATE), kind=kind)
    path.write_bytes(path.read_bytes() + b"TAG" + bytes(125))
    assert len(read_audio(path)) == 16_000


@given(st.data())
@settings(max_examples=60)
def test_damaged_bytes_give_audio_or_an_audio_error(tmp_path_factory, data):
    kind = data.draw(st.sampled_from(sorted(FORMATS)))
    path = write(tmp_path_factory.mktemp("audio") / "a", tone(4000, SAMPLE_RATE), kind=kind)
    content = bytearray(path.read_bytes())
    for place in data.draw(st.lists(st.integers(0, len(content) - 1), max_size=20)):
        content[place] = data.draw(st.integers(0, 255))
    path.write_bytes(content)
    samples = audio_or_named_fault(path)
    assert len(samples)
    assert np.isfinite(samples).all()


def without_length(path):
    """Takes the number of samples out of the header of a FLAC file, as if it had been written to a pipe."""
    content = bytearray(path.read_bytes())
    content[21] &= 0xF0
    content[22:26] = bytes(4)
    path.write_bytes(content)
    return path


def test_a_file_of_unknown_length_is_read_to_its_end(tmp_path, monkeypatch):
    path = write(tmp_path / "a.flac", tone(20_000, SAMPLE_RATE, num_channels=2), kind="flac")
    whole = read_audio(path)
    without_length(path)
    np.testing.assert_array_equal(read_audio(path), whole)
    np.testing.assert_array_equal(read_audio(path, offset=1.0, duration=0.25), whole[16_000:])
    with pytest.raises(AudioError, match=r"a\.flac: damaged: audio ends at 1\.250 s of 1\.500 s"):
        read_audio(path, offset=1.0, duration=0.5)
    with pytest.raises(AudioError, match=r"a\.flac: damaged"):
        read_audio(path, offset=2.0, duration=0.5)
    with pytest.raises(AudioError, match="the header has no length"):
        header(path)
    monkeypatch.setattr(audio, "SAMPLES_PER_READ", 6000)  # piece by piece
    np.testing.assert_array_equal(read_audio(path), whole)


def test_names_of_files_may_be_in_any_script(tmp_path):
    path = write(tmp_path / "dobrý den 你好.wav", tone(100, SAMPLE_RATE))
    assert len(read_audio(str(path))) == 100


# Errors across processes.


def test_the_error_survives_pickling():
    error = pickle.loads(pickle.dumps(AudioError("a.wav: empty file.")))
    assert type(error) is AudioError
    assert str(error) == "a.wav: empty file."


class Faulty:
    def __len__(self):
        return 1

    def __getitem__(self, index):
        return read_audio("nowhere.wav")


def test_the_error_of_a_worker_process_has_one_line():
    with pytest.raises(AudioError) as caught:
        next(iter(DataLoader(Faulty(), num_workers=1)))
    assert str(caught.value).startswith("nowhere.wav: no such file.")
    assert "\n" not in str(caught.value)


def test_reading_needs_no_torch_and_says_which_extra_it_needs():
    program = (
        "import sys; sys.modules['torch'] = None; import ctcdro.speech.audio; del sys.modules['ctcdro.speech.audio']; "
        "sys.modules['soxr'] = None; import ctcdro.speech.audio"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "Reading audio needs the extra `data`: pip install 'ctcdro[data]'" in done.stderr.splitlines()[-1]
