"""SpecAugment: masks and their statistics."""

import pytest
import torch

from ctcdro.models.recognizer import build
from ctcdro.models.spec_augment import SpecAugment


@pytest.fixture(autouse=True)
def _seed():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


def stretches(hidden):
    """Lengths of runs of True."""
    runs = "".join("x" if flag else " " for flag in hidden.tolist()).split()
    return [len(run) for run in runs]


def test_evaluation_mode_changes_nothing():
    features = torch.randn(2, 50, 80)
    state = torch.get_rng_state()
    assert SpecAugment().eval()(features, torch.tensor([50, 30])) is features
    assert torch.equal(torch.get_rng_state(), state)


def test_bands_and_stretches_are_zero_and_the_rest_is_as_it_was():
    augment = SpecAugment(time_warp=0)
    features = torch.randn(4, 200, 80)
    num_frames = torch.tensor([200, 120, 60, 10])
    for _ in range(20):
        augmented = augment(features, num_frames)
        for one, before, length in zip(augmented, features, num_frames.tolist(), strict=True):
            hidden_bins = (one == 0).all(0)
            hidden_frames = (one == 0).all(1)
            assert hidden_bins.sum() <= 2 * 27
            assert hidden_frames[:length].sum() <= 10 * int(0.05 * length)
            assert len(stretches(hidden_bins)) <= 2
            assert len(stretches(hidden_frames[:length])) <= 10
            assert not hidden_frames[length:].any()
            there = ~(hidden_frames[:, None] | hidden_bins[None])
            assert torch.equal(one[there], before[there])


def test_widths_and_places_are_uniform():
    augment = SpecAugment(time_warp=0, num_frequency_masks=1, num_time_masks=1, time_mask_ratio=0.1)
    augmented = augment(torch.ones(4_000, 40, 50), torch.full((4_000,), 40))
    bands = (augmented == 0).all(1).sum(1)
    widths = (augmented == 0).all(2).sum(1)
    assert torch.bincount(bands, minlength=28).min() > 4_000 / 28 * 0.6
    assert torch.bincount(widths).tolist() == pytest.approx([800] * 5, rel=0.15)
    often = (augmented[:, :, -1] == 0).float().mean(0)  # the last bin is hidden least
    assert often[10:30].std() < 0.02


def test_the_same_generator_gives_the_same_masks():
    features, num_frames = torch.randn(3, 90, 40), torch.tensor([90, 50, 70])
    state = torch.get_rng_state()
    one = SpecAugment()(features, num_frames)
    torch.set_rng_state(state)
    assert torch.equal(SpecAugment()(features, num_frames), one)
    assert not torch.equal(SpecAugment()(features, num_frames), one)


def test_padding_does_not_matter():
    features, num_frames = torch.randn(2, 60, 40), torch.tensor([60, 45])
    padded = torch.nn.functional.pad(features, (0, 0, 0, 30), value=9.0)
    state = torch.get_rng_state()
    one = SpecAugment()(features, num_frames)
    torch.set_rng_state(state)
    other = SpecAugment()(padded, num_frames)
    assert torch.equal(one[0], other[0, :60])
    assert torch.equal(one[1, :45], other[1, :45])


def test_a_warp_moves_frames_by_less_than_its_width_and_keeps_ends_and_order():
    augment = SpecAugment(time_warp=5, num_frequency_masks=0, num_time_masks=0)
    ramp = torch.arange(100.0)[None, :, None].repeat(50, 1, 1)
    num_frames = torch.tensor([100] * 25 + [40] * 25)
    warped = augment(ramp, num_frames)[:, :, 0]
    moved = warped - ramp[:, :, 0]
    assert 2 < moved.abs().max() < 5
    for row, length in zip(warped, num_frames.tolist(), strict=True):
        assert (row[0], row[length - 1]) == (0, pytest.approx(length - 1, abs=1e-4))
        assert (row[:length].diff() > 0).all()
        assert torch.equal(row[length:], ramp[0, length:, 0])


@pytest.mark.parametrize("length", [1, 11, 12])
def test_short_utterances_have_no_time_masks(length):
    augmented = SpecAugment(frequency_mask_width=4)(torch.ones(3, length, 20), torch.tensor([length, length, 1]))
    assert augmented.isfinite().all()
    assert not (augmented == 0).all(2).any()


def test_gradients_flow_around_the_masks():
    features = torch.randn(2, 80, 40, requires_grad=True)
    SpecAugment()(features, torch.tensor([80, 60])).sum().backward()
    assert features.grad.isfinite().all()
    assert (features.grad == 0).any()
    assert (features.grad != 0).any()


@pytest.mark.parametrize("name", ["mel-small", "wav2vec2", "wav2vec2-bert", "whisper"])  # one for each front end
def test_with_a_linear_head_the_encoder_masks_its_input_in_training_only(folders, name):
    plain, masked = (
        build(folders.get(name, name), 7, head="linear", spec_augment=spec_augment, seed=0)
        for spec_augment in (None, True)
    )
    audio, num_samples = torch.randn(2, 16_000), torch.tensor([16_000, 9_000])
    calls = []
    masked.encoder.augment.register_forward_pre_hook(lambda module, inputs: calls.append(inputs))
    torch.manual_seed(0)
    one, other = (masked(audio, num_samples).logits for _ in range(2))
    torch.manual_seed(0)
    assert torch.equal(masked(audio, num_samples).logits, one)
    assert not torch.equal(one, other)
    one.sum().backward()
    assert masked.head.output.weight.grad.abs().sum() > 0
    for features, num_frames in calls:
        assert features.shape[1] == num_frames.max()
        assert num_frames[1] < num_frames[0]
    assert torch.equal(masked.eval()(audio, num_samples).logits, plain.eval()(audio, num_samples).logits)


def test_masked_bins_of_mel_small_have_their_mean(one_thread):
    model = build("mel-small", 7, spec_augment=True, seed=0)
    inputs = []
    model.encoder.enter.register_forward_pre_hook(lambda module, arguments: inputs.append(arguments[0]))
    audio, num_samples = torch.randn(1, 48_000), torch.tensor([48_000])
    model(audio, num_samples)
    model.eval()(audio, num_samples)
    masked, plain = ((features == 0).float().mean() for features in inputs)
    assert masked > 0.2
    assert plain < 0.01


def test_a_frozen_encoder_with_a_linear_head_has_nothing_to_mask(folders):
    with pytest.raises(ValueError, match="masks the input of the encoder, which is frozen"):
        build(folders["wav2vec2"], 7, head="linear", freeze_encoder=True, spec_augment=True)
