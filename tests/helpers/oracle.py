"""Algorithms 1 and 2 of the paper and error-weighted training, in double precision and plain Python.

Written from the definitions, independently of the package. A batch is a list of (loss, group). The functions
`soft_…` are for utterances in several groups: a batch is a list of (loss, row of shares, characters), and they also
yield the gradient.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import repeat
from math import exp, fsum

Batch = list[tuple[float, int]]
SoftBatch = list[tuple[float, list[float], int]]


def algorithm_1(batches: Iterable[Batch], num_groups: int, step_size: float) -> Iterator[tuple[list[float], float]]:
    """Group DRO: yields the weights and the loss after every batch."""
    q = [1 / num_groups] * num_groups
    for batch in batches:
        means = {}
        for g in range(num_groups):
            losses = [loss for loss, group in batch if group == g]
            if losses:
                means[g] = sum(losses) / len(losses)
        q = [q[g] * exp(step_size * means.get(g, 0.0)) for g in range(num_groups)]
        q = [x / sum(q) for x in q]
        yield q, sum(q[g] * means[g] for g in means)


def algorithm_2(
    batches: Iterable[Batch],
    num_groups: int,
    exponent: Callable[[float, float], float],
    characters: Iterable[list[int]] | None = None,
) -> Iterator[tuple[list[float], float]]:
    """CTC-DRO: yields the weights and the loss after every batch. `exponent` gives that of line 14 from (loss, q).

    With the characters of each utterance, weights follow the loss per character, times the mean over groups of the
    characters per batch.
    """
    q = [1 / num_groups] * num_groups
    gr_losses: list[list[float]] = [[] for _ in range(num_groups)]
    gr_characters: list[list[float]] = [[] for _ in range(num_groups)]
    for batch, sizes in zip(batches, characters or repeat(None), strict=False):
        for g in sorted({group for _, group in batch}):
            gr_losses[g].append(sum(loss for loss, group in batch if group == g))
            if sizes is not None:
                gr_characters[g].append(sum(size for size, (_, group) in zip(sizes, batch, strict=True) if group == g))
        if all(gr_losses):
            means = [sum(losses) / len(losses) for losses in gr_losses]
            if sizes is not None:
                rates = [sum(numbers) / len(numbers) for numbers in gr_characters]
                means = [mean / rate * sum(rates) / num_groups for mean, rate in zip(means, rates, strict=True)]
                gr_characters = [[] for _ in range(num_groups)]
            q = [q[g] * exp(exponent(means[g], q[g])) for g in range(num_groups)]
            q = [x / sum(q) for x in q]
            gr_losses = [[] for _ in range(num_groups)]
        yield q, num_groups * sum(q[group] * loss for loss, group in batch)


def error_weighting(
    batches: Iterable[Batch], num_groups: int, characters: Iterable[list[int]], power: float
) -> Iterator[tuple[list[float], float]]:
    """Weights in proportion to a power of the estimated error rate: yields the weights and the loss of every batch."""
    q = [1 / num_groups] * num_groups
    averages = [1.0] * num_groups
    seen: list[list[tuple[float, int]]] = [[] for _ in range(num_groups)]
    num_batches = [0] * num_groups
    for batch, sizes in zip(batches, characters, strict=True):
        for (loss, group), size in zip(batch, sizes, strict=True):
            seen[group].append((loss, size))
        for group in {group for _, group in batch}:
            num_batches[group] += 1
        if all(seen):
            losses = [sum(loss for loss, _ in pairs) for pairs in seen]
            for g, pairs in enumerate(seen):
                nats = losses[g] / sum(size for _, size in pairs)
                averages[g] = 0.95 * averages[g] + 0.05 * min(1.0, nats / 3)
            if min(averages) > 0.97:
                q = [loss / number for loss, number in zip(losses, num_batches, strict=True)]
            else:
                q = [max(0.05 * max(averages), average) ** power for average in averages]
            q = [x / sum(q) for x in q]
            seen = [[] for _ in range(num_groups)]
            num_batches = [0] * num_groups
        yield q, num_groups * sum(q[group] * loss for loss, group in batch)


def soft_algorithm_1(
    batches: Iterable[SoftBatch], num_groups: int, step_size: float
) -> Iterator[tuple[list[float], float, list[float]]]:
    """Group DRO with shares: the mean loss of a group is weighted by shares."""
    q = [1 / num_groups] * num_groups
    for batch in batches:
        mass = [fsum(row[g] for _, row, _ in batch) for g in range(num_groups)]
        means = [fsum(row[g] * loss for loss, row, _ in batch) / mass[g] if mass[g] else 0.0 for g in range(num_groups)]
        q = _normalized([x * exp(step_size * mean) for x, mean in zip(q, means, strict=True)])
        gradient = [sum(q[g] * row[g] / mass[g] for g in range(num_groups) if row[g]) for _, row, _ in batch]
        yield q, sum(x * mean for x, mean in zip(q, means, strict=True)), gradient


def soft_algorithm_2(
    batches: Iterable[SoftBatch],
    num_groups: int,
    exponent: Callable[[float, float], float],
    *,
    per_character: bool = False,
) -> Iterator[tuple[list[float], float, list[float]]]:
    """CTC-DRO with shares, for the loss per batch, or per character as in `algorithm_2`."""

    def update(q: list[float], losses: list[float], characters: list[float], units: list[float]) -> list[float]:
        means = [loss / unit for loss, unit in zip(losses, units, strict=True)]
        if per_character:
            rates = [number / unit for number, unit in zip(characters, units, strict=True)]
            means = [mean / rate * sum(rates) / num_groups for mean, rate in zip(means, rates, strict=True)]
        return [x * exp(exponent(mean, x)) for x, mean in zip(q, means, strict=True)]

    return _soft_rounds(batches, num_groups, update)


def soft_error_weighting(
    batches: Iterable[SoftBatch], num_groups: int, power: float
) -> Iterator[tuple[list[float], float, list[float]]]:
    """`error_weighting` with shares."""
    averages = [1.0] * num_groups

    def update(q: list[float], losses: list[float], characters: list[float], units: list[float]) -> list[float]:
        for g in range(num_groups):
            averages[g] = 0.95 * averages[g] + 0.05 * min(1.0, losses[g] / characters[g] / 3)
        if min(averages) > 0.97:
            return [loss / unit for loss, unit in zip(losses, units, strict=True)]
        return [max(0.05 * max(averages), average) ** power for average in averages]

    return _soft_rounds(batches, num_groups, update)


def _soft_rounds(
    batches: Iterable[SoftBatch], num_groups: int, update: Callable[..., list[float]]
) -> Iterator[tuple[list[float], float, list[float]]]:
    """Sums losses, characters and units per group, times shares, and updates once all groups have one unit.

    The utterances of a batch with the same largest group are one unit, divided among groups by their mean shares.
    """
    q = [1 / num_groups] * num_groups
    losses_of, characters_of, units_of = ([0.0] * num_groups for _ in range(3))
    for batch in batches:
        for largest in range(num_groups):
            members = [one for one in batch if one[1].index(max(one[1])) == largest]
            for g in range(num_groups):
                losses_of[g] += fsum(row[g] * loss for loss, row, _ in members)
                characters_of[g] += fsum(row[g] * number for _, row, number in members)
                units_of[g] += fsum(row[g] for _, row, _ in members) / max(1, len(members))
        if min(units_of) >= 0.999:
            q = _normalized(update(q, losses_of, characters_of, units_of))
            losses_of, characters_of, units_of = ([0.0] * num_groups for _ in range(3))
        gradient = [num_groups * fsum(m * x for m, x in zip(row, q, strict=True)) for _, row, _ in batch]
        yield q, fsum(g * loss for g, (loss, _, _) in zip(gradient, batch, strict=True)), gradient


def _normalized(weights: list[float]) -> list[float]:
    return [weight / sum(weights) for weight in weights]


def maximizer(losses: list[float], smoothing: float) -> list[float]:
    """The weights on the simplex that maximize sum_g log(q_g + smoothing) * losses_g, by bisection on the multiplier.

    From the Karush-Kuhn-Tucker conditions: q_g = max(0, losses_g / multiplier - smoothing).
    """
    low, high = 1e-12, sum(losses) / smoothing
    for _ in range(500):
        multiplier = (low + high) / 2
        total = sum(max(0.0, loss / multiplier - smoothing) for loss in losses)
        low, high = (multiplier, high) if total > 1 else (low, multiplier)
    return [max(0.0, loss / multiplier - smoothing) for loss in losses]
