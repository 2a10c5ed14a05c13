"""Every objective, random batches, and a loop over them."""

import math
import random
from functools import partial

import torch

import ctcdro

NUM_GROUPS = 4
OBJECTIVES = {
    "erm": ctcdro.erm,
    "group_dro": partial(ctcdro.group_dro, step_size=1e-3),
    "ctc_dro": partial(ctcdro.ctc_dro, step_size=1e-3, smoothing=0.5),
    "ctc_dro_unsmoothed, mean": partial(ctcdro.ctc_dro_unsmoothed, step_size=1e-4, reduction="mean"),
    "error_weighted, held out": partial(ctcdro.error_weighted, signal="error_rate"),
}
WITH_CHARACTERS = {
    "ctc_dro, per character, late": partial(
        ctcdro.ctc_dro, step_size=1e-3, smoothing=0.5, signal="loss_per_character", warmup_batches=8
    ),
    "error_weighted": ctcdro.error_weighted,
}


def draw_batches(num_batches, *, mixed, num_groups=NUM_GROUPS, seed=0):
    """Batches as lists of (loss, group); losses differ by group as those of languages do."""
    rng = random.Random(seed)
    batches = []
    for _ in range(num_batches):
        group = rng.randrange(num_groups)
        groups = [rng.randrange(num_groups) if mixed else group for _ in range(rng.randint(1, 8))]
        batches.append([(rng.lognormvariate(3.0 + 0.4 * g, 0.5), g) for g in groups])
    return batches


def tensors(batch):
    """Losses, groups and numbers of characters; the loss per character differs by group, too."""
    losses, groups = zip(*batch, strict=True)
    characters = [round(loss * (1 + group) + 1) for loss, group in batch]
    return torch.tensor(losses), torch.tensor(groups), torch.tensor(characters)


def run(objective, batches):
    """The weights and the loss after every batch."""
    for batch in batches:
        loss = objective(*tensors(batch))
        yield objective.weights, loss


def one_hot(groups, num_groups=NUM_GROUPS):
    return torch.nn.functional.one_hot(groups, num_groups).float()


def assert_rows_equal_numbers(make, num_batches, seed=0):
    """Rows with a single 1 give the loss, the gradient and the state of group numbers, bit for bit, in every batch.

    Every seventh batch has a loss of infinity.
    """
    by_number, by_row = make(NUM_GROUPS), make(NUM_GROUPS)
    for number, batch in enumerate(draw_batches(num_batches, mixed=True, seed=seed)):
        if by_number.needs_error_rates and number % 20 == 0:
            for objective in (by_number, by_row):
                objective.update_error_rates([0.2 + number % 7 / 10, 0.1, 0.3, 0.5])
        losses, groups, characters = tensors(batch)
        if number % 7 == 0 and len(losses) > 1:
            losses[number % len(losses)] = math.inf
        leaves = [losses.clone().requires_grad_() for _ in range(2)]
        expected, value = by_number(leaves[0], groups, characters), by_row(leaves[1], one_hot(groups), characters)
        (expected + value).backward()
        assert torch.equal(value, expected), number
        assert torch.equal(leaves[1].grad, leaves[0].grad), number
        states = by_number.state_dict(), by_row.state_dict()
        assert all(torch.equal(states[0][key], states[1][key]) for key in states[0]), number
