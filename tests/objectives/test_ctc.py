"""CTC losses of utterances, and the drop-in loss that weighs them."""

import math
from itertools import product

import pytest
import torch
import torch.nn.functional as F
from cases import case
from torch._subclasses.fake_tensor import FakeTensorMode

from ctcdro import CTCDROLoss, ctc_losses
from ctcdro.objectives import host_memory
from ctcdro.objectives.ctc_checks import LOWEST_PER_FRAME, check_labels_async

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


def test_an_utterance_of_nan_shows_in_the_value_and_leaves_the_weights_and_other_gradients_alone(batch):
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
    loss = criterion(broken, *rest, groups)
    loss.backward()
    assert loss.isnan()
    assert criterion.eval()(broken, *rest, groups).isnan()
    assert torch.equal(criterion.weights, expected.weights)
    assert torch.equal(criterion.num_skipped, expected.num_skipped)
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


def test_log_probs_with_utterances_first_are_rejected(batch):
    logits, *rest = batch
    with pytest.raises(ValueError, match=r"\(5, 30, 12\) would be 30 utterances, but `input_lengths` has 5 entries"):
        ctc_losses(logits.log_softmax(-1).transpose(0, 1), *rest)


def test_empty_transcripts_are_accepted():
    log_probs = torch.zeros(4, 2, 3).log_softmax(-1)
    losses = ctc_losses(log_probs, torch.ones(2, 1, dtype=torch.int64), [4, 4], [0, 1])
    assert losses[0].item() == pytest.approx(4 * math.log(3), rel=1e-6)


def test_log_probs_without_a_batch_are_rejected():
    with pytest.raises(ValueError, match=r"`log_probs` must have shape .*got \(30, 12\)"):
        ctc_losses(torch.zeros(30, 12), torch.ones(3, dtype=torch.int64), [30], [3])


LOG_PROBS = torch.zeros(10, 3, 5).log_softmax(-1)
PADDED = torch.tensor([[1, 2], [3, 4], [1, -100]])
IN_A_ROW = torch.tensor([1, 2, 3, 4, 1])
LENGTHS = [10, 10, 10], [2, 2, 1]

WRONG_LABELS = [
    (1, 5, r"utterance 1 has label 5, but `log_probs` has 5 labels, from 0 to 4\. Does the tokenizer"),
    (1, 5000, "utterance 1 has label 5000"),
    (0, -100, r"utterance 0 has label -100.*Count only real labels in `target_lengths`"),
    (2, 0, "utterance 2 has label 0, which is the blank"),
]


@pytest.mark.parametrize(("utterance", "label", "message"), WRONG_LABELS)
def test_labels_outside_the_vocabulary_are_named(utterance, label, message):
    padded, in_a_row = PADDED.clone(), IN_A_ROW.clone()
    padded[utterance, 0] = in_a_row[2 * utterance] = label
    for targets in (padded, padded.int(), in_a_row):
        with pytest.raises(ValueError, match=message):
            ctc_losses(LOG_PROBS, targets, *LENGTHS)


@pytest.mark.parametrize(("utterance", "label", "message"), WRONG_LABELS)
def test_labels_outside_the_vocabulary_are_rejected_where_the_host_cannot_read_them(
    utterance, label, message, monkeypatch
):
    monkeypatch.setattr(host_memory, "is_readable", lambda *tensors: False)
    padded, in_a_row = PADDED.clone(), IN_A_ROW.clone()
    assert ctc_losses(LOG_PROBS, padded, *LENGTHS).isfinite().all()
    assert ctc_losses(LOG_PROBS, in_a_row, *LENGTHS).isfinite().all()
    padded[utterance, 0] = in_a_row[2 * utterance] = label
    for targets in (padded, in_a_row):
        with pytest.raises(RuntimeError, match=r"`targets` contains the blank \(0\) or a label outside 0 to 4"):
            ctc_losses(LOG_PROBS, targets, *LENGTHS)


def test_labels_are_checked_without_reading_them_from_the_device():
    with FakeTensorMode():  # refuses every operation that would have the host read a value
        for shape in ((3, 2), (5,)):
            check_labels_async(torch.zeros(shape, dtype=torch.int64), torch.zeros(3, dtype=torch.int64), 5, 0)
    on_meta = ctc_losses(LOG_PROBS.to("meta"), PADDED.to("meta"), *LENGTHS)
    assert on_meta.shape == (3,)


def test_the_check_of_labels_can_be_compiled():
    compiled = torch.compile(check_labels_async, fullgraph=True, backend="aot_eager")
    compiled(PADDED, torch.tensor([2, 2, 1]), 5, 0)
    with pytest.raises(RuntimeError, match="`targets` contains the blank"):
        compiled(PADDED, torch.tensor([2, 2, 2]), 5, 0)


def test_lengths_that_do_not_fit_are_named():
    for targets, input_lengths, target_lengths, message in (
        (
            PADDED,
            [10, 40, 10],
            [2, 2, 1],
            r"utterance 1 has 40 frames, but `log_probs` has 10\..*subsampling, not samples",
        ),
        (PADDED, [10, 10, -1], [2, 2, 1], "utterance 2 has -1 frames"),
        (
            PADDED,
            [10, 10, 10],
            [2, 3, 1],
            "`target_lengths`: utterance 1 has 3 labels, but `targets` has only 2 columns",
        ),
        (PADDED[:2], [10, 10, 10], [2, 2, 1], "`targets` must have one row per utterance; got 2 rows for 3 utterances"),
        (PADDED, [10, 10, 10], [2, -2, 1], "`target_lengths` must not be negative; got -2"),
        (IN_A_ROW, [10, 10, 10], [2, 2, 2], "`target_lengths` must sum to the length of .* got 6 and 5"),
    ):
        with case(message):
            for as_lengths in (list, torch.tensor):
                with pytest.raises(ValueError, match=message):
                    ctc_losses(LOG_PROBS, targets, as_lengths(input_lengths), as_lengths(target_lengths))


def test_logits_in_place_of_log_probs_are_reported(batch):
    logits, *rest = batch
    with pytest.raises(ValueError, match=r"got a loss of -.*These values look like logits: apply `log_softmax\(-1\)`"):
        ctc_losses(logits, *rest)


def certain_log_probs(targets, num_frames, num_labels, sharpness, dtype):
    """Log probabilities of a model that is certain of each transcript, but not of the frames where labels change."""
    logits = torch.zeros(num_frames, len(targets), num_labels)
    places = torch.arange(num_frames) * targets.shape[1] // num_frames
    frames = torch.arange(num_frames)
    last = frames[torch.cat([places[1:] != places[:-1], torch.tensor([True])])]
    following = (places + 1).clamp(max=targets.shape[1] - 1)
    for number, labels in enumerate(targets):
        logits[frames, number, labels[places]] = sharpness
        if number > 0:
            logits[last, number, 0] = sharpness
        if number > 1:
            logits[last, number, labels[following[last]]] = sharpness
    return logits.to(dtype).log_softmax(-1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_models_that_are_certain_are_not_taken_for_logits(dtype):
    lowest = 0.0
    for sharpness, (num_frames, num_targets) in product(
        (5.0, 20.0, 100.0, 10_000.0), ((1, 1), (2, 1), (10, 3), (1000, 300))
    ):
        targets = torch.tensor([1, 2]).repeat(3, num_targets)[:, :num_targets]
        log_probs = certain_log_probs(targets, num_frames, 32, sharpness, dtype)
        losses = ctc_losses(log_probs, targets, [num_frames] * 3, [num_targets] * 3)
        lowest = min(lowest, losses.min().item() / num_frames)
    assert lowest > LOWEST_PER_FRAME / 2


def test_a_batch_without_utterances_has_no_losses():
    logits = torch.zeros(10, 0, 5, requires_grad=True)
    loss = CTCDROLoss(2, step_size=1e-3, smoothing=0.5)(logits, torch.zeros(0, 2, dtype=torch.int64), [], [], [])
    loss.backward()
    assert loss == 0


def test_losses_are_divided_by_frames_or_labels(batch):
    logits, targets, input_lengths, target_lengths = batch
    log_probs = logits.log_softmax(-1)
    plain = ctc_losses(log_probs, targets, input_lengths, target_lengths)
    for normalization, numbers in (("frame", input_lengths), ("label", target_lengths)):
        losses = ctc_losses(log_probs, targets, input_lengths, target_lengths, normalization=normalization)
        torch.testing.assert_close(losses, plain / torch.as_tensor(numbers))
    empty = ctc_losses(log_probs, targets, input_lengths, [0] * len(plain), normalization="label")
    assert empty.isfinite().all()
    with pytest.raises(ValueError, match="`normalization` must be one of none, frame, label; got 'frames'"):
        ctc_losses(log_probs, targets, input_lengths, target_lengths, normalization="frames")


def test_the_loss_counts_characters_without_language_tokens(batch):
    logits, targets, input_lengths, target_lengths = batch
    criterion = CTCDROLoss(2, step_size=1e-3, smoothing=0.5, signal="loss_per_character", num_language_tokens=5)
    criterion(logits.log_softmax(-1), targets, input_lengths, target_lengths, [1] * 5)
    assert criterion.objective.pending[2].tolist() == [0, (8 - 5) + (5 - 5) + (7 - 5)]  # of those that fit
