"""Solves linear programs with few rows and many sparse columns: least `costs @ amounts` that meet all demands.

Mehrotra's predictor-corrector method, an interior-point method, solves two systems of linear equations per iteration,
with one equation per row of the program. Some six iterations suffice from a good start, and some twenty without one,
whatever the number of columns. Most of the time is elimination, so rows that have no column in common are eliminated at
once.

The same program has bitwise the same solution on every machine: all ranks must plan the same batches. Therefore,
nothing calls BLAS, whose rounding depends on the CPU and on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float64]
Matrix = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]
Solver = Callable[[Vector], Vector]

MAX_ITERATIONS = 50
PRECISION = 1e-3  # relative, of costs and demands
MIN_PIVOTS = 8  # fewer rows are not eliminated at once
MAX_RELATED = 0.4  # of all rows, to a row that is eliminated with others
SHORT_OF_BOUNDARY = 0.99  # part of the longest possible step


class SparseColumns(NamedTuple):
    """A sparse matrix. Entries of a column in the same row are added."""

    rows: npt.NDArray[np.int64]
    """(entries per column, columns)"""
    entries: Vector
    """(entries per column, columns)"""
    num_rows: int

    def times(self, amounts: Vector) -> Vector:
        return np.bincount(self.rows.ravel(), (self.entries * amounts).ravel(), self.num_rows).astype(np.float64)

    def transposed_times(self, prices: Vector) -> Vector:
        return (self.entries * prices[self.rows]).sum(axis=0)

    def pairs(self) -> tuple[npt.NDArray[np.int64], Vector]:
        """For `squared`: places in one half of the symmetric product, and the products of entries at these places."""
        first, second = np.triu_indices(len(self.rows))
        halves = self.entries[first] * self.entries[second]
        halves[first == second] /= 2
        return (self.rows[first] * self.num_rows + self.rows[second]).ravel(), halves

    def squared(self, pairs: tuple[npt.NDArray[np.int64], Vector], factors: Vector) -> Matrix:
        """(rows, rows) the product columns @ diag(factors) @ columns.T."""
        places, halves = pairs
        half = np.bincount(places, (halves * factors).ravel(), self.num_rows**2).astype(np.float64)
        half = half.reshape(self.num_rows, -1)
        product = half + half.T
        product[np.diag_indices(self.num_rows)] *= 1 + 1e-10  # rows may depend on each other, or be empty
        product[np.diag_indices(self.num_rows)] += 1e-30
        return product


class Iterate(NamedTuple):
    """Amounts of the columns, prices of the demands, and the slacks of the prices; or changes of them."""

    amounts: Vector
    prices: Vector
    slacks: Vector

    @property
    def gap(self) -> float:
        return float((self.amounts * self.slacks).sum())

    def moved(self, change: Iterate, part: float) -> Iterate:
        """Moves amounts and slacks by a part of the longest step that keeps each of them positive."""
        of_amounts = part * longest_step(self.amounts, change.amounts)
        of_prices = part * longest_step(self.slacks, change.slacks)
        return Iterate(
            self.amounts + of_amounts * change.amounts,
            self.prices + of_prices * change.prices,
            self.slacks + of_prices * change.slacks,
        )


def solve(
    columns: SparseColumns, costs: Vector, demands: Vector, start: tuple[Vector, Vector] | None = None
) -> tuple[Vector, Vector]:
    """(columns,) amounts such that `columns.times(amounts)` meets the demands, and (rows,) the prices of the demands.

    Without a start, all costs must be positive.

    Args:
        start: positive amounts, and prices that pay less than its cost for every column. Amounts that meet the demands
            save half of the iterations.

    Example:
        >>> columns = SparseColumns(np.array([[0, 0, 1], [1, 1, 0]]), np.array([[1.0, 1.0, 1.0], [1.0, 0.0, 0.0]]), 2)
        >>> amounts, prices = solve(columns, np.array([1.5, 1.0, 1.0]), np.array([3.0, 2.0]))
        >>> amounts.round(2).tolist(), prices.round(2).tolist()
        ([2.0, 1.0, 0.0], [1.0, 0.5])
    """
    if start is None:
        even = np.full(len(costs), np.abs(demands).sum() / np.abs(columns.entries).sum())
        start = even, np.zeros(len(demands))
    order, stages = stages_of_elimination(columns)
    columns = SparseColumns(np.argsort(order)[columns.rows], columns.entries, columns.num_rows)
    demands, first_prices = demands[order], start[1][order]
    now = Iterate(start[0], first_prices, costs - columns.transposed_times(first_prices))
    pairs = columns.pairs()
    for _ in range(MAX_ITERATIONS):
        missing = demands - columns.times(now.amounts)
        if (
            now.gap <= PRECISION * (costs * now.amounts).sum()
            and np.abs(missing).sum() <= PRECISION * np.abs(demands).sum()
        ):
            break
        equations = solver_of(columns.squared(pairs, now.amounts / now.slacks), stages)
        predicted = _change(columns, demands, equations, now, np.zeros(len(costs)))
        remaining = now.moved(predicted, 1.0).gap / now.gap
        centered = remaining * remaining * remaining * now.gap / len(costs)
        corrected = _change(columns, demands, equations, now, centered - predicted.amounts * predicted.slacks)
        now = now.moved(corrected, SHORT_OF_BOUNDARY)
    return now.amounts, now.prices[np.argsort(order)]


def _change(columns: SparseColumns, demands: Vector, equations: Solver, now: Iterate, products: Vector) -> Iterate:
    """The change that meets the demands, and makes amounts * slacks equal to `products`, to first order."""
    aims = products / now.slacks
    prices = equations(demands - columns.times(aims))
    slacks = -columns.transposed_times(prices)
    return Iterate(aims - now.amounts * (1 + slacks / now.slacks), prices, slacks)


class Stage(NamedTuple):
    """Rows that no column has in common with each other: they are eliminated at once."""

    num_pivots: int
    places: Indices
    """(products,) where each is subtracted from the matrix of the other rows"""
    left: Indices
    right: Indices
    """(products,) the entries of (other rows, pivots) that are multiplied"""


def stages_of_elimination(columns: SparseColumns) -> tuple[Indices, list[Stage]]:
    """An order of the rows, and the stages in which the first of them are eliminated.

    Most pairs of rows have no column in common. Without the stages, elimination takes twice as long.
    """
    places, halves = columns.pairs()
    related = np.zeros((columns.num_rows, columns.num_rows), dtype=bool)
    related.ravel()[places[halves.ravel() != 0]] = True
    related |= related.T
    order, products = np.arange(columns.num_rows), []
    while len(pivots := unrelated_rows(related)) >= MIN_PIVOTS:
        others = np.delete(np.arange(len(related)), pivots)
        is_entry = related[np.ix_(others, pivots)]
        first, second, pivot = np.nonzero(is_entry[:, None] & is_entry)
        left = order[-len(related) :]  # later stages change their order, but not that of the pivots
        products.append((len(pivots), left[others[first]], left[others[second]], pivot))
        left[:] = left[np.concatenate([pivots, others])]
        related = related[np.ix_(others, others)]
        related[first, second] = True
    ranks, stages, done = np.argsort(order), [], 0
    for num_pivots, first, second, pivot in products:
        done += num_pivots
        first, second, num_others = ranks[first] - done, ranks[second] - done, len(order) - done
        stages.append(
            Stage(num_pivots, first * num_others + second, first * num_pivots + pivot, second * num_pivots + pivot)
        )
    return order, stages


def unrelated_rows(related: npt.NDArray[np.bool_]) -> Indices:
    """Rows of which no two are related, those with the fewest relations first."""
    neighbors = [int.from_bytes(row.tobytes(), "little") for row in np.packbits(related, axis=1, bitorder="little")]
    num_relations = related.sum(axis=1)
    sparse = np.count_nonzero(num_relations <= MAX_RELATED * len(related))
    chosen, excluded = [], 0
    for row in np.argsort(num_relations, kind="stable")[:sparse].tolist():
        if not excluded >> row & 1:
            chosen.append(row)
            excluded |= neighbors[row]
    return np.array(chosen, dtype=np.int64)


def solver_of(matrix: Matrix, stages: Sequence[Stage] = ()) -> Solver:
    """Solves equations with a symmetric, positive definite matrix."""
    if not stages:
        lower, pivots = inverse_factors(matrix)
        return lambda values: (lower * ((lower * values).sum(axis=1) / pivots)[:, None]).sum(axis=0)
    num_pivots, places, left, right = stages[0]
    pivots, entries = matrix.diagonal()[:num_pivots], matrix[num_pivots:, :num_pivots]
    factors = entries / pivots
    changes = np.bincount(places, factors.ravel()[left] * entries.ravel()[right], len(entries) ** 2)
    solve_others = solver_of(matrix[num_pivots:, num_pivots:] - changes.reshape(len(entries), -1), stages[1:])

    def solve_all(values: Vector) -> Vector:
        others = solve_others(values[num_pivots:] - (factors * values[:num_pivots]).sum(axis=1))
        return np.concatenate([values[:num_pivots] / pivots - (factors * others[:, None]).sum(axis=0), others])

    return solve_all


def inverse_factors(matrix: Matrix) -> tuple[Matrix, Vector]:
    """A lower triangular matrix and a vector for a symmetric, positive definite matrix, by Gaussian elimination.

    The inverse is lower.T @ diag(1 / vector) @ lower.
    """
    reduced = matrix.copy()
    scratch = np.empty_like(matrix)
    for place in range(len(matrix) - 1):
        below, changes = reduced[place + 1 :], scratch[place + 1 :]
        factors = below[:, place] / reduced[place, place]
        np.multiply(factors[:, None], reduced[place], out=changes)
        below -= changes
        below[:, place] = -factors
    pivots = reduced.diagonal().copy()
    lower = np.tril(reduced)
    lower[np.diag_indices(len(lower))] = 1.0
    return lower, pivots


def longest_step(values: Vector, change: Vector) -> float:
    """The part of a change, at most all of it, that keeps positive values from falling below zero."""
    return float(1 / max(1.0, np.max(-change / values)))
