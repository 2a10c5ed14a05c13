"""CTC losses of utterances, and the drop-in loss that weighs them."""

import math

import pytest
import torch
import torch.nn.functional as F

from ctcdro import CTCDROLoss, ctc_losses

NUM_FRAMES, NUM_LABELS = 30, 12


@pytest.fixture
def batch():
    """Logits, targets and lengths of five utterances; the transcripts of the second and last are too long for them."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(NUM_FRAMES, 5, NUM_LABELS, generator=generator).requires_grad_()
    targets = torch.randint(1, NUM_LABELS, (5, 8), generator=generator)
    targets[4, :4] = 3  # 4 equal labels need 7 frames, for the blanks between them
    return logits, targets, torch.tensor([30, 7, 25, 20, 6]), torch.tensor([8, 8, 5, 7, 4])


FITTING = torch.tensor([True, False, True, True, False])


def test_losses_are_those_of_torch_and_infinite_where_the_transcript_does_not_fit(batch):
    logits, *rest = batch
    log_probs = logits.log_softmax(-1)
    losses = ctc_losses(log_probs, *rest)
    assert torch.equal(losses.isfinite(), FITTING)
    torch.testing.assert_close(losses, F.ctc_loss(log_probs, *rest, reduction="none"))


def test_gradients_are_those_of_torch_and_zero_where_the_transcript_does_not_fit(batch):
    logits, *rest = batch
    ctc_losses(logits.log_softmax(-1), *rest).sum().backward()
    gradient, logits.grad = logits.grad, None
    F.ctc_loss(logits.log_softmax(-1), *rest, reduction="sum", zero_infinity=True).backward()
    assert gradient.isfinite().all()
    assert (gradient[:, ~FITTING] == 0).all()
    torch.testing.assert_close(gradient, logits.grad)


def test_lengths_may_be_lists_and_targets_one_row(batch):
    logits, targets, input_lengths, target_lengths = batch
    log_probs = logits.log_softmax(-1)
    row = torch.cat([labels[:length] for labels, length in zip(targets, target_lengths, strict=True)])
    expected = ctc_losses(log_probs, targets, input_lengths, target_lengths)
    torch.testing.assert_close(ctc_losses(log_probs, row, input_lengths.tolist(), target_lengths.tolist()), expected)


def test_the_loss_weighs_utterances_by_their_group(batch):
    logits, *rest = batch
    groups = torch.tensor([0, 0, 1, 1, 1])
    criterion = CTCDROLoss(2, step_size=1e-3, smoothing=0.5)
    loss = criterion(logits.log_softmax(-1), *rest, groups)
    loss.backward()
    gradient, logits.grad = logits.grad, None
    assert criterion.weights.tolist() != [0.5, 0.5]
    by_hand = F.ctc_loss(logits.log_softmax(-1), *rest, reduction="none", zero_infinity=True)
    by_hand = (2 * criterion.weights[groups] * by_hand).sum()
    by_hand.backward()
    torch.testing.assert_close(loss, by_hand)
    torch.testing.assert_close(gradient, logits.grad)
    assert criterion.num_skipped.tolist() == [1, 1]


def test_in_evaluation_the_loss_is_that_of_torch(batch):
    logits, *rest = batch
    criterion = CTCDROLoss(2, step_size=1e-3, smoothing=0.5).eval()
    loss = criterion(logits.log_softmax(-1), *rest, torch.zeros(5, dtype=torch.int64))
    expected = F.ctc_loss(logits.log_softmax(-1), *rest, reduction="sum", zero_infinity=True)
    torch.testing.assert_close(loss, expected)


def test_a_transcript_that_cannot_fit_leaves_the_gradients_of_the_others_alone(batch):
    logits, targets, input_lengths, target_lengths = batch
    groups = torch.tensor([0, 0, 1, 1, 1])
    gradients = []
    for kept in (torch.arange(5), torch.arange(5)[FITTING]):
        criterion = CTCDROLoss(2, step_size=1e-3, smoothing=0.5)
        own = logits.detach()[:, kept].requires_grad_()
        loss = criterion(own.log_softmax(-1), targets[kept], input_lengths[kept], target_lengths[kept], groups[kept])
        loss.backward()
        gradients.append(own.grad)
    assert torch.equal(gradients[0][:, FITTING], gradients[1])


def test_an_utterance_of_nan_leaves_weights_and_the_gradients_of_the_others_alone(batch):
    logits, *rest = batch
    log_probs = logits.detach().log_softmax(-1)
    groups = torch.tensor([0, 0, 1, 1, 1])
    expected = CTCDROLoss(2, step_size=1e-3, smoothing=0.5)
    clean = log_probs.clone().requires_grad_()
    kept = [0, 1, 2, 4]
    expected(clean[:, kept], *(part[kept] for part in rest), groups[kept]).backward()
    criterion = CTCDROLoss(2, step_size=1e-3, smoothing=0.5)
    broken = log_probs.clone()
    broken[:, 3] = math.nan
    broken.requires_grad_()
    criterion(broken, *rest, groups).backward()
    assert torch.equal(criterion.weights, expected.weights)
    assert torch.equal(broken.grad[:, kept], clean.grad[:, kept])


@pytest.mark.bfloat16
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_taken_as_autocast_would(batch, dtype):
    logits, *rest = batch
    log_probs = logits.log_softmax(-1).to(dtype)
    losses = ctc_losses(log_probs, *rest)
    assert losses.dtype == torch.float32
    torch.testing.assert_close(losses, ctc_losses(log_probs.float(), *rest))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        log_probs = torch.nn.functional.linear(logits, torch.eye(NUM_LABELS)).log_softmax(-1)
        groups = torch.tensor([0, 0, 1, 1, 1])
        assert CTCDROLoss(2, step_size=1e-3, smoothing=0.5)(log_probs, *rest, groups).isfinite()


def test_log_probs_with_utterances_first_are_refused(batch):
    logits, *rest = batch
    with pytest.raises(ValueError, match=r"\(5, 30, 12\) would be 30 utterances, but `input_lengths` has 5 entries"):
        ctc_losses(logits.log_softmax(-1).transpose(0, 1), *rest)


def test_empty_transcripts_are_taken():
    log_probs = torch.zeros(4, 2, 3).log_softmax(-1)
    losses = ctc_losses(log_probs, torch.ones(2, 1, dtype=torch.int64), [4, 4], [0, 1])
    assert losses[0].item() == pytest.approx(4 * math.log(3), rel=1e-6)


def test_log_probs_without_a_batch_are_refused():
    with pytest.raises(ValueError, match=r"`log_probs` must have shape .*got \(30, 12\)"):
        ctc_losses(torch.zeros(30, 12), torch.ones(3, dtype=torch.int64), [30], [3])
