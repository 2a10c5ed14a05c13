"""mel-small: its size, and its features against torch.stft."""

import torch

from ctcdro.models.encoders.mel_small import MelSmall


def test_it_is_small():
    assert sum(parameter.numel() for parameter in MelSmall().parameters()) == 670_032


def test_features_are_those_of_torch_stft():
    encoder = MelSmall()
    torch.manual_seed(0)
    audio = torch.randn(1, 5_000)
    window = torch.nn.functional.pad(encoder.log_mel.window, (0, 112))
    audio_for_stft = torch.nn.functional.pad(audio, (0, 112))
    power = torch.stft(audio_for_stft, 512, 160, window=window, center=False, return_complex=True).abs().square()
    expected = (power.transpose(1, 2) @ encoder.log_mel.filters).log()
    expected = (expected - expected.mean(1, keepdim=True)) / expected.std(1, keepdim=True, correction=0)
    features = encoder.log_mel(audio, torch.tensor([5_000]))
    assert features.shape == (1, 29, 80)
    torch.testing.assert_close(features, expected, rtol=1e-4, atol=1e-4)


def test_loudness_does_not_matter():
    encoder = MelSmall()
    audio, num_samples = torch.randn(1, 8_000), torch.tensor([8_000])
    torch.testing.assert_close(encoder.log_mel(audio, num_samples), encoder.log_mel(0.1 * audio, num_samples))


def test_silence_is_no_trouble():
    (hidden,) = MelSmall()(torch.zeros(2, 8_000), torch.tensor([8_000, 400]))
    assert hidden.isfinite().all()


def test_frames_are_thirty_milliseconds():
    encoder = MelSmall()
    for num_samples in (400, 559, 560, 879, 880, 881, 16_000):
        (hidden,) = encoder(torch.randn(1, num_samples), torch.tensor([num_samples]))
        assert hidden.shape[1] == int(encoder.num_frames(torch.tensor(num_samples)))
        assert hidden.shape[1] == -(-((num_samples - 400) // 160 + 1) // 3)
