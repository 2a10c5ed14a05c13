"""Audio files with wrong headers: bytes changed, cut off, or with impossible numbers."""

import struct
import tracemalloc

import numpy as np
import pytest
import soundfile
from hostile import FUZZ
from hypothesis import given
from hypothesis import strategies as st

from ctcdro.speech import audio
from ctcdro.speech.audio import AudioError, header, read_audio

RATE = 16_000
FORMATS = {
    "wav": {"format": "WAV", "subtype": "PCM_16"},
    "float": {"format": "WAV", "subtype": "FLOAT"},
    "flac": {"format": "FLAC"},
    "vorbis": {"format": "OGG", "subtype": "VORBIS"},
    "opus": {"format": "OGG", "subtype": "OPUS"},
    "mp3": {"format": "MP3"},
}
# Bytes of a header; damage after it is tested elsewhere.
HEADER = 120


@pytest.fixture(scope="module")
def contents(tmp_path_factory):
    """A tenth of a second in each format."""
    folder = tmp_path_factory.mktemp("audio")
    samples = 0.3 * np.sin(np.arange(RATE // 10) * 0.05)
    for name, options in FORMATS.items():
        soundfile.write(folder / name, samples, RATE, **options)
    return {name: (folder / name).read_bytes() for name in FORMATS}


def is_read_or_named(path):
    """Checks that a file gives finite samples, or an `AudioError` that begins with its name; whole, and a segment."""
    for call in (header, read_audio, lambda path: read_audio(path, offset=0.01, duration=0.02)):
        try:
            assert np.isfinite(call(path)).all()
        except AudioError as error:
            reported = str(error)
        else:
            continue
        assert reported.startswith(f"{path}: ")
        assert "\n" not in reported


WORDS = st.sampled_from([0, 1, 2, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 16_000, 1_000_000])


@given(st.sampled_from(sorted(FORMATS)), st.data())
@FUZZ
def test_headers(tmp_path, contents, name, data):
    content = bytearray(contents[name])
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, min(HEADER, len(content) - 4)))
        size = data.draw(st.sampled_from([1, 2, 4]))
        order = data.draw(st.sampled_from("<>"))
        word = data.draw(st.one_of(WORDS, st.integers(0, 2**32 - 1)))
        content[place : place + size] = struct.pack(f"{order}I", word)[:size]
    content = content[: data.draw(st.one_of(st.just(len(content)), st.integers(0, len(content))))]
    path = tmp_path / "a.audio"
    path.write_bytes(content)
    is_read_or_named(path)


@given(
    st.binary(max_size=300), st.sampled_from([b"", b"RIFF", b"fLaC", b"OggS", b"ID3", b"\xff\xfb", b"FORM", b".snd"])
)
@FUZZ
def test_bytes_that_begin_as_audio_does(tmp_path, rest, beginning):
    path = tmp_path / "a.wav"
    path.write_bytes(beginning + rest)
    is_read_or_named(path)


def wav(num_channels=1, rate=RATE, num_bytes=3200, bits=16, data=b"\0" * 3200, format=1):
    """A WAV file with any numbers in its header."""
    block = num_channels * bits // 8
    fields = struct.pack(
        "<HHIIHH", format, num_channels & 0xFFFF, rate, (rate * block) & 0xFFFFFFFF, block & 0xFFFF, bits
    )
    return (
        b"RIFF" + struct.pack("<I", (36 + num_bytes) & 0xFFFFFFFF) + b"WAVEfmt " + struct.pack("<I", 16) + fields
        + b"data" + struct.pack("<I", num_bytes & 0xFFFFFFFF) + data
    )  # fmt: skip


def memory_to_read(path):
    """The peak memory of reading a file, or of rejecting it, in bytes."""
    tracemalloc.start()
    try:
        is_read_or_named(path)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_impossible_numbers_take_no_memory(tmp_path):
    path = tmp_path / "a.wav"
    for content in (
        wav(num_channels=0),
        wav(num_channels=65_535),
        wav(num_channels=1024, num_bytes=2**32 - 1),
        wav(rate=0),
        wav(rate=2**32 - 1),
        wav(rate=1),
        wav(num_bytes=2**32 - 1),
        wav(num_bytes=0, data=b""),
        wav(bits=0),
        wav(bits=24, format=3),
        wav(format=0xFFFF),
    ):
        path.write_bytes(content)
        assert memory_to_read(path) < 100e6


def claiming(content, num_samples):
    """A FLAC file whose header claims a number of samples."""
    changed = bytearray(content)
    changed[21] = (changed[21] & 0xF0) | num_samples >> 32
    changed[22:26] = struct.pack(">I", num_samples & 0xFFFFFFFF)
    return bytes(changed)


def test_a_flac_file_that_claims_more_than_it_holds_takes_no_memory(tmp_path, contents):
    path = tmp_path / "a.flac"
    for num_samples in (0, 1601, 2**22 + 1, 2**29 + 1, 2**36 - 1):
        path.write_bytes(claiming(contents["flac"], num_samples))
        assert memory_to_read(path) < 100e6


@pytest.mark.parametrize("num_samples", [None, 0])
def test_a_file_compressed_a_thousandfold_is_not_decompressed_completely(tmp_path, monkeypatch, num_samples):
    monkeypatch.setattr(audio, "MAX_SAMPLES", 10 * RATE)
    monkeypatch.setattr(audio, "SAMPLES_PER_READ", RATE)
    path = tmp_path / "a.flac"
    soundfile.write(path, np.zeros(20 * RATE, np.int16), RATE)
    if num_samples is not None:  # 0 says that the number is not known
        path.write_bytes(claiming(path.read_bytes(), num_samples))
    with pytest.raises(AudioError, match=r"a\.flac: longer than the limit of 10 s"):
        read_audio(path)
    assert len(read_audio(path, offset=15.0, duration=5.0)) == 5 * RATE
    with pytest.raises(AudioError, match=r"a\.flac: longer than the limit of 5 s"):
        read_audio(path, duration=8.0, sample_rate=2 * RATE)


def test_enormous_offsets_and_durations_are_named(tmp_path, contents):
    path = tmp_path / "a.wav"
    path.write_bytes(contents["wav"])
    for seconds in (1e300, 1.7e308):
        with pytest.raises(AudioError, match=r"a\.wav: `offset` is .* s, but the file is .* s long"):
            read_audio(path, offset=seconds, duration=seconds)
        with pytest.raises(AudioError, match=r"a\.wav: the file is 0\.100 s long"):
            read_audio(path, duration=seconds)
