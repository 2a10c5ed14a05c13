"""The heads: sizes of the paper's, and what it starts as."""

from functools import partial

import pytest
import torch

from ctcdro.models.heads import ConvolutionHead, LinearHead, TransformerHead


def test_the_sum_of_layers_starts_uniform():
    head = TransformerHead(16, 3, 10).eval()
    hidden = torch.randn(3, 2, 8, 16)
    mean = hidden.mean(0, keepdim=True).repeat(3, 1, 1, 1)
    num_frames = torch.tensor([8, 5])
    with torch.no_grad():
        torch.testing.assert_close(head(hidden, num_frames), head(mean, num_frames), rtol=1e-4, atol=1e-5)


def test_layers_can_be_weighted():
    head = TransformerHead(16, 3, 10).eval()
    hidden = torch.randn(3, 2, 8, 16)
    with torch.no_grad():
        head.mix.scores.copy_(torch.tensor([-50.0, 50.0, -50.0]))
        only = hidden[1:2].repeat(3, 1, 1, 1)
        torch.testing.assert_close(head(hidden, torch.tensor([8, 5])), head(only, torch.tensor([8, 5])))


def test_layers_may_come_one_by_one():
    head = TransformerHead(16, 3, 10).eval()
    hidden = torch.randn(3, 2, 8, 16)
    assert torch.equal(head(hidden, torch.tensor([8, 5])), head(tuple(hidden), torch.tensor([8, 5])))


def test_it_has_the_sizes_of_the_paper():
    head = TransformerHead(1_024, 25, 300)
    assert head.narrow.out_features == 80
    assert len(head.blocks) == 2
    block = head.blocks[0]
    assert (block.self_attn.embed_dim, block.self_attn.num_heads, block.linear1.out_features) == (256, 8, 1_024)
    assert block.norm_first
    assert {module.p for module in head.modules() if isinstance(module, torch.nn.Dropout)} == {0.1}


def test_frames_are_halved_and_none_is_lost():
    head = TransformerHead(16, 1, 10).eval()
    for num_frames in range(1, 12):
        logits = head(torch.randn(1, 1, num_frames, 16), torch.tensor([num_frames]))
        assert logits.shape[1] == int(head.num_frames(torch.tensor(num_frames))) == (num_frames + 1) // 2


def test_the_order_of_frames_matters_also_far_apart():
    head = TransformerHead(16, 1, 10).eval()
    hidden = torch.randn(1, 1, 40, 16)
    swapped = hidden.clone()
    swapped[:, :, 30:40], swapped[:, :, 10:20] = hidden[:, :, 10:20], hidden[:, :, 30:40]
    with torch.no_grad():
        one, other = (head(layers, torch.tensor([40]))[0, 0] for layers in (hidden, swapped))
    assert not torch.allclose(one, other, atol=1e-4)


@pytest.mark.parametrize("kind", [partial(TransformerHead, dropout=0.0), ConvolutionHead])
def test_spec_augment_is_part_of_training_only(kind):
    hidden = torch.randn(2, 1, 60, 64)
    for spec_augment in (False, True):
        head = kind(64, 2, 10, spec_augment=spec_augment)
        one, other = (head(hidden, torch.tensor([60])) for _ in range(2))
        assert torch.equal(one, other) is not spec_augment
        head.eval()
        assert torch.equal(head(hidden, torch.tensor([60])), head(hidden, torch.tensor([60])))


def test_the_linear_head_reads_the_last_layer():
    head = LinearHead(16, 10)
    hidden = torch.randn(3, 2, 8, 16)
    assert torch.equal(head(hidden, torch.tensor([8, 5])), head.output(hidden[2]))
