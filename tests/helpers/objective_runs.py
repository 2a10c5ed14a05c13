"""Every objective, random batches, and a loop over them."""

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
