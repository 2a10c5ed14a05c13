"""Features of pretrained encoders: against the feature extractors of `transformers`."""

import numpy as np
import pytest
import soxr
import torch
import transformers
from tiny_encoders import parakeet_features

from ctcdro.models.log_mel import KaldiFbank, ParakeetLogMel, SmallLogMel, WhisperLogMel, mel_filters, normalized_audio

LENGTHS = [16_000, 7_777, 400 + 160, 12_345, 9_120, 9_280]


@pytest.fixture
def utterances():
    """Noise that grows louder, over a hum, with an offset and silence within."""
    rng = np.random.default_rng(0)
    made = []
    for length in LENGTHS:
        time = np.arange(length) / 16_000
        audio = 0.02 + 0.1 * np.sin(2 * np.pi * 180 * time) + 0.2 * time * rng.normal(size=length)
        audio[length // 3 : length // 2] = 0.0
        made.append(audio.astype(np.float32))
    return made


@pytest.fixture
def batch(utterances):
    audio = torch.nn.utils.rnn.pad_sequence([torch.from_numpy(one) for one in utterances], batch_first=True)
    return audio, torch.tensor(LENGTHS)


def test_normalized_audio_is_that_of_the_wav2vec2_extractor(utterances, batch):
    extractor = transformers.Wav2Vec2FeatureExtractor(do_normalize=True, return_attention_mask=True)
    expected = extractor(utterances, sampling_rate=16_000, padding=True, return_tensors="pt").input_values
    torch.testing.assert_close(normalized_audio(*batch), expected, rtol=1e-4, atol=1e-5)


def test_the_filter_bank_is_that_of_the_seamless_extractor(utterances, batch):
    extractor = transformers.SeamlessM4TFeatureExtractor()
    expected = extractor(utterances, sampling_rate=16_000, return_tensors="pt")
    fbank = KaldiFbank()
    features = fbank(*batch)
    assert fbank.num_frames(batch[1]).tolist() == expected.attention_mask.sum(1).tolist()
    real = expected.attention_mask.bool()
    torch.testing.assert_close(
        features[real], expected.input_features[:, : features.shape[1]][real], rtol=1e-3, atol=2e-3
    )
    assert (features[~real] == 0).all()


@pytest.mark.parametrize("num_bins", [80, 128])
def test_the_log_mel_spectrogram_is_that_of_the_whisper_extractor(utterances, batch, num_bins):
    extractor = transformers.WhisperFeatureExtractor(feature_size=num_bins)
    expected = extractor(utterances, sampling_rate=16_000, return_attention_mask=True, return_tensors="pt")
    log_mel = WhisperLogMel(num_bins)
    features = log_mel(*batch)
    assert log_mel.num_frames(batch[1]).tolist() == expected.attention_mask.sum(1).tolist()
    real = expected.attention_mask.bool()[:, : features.shape[1]]
    expected = expected.input_features.transpose(1, 2)[:, : features.shape[1]]
    torch.testing.assert_close(features[real], expected[real], rtol=1e-4, atol=1e-4)
    assert (features[~real] == 0).all()


def test_the_log_mel_spectrogram_is_relative_to_the_loudest_bin_also_at_the_very_end():
    audio = torch.full((1, 8_000), 1e-4)
    audio[0, -30:] = 1.0  # heard only by windows that begin a frame's length after the last frame
    extractor = transformers.WhisperFeatureExtractor()
    expected = extractor(audio[0].numpy(), sampling_rate=16_000, return_tensors="pt").input_features.transpose(1, 2)
    torch.testing.assert_close(WhisperLogMel(80)(audio, torch.tensor([8_000])), expected[:, :50], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("make", [lambda: WhisperLogMel(80), KaldiFbank], ids=["Whisper", "Kaldi"])
def test_features_are_the_same_alone_and_in_a_batch(make, batch):
    features = make()
    together = features(*batch)
    for row, length in enumerate(LENGTHS):
        alone = features(batch[0][row : row + 1, :length], torch.tensor([length]))[0]
        torch.testing.assert_close(together[row, : len(alone)], alone, rtol=1e-4, atol=1e-4)
        assert (together[row, len(alone) :] == 0).all()


def test_filters_overlap_by_half_and_leave_no_gap():
    filters = mel_filters(80, fft=8_192)
    assert filters.shape == (4_097, 80)
    assert (filters >= 0).all()
    assert filters.max(0).values.min() > 0.9
    frequency = torch.linspace(0, 8_000, 4_097)
    peaks = frequency[filters.argmax(0)]
    assert (peaks.diff() > 0).all()
    between = (frequency > peaks[0]) & (frequency < peaks[-1])
    assert filters.sum(1)[between].allclose(torch.ones(()), atol=0.05)


def test_every_filter_hears_something():
    assert (mel_filters(80).sum(0) > 0).all()


def test_the_log_mel_spectrogram_is_that_of_the_parakeet_extractor(utterances, batch):
    expected = parakeet_features()(utterances, sampling_rate=16_000, return_tensors="pt")
    log_mel = ParakeetLogMel(80)
    features = log_mel(*batch)
    real = expected.attention_mask[:, : features.shape[1]]
    assert log_mel.num_frames(batch[1]).tolist() == real.sum(1).tolist()
    torch.testing.assert_close(
        features[real], expected.input_features[:, : features.shape[1]][real], rtol=1e-4, atol=1e-4
    )
    assert (features[~real] == 0).all()


def test_silence_has_finite_features():
    silence = torch.zeros(1, 3_200), torch.tensor([3_200])
    for features in (SmallLogMel(80), KaldiFbank(), WhisperLogMel(80), ParakeetLogMel(80)):
        assert features(*silence).isfinite().all()


def narrowband():
    """Loud speech-like tones of 4 s at 8 kHz, resampled: nothing above 4 kHz but the errors of the resampler."""
    time = np.arange(32_000) / 8_000
    tones = sum(np.sin(2 * np.pi * frequency * time) for frequency in (150, 700, 1_900)) / 3
    audio = soxr.resample((tones * np.sin(3 * time) ** 2).astype(np.float32), 8_000, 16_000)
    return torch.from_numpy(audio)[None], torch.tensor([len(audio)])


def test_features_of_narrowband_audio_do_not_depend_on_rounding():
    """In evaluation mode, and with the matrix of exported models."""
    exact, exported, evaluated = SmallLogMel(80), SmallLogMel(80).eval(), SmallLogMel(80).eval()
    exported.replace_fft()
    audio, num_samples = narrowband()
    expected = exact.eval().double()(audio, num_samples)
    torch.testing.assert_close(evaluated(audio, num_samples), expected.float(), rtol=0, atol=1e-4)
    torch.testing.assert_close(exported(audio, num_samples), evaluated(audio, num_samples), rtol=0, atol=1e-5)
