"""Speed perturbation, silence and noise: their effect, and what the random choice depends on."""

import numpy as np
import pytest
import soundfile
import torch

from ctcdro import Manifest, Utterance
from ctcdro.speech.augmentation import AudioAugmentation, add_silence, change_speed
from ctcdro.speech.dataset import SpeechDataset
from ctcdro.speech.loader import load_batches
from ctcdro.speech.noise import add_noise, pink_noise, quiet_noise

RATE = 16_000
SPEEDS = (0.9, 1.0, 1.1)


def tone(frequency=440.0, seconds=1.0):
    return (0.3 * np.sin(2 * np.pi * frequency * np.arange(round(RATE * seconds)) / RATE)).astype(np.float32)


def power(samples):
    return float(np.mean(np.square(samples, dtype=np.float64)))


@pytest.mark.parametrize("speed", [0.5, 0.9, 1.1, 2.0])
def test_speed_changes_duration_and_pitch(speed):
    changed = change_speed(tone(), speed)
    assert changed.dtype == np.float32
    assert len(changed) == pytest.approx(RATE / speed, abs=1)
    loudest = np.abs(np.fft.rfft(changed)).argmax() * RATE / len(changed)
    assert loudest == pytest.approx(440 * speed, abs=2)
    assert power(changed) == pytest.approx(power(tone()), rel=0.02)


def test_speed_one_leaves_the_samples():
    samples = tone()
    assert change_speed(samples, 1.0) is samples


@pytest.mark.parametrize("snr_db", [-5.0, 0.0, 20.0])
def test_noise_has_the_requested_ratio(snr_db):
    samples = tone()
    noisy = add_noise(samples, snr_db, np.random.default_rng(0))
    assert len(noisy) == len(samples)
    assert 10 * np.log10(power(samples) / power(noisy - samples)) == pytest.approx(snr_db, abs=0.01)


def test_silence_and_short_audio_are_no_trouble():
    assert np.array_equal(add_noise(np.zeros(400, np.float32), 10.0, np.random.default_rng(0)), np.zeros(400))
    assert np.isfinite(add_noise(np.ones(3, np.float32), 10.0, np.random.default_rng(0))).all()


def test_pink_noise_has_the_same_power_in_every_octave():
    spectrum = np.square(np.abs(np.fft.rfft(pink_noise(60 * RATE, np.random.default_rng(0)))))
    frequency = np.fft.rfftfreq(60 * RATE, 1 / RATE)
    octaves = [spectrum[(frequency >= low) & (frequency < 2 * low)].sum() for low in 60.0 * 2 ** np.arange(7)]
    assert max(octaves) / min(octaves) < 1.3
    assert spectrum[frequency < 20].sum() < octaves[0]


def test_the_choice_depends_on_seed_epoch_and_index_only():
    def lengths(seed, epochs=range(20), indices=range(20), **options):
        augment = AudioAugmentation(SPEEDS, seed=seed, **options)
        return [len(augment(tone(), epoch, index)) for epoch in epochs for index in indices]

    assert lengths(0) == lengths(0)
    assert lengths(0) == lengths(0, noise_snr_db=(10, 40)), "noise does not change the choice of speeds"
    assert lengths(0) != lengths(1)
    for options in ({"epochs": [3]}, {"indices": [3]}):
        assert len(set(lengths(0, **options))) == 3, "each epoch and each utterance has its own"
    counts = np.unique(lengths(0), return_counts=True)[1]
    assert len(counts) == 3
    assert min(counts) > 100


def test_ratios_of_noise_cover_the_range():
    augment = AudioAugmentation(noise_snr_db=(5.0, 15.0))
    samples = tone()
    ratios = [10 * np.log10(power(samples) / power(augment(samples, 0, index) - samples)) for index in range(100)]
    assert 4.99 < min(ratios) < 6
    assert 14 < max(ratios) < 15.01


def test_a_speed_beyond_the_limits_of_the_encoder_is_not_applied():
    samples = tone()
    for limit in ({"max_samples": len(samples)}, {"min_samples": len(samples)}):
        for speeds in ((0.9,), (1.1,)):
            is_allowed = ("max_samples" in limit) == (speeds[0] > 1)
            assert (AudioAugmentation(speeds, **limit)(samples, 0, 0) is samples) is not is_allowed


def test_quiet_noise_has_the_level_and_the_spectrum_of_the_quietest_part():
    hum = 0.01 * tone(2_000.0, 3.0)
    samples = np.concatenate([tone(), hum, tone()])
    silence = quiet_noise(samples, 10 * RATE, np.random.default_rng(0))
    assert power(silence) == pytest.approx(power(hum), rel=0.1)
    assert np.abs(np.fft.rfft(silence)).argmax() / 10 == pytest.approx(2_000, abs=80)
    for short in (np.zeros(400), np.ones(3)):
        assert np.isfinite(quiet_noise(short, 100, np.random.default_rng(0))).all()


def test_silence_surrounds_an_utterance_that_stays_as_it_is():
    samples = tone()
    lengths = set()
    for seed in range(40):
        longer = add_silence(samples, 0.5, np.random.default_rng(seed))
        [start] = [n for n in range(len(longer) - RATE + 1) if np.array_equal(longer[n : n + RATE], samples)][:1]
        lengths |= {start, len(longer) - RATE - start}
        assert longer.dtype == np.float32
    assert min(lengths) == 0
    assert 0.4 * RATE < max(lengths) <= 0.5 * RATE


def test_silence_beyond_the_limit_of_the_encoder_is_not_added():
    samples = tone()
    for index in range(10):
        assert AudioAugmentation((), 0.5, max_samples=len(samples))(samples, 0, index).tolist() == samples.tolist()


@pytest.fixture
def manifest(tmp_path):
    utterances = []
    for number in range(6):
        soundfile.write(tmp_path / f"{number}.wav", tone(200.0 + 50 * number), RATE, subtype="FLOAT")
        utterances.append(Utterance(str(tmp_path / f"{number}.wav"), 1.0, "ano", "ces"))
    return Manifest(utterances)


def test_workers_do_not_change_the_augmentation_and_epochs_do(manifest):
    dataset = SpeechDataset(manifest, augment=AudioAugmentation(SPEEDS, 0.3, (10, 40)))

    def inputs(num_workers, epoch):
        dataset.set_epoch(epoch)
        return [batch.inputs for batch in load_batches(dataset, [[0, 1], [2, 3], [4, 5]], num_workers)]

    first = inputs(0, 0)
    assert all(one.dtype == torch.float32 for one in first)
    assert all(map(torch.equal, first, inputs(2, 0)))
    second = inputs(0, 1)
    assert not any(one.shape == two.shape and torch.equal(one, two) for one, two in zip(first, second, strict=True))
    assert all(map(torch.equal, second, inputs(1, 1)))
