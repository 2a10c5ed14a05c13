"""Solves linear programs with few rows and many sparse columns: least `costs @ amounts` that meet all demands.

Mehrotra's predictor-corrector method, an interior-point method, solves two systems of linear equations per iteration.
Some twenty iterations suffice, whatever the number of columns. The systems have one equation per row of the program.

The same program has bitwise the same solution on every machine: all ranks must plan the same batches. Therefore,
nothing calls BLAS, whose rounding depends on the CPU and on the number of threads.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float64]

MAX_ITERATIONS = 50
PRECISION = 1e-4  # relative, of costs and demands
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

    def squared(self, factors: Vector) -> npt.NDArray[np.float64]:
        """(rows, rows) the product columns @ diag(factors) @ columns.T."""
        places = self.rows[:, None] * self.num_rows + self.rows
        values = self.entries[:, None] * self.entries * factors
        product = np.bincount(places.ravel(), values.ravel(), self.num_rows**2).astype(np.float64)
        product = product.reshape(self.num_rows, -1)
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


def solve(columns: SparseColumns, costs: Vector, demands: Vector) -> tuple[Vector, Vector]:
    """(columns,) amounts such that `columns.times(amounts)` meets the demands, and (rows,) the prices of the demands.

    All costs must be positive.

    Example:
        >>> columns = SparseColumns(np.array([[0, 0, 1], [1, 1, 0]]), np.array([[1.0, 1.0, 1.0], [1.0, 0.0, 0.0]]), 2)
        >>> amounts, prices = solve(columns, np.array([1.5, 1.0, 1.0]), np.array([3.0, 2.0]))
        >>> amounts.round(2).tolist(), prices.round(2).tolist()
        ([2.0, 1.0, 0.0], [1.0, 0.5])
    """
    amounts = np.full(len(costs), np.abs(demands).sum() / np.abs(columns.entries).sum())
    now = Iterate(amounts, np.zeros(len(demands)), costs.copy())
    for _ in range(MAX_ITERATIONS):
        missing = demands - columns.times(now.amounts)
        if (
            now.gap <= PRECISION * (costs * now.amounts).sum()
            and np.abs(missing).sum() <= PRECISION * np.abs(demands).sum()
        ):
            break
        inverse = inverse_of(columns.squared(now.amounts / now.slacks))
        predicted = _change(columns, costs, missing, inverse, now, -now.amounts * now.slacks)
        remaining = now.moved(predicted, 1.0).gap / now.gap
        centered = remaining * remaining * remaining * now.gap / len(costs) - now.amounts * now.slacks
        corrected = _change(columns, costs, missing, inverse, now, centered - predicted.amounts * predicted.slacks)
        now = now.moved(corrected, SHORT_OF_BOUNDARY)
    return now.amounts, now.prices


def _change(
    columns: SparseColumns, costs: Vector, missing: Vector, inverse: npt.NDArray, now: Iterate, products: Vector
) -> Iterate:
    """The change that meets the demands and the costs, and changes amounts * slacks by `products`, to first order."""
    excess = costs - columns.transposed_times(now.prices) - now.slacks
    prices = (inverse * (missing + columns.times((now.amounts * excess - products) / now.slacks))).sum(axis=1)
    slacks = excess - columns.transposed_times(prices)
    return Iterate((products - now.amounts * slacks) / now.slacks, prices, slacks)


def inverse_of(matrix: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The inverse of a symmetric, positive definite matrix, by Gauss-Jordan elimination."""
    inverse = matrix.copy()
    for place in range(len(inverse)):
        column = inverse[:, place].copy()
        pivot = column[place]
        row = inverse[place] / pivot
        inverse -= column[:, None] * row
        inverse[:, place] = -column / pivot
        inverse[place] = row
        inverse[place, place] = 1 / pivot
    return inverse


def longest_step(values: Vector, change: Vector) -> float:
    """The part of a change, at most all of it, that keeps positive values from falling below zero."""
    return float(1 / max(1.0, np.max(-change / values)))
