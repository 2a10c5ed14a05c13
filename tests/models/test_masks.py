"""Masks and means that ignore padding."""

import pytest
import torch

from ctcdro.models.masks import centered, normalized, real_frames


def test_masks_are_true_up_to_the_end():
    mask = real_frames(torch.tensor([4, 0, 2]), 4)
    assert mask.sum(1).tolist() == [4, 0, 2]
    assert mask[2].tolist() == [True, True, False, False]


@pytest.mark.parametrize("correction", [0, 1])
def test_normalized_features_are_those_of_each_utterance_alone(correction):
    torch.manual_seed(0)
    features = 3 * torch.randn(3, 20, 5) + 7
    num_frames = torch.tensor([20, 11, 2])
    together = normalized(features, num_frames, correction=correction)
    for row, length in enumerate(num_frames.tolist()):
        alone = features[row, :length]
        expected = (alone - alone.mean(0)) / (alone.var(0, correction=correction) + 1e-7).sqrt()
        torch.testing.assert_close(together[row, :length], expected, rtol=1e-4, atol=1e-5)
        assert (together[row, length:] == 0).all()


def test_the_content_of_the_padding_does_not_matter():
    features = torch.randn(1, 7, 3)
    features[:, 4:] = torch.tensor([1e30, float("nan"), float("inf")])[:, None]
    expected = centered(features[:, :4], torch.tensor([4]))
    torch.testing.assert_close(centered(features, torch.tensor([4]))[:, :4], expected)
    assert normalized(features, torch.tensor([4])).isfinite().all()
