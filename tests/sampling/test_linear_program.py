"""The solver of small linear programs, compared with that of scipy, and that its result does not depend on BLAS."""

import ast
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import linprog

import ctcdro.sampling
from ctcdro.sampling.linear_program import SparseColumns, inverse_factors, solve, solver_of, stages_of_elimination

# What calls BLAS or LAPACK, whose rounding depends on the CPU and on the number of threads.
BLAS = {"linalg", "dot", "vdot", "inner", "matmul", "tensordot", "einsum"}


@pytest.mark.parametrize("seed", range(5))
def test_amounts_meet_the_demands_at_the_least_cost(seed):
    rng = np.random.default_rng(seed)
    num_rows, num_columns = 12, 80
    rows = np.hstack([np.tile(np.arange(num_rows), (3, 1)), rng.integers(num_rows, size=(3, num_columns))])
    entries = np.hstack([np.eye(3)[:1].T * np.ones(num_rows), rng.integers(0, 4, (3, num_columns)) + 0.0])
    costs, demands = rng.uniform(1, 3, num_rows + num_columns), rng.uniform(10, 1000, num_rows)
    amounts, prices = solve(SparseColumns(rows, entries, num_rows), costs, demands)
    dense = np.zeros((num_rows, num_rows + num_columns))
    np.add.at(dense, (rows, np.arange(num_rows + num_columns)), entries)
    best = linprog(costs, A_eq=dense, b_eq=demands, method="highs")
    assert amounts.min() >= 0
    assert dense @ amounts == pytest.approx(demands, rel=1e-3)
    assert costs @ amounts == pytest.approx(best.fun, rel=1e-3)
    assert prices @ demands == pytest.approx(best.fun, rel=1e-3)
    assert (prices @ dense <= costs + 1e-3).all()


def test_a_row_without_entries_is_allowed():
    columns = SparseColumns(np.array([[0, 0]]), np.array([[1.0, 2.0]]), num_rows=2)
    amounts, _ = solve(columns, np.array([1.0, 3.0]), np.array([4.0, 0.0]))
    assert amounts == pytest.approx([4.0, 0.0], abs=1e-2)


def test_a_start_only_saves_time():
    columns = SparseColumns(np.array([[0, 0, 1], [1, 1, 0]]), np.array([[1.0, 1.0, 1.0], [1.0, 0.0, 0.0]]), 2)
    program = columns, np.array([1.5, 1.0, 1.0]), np.array([3.0, 2.0])
    started = solve(*program, (np.array([1.0, 2.0, 1.0]), np.array([0.6, 0.6])))
    for found, expected in zip(started, solve(*program), strict=True):
        assert found == pytest.approx(expected, abs=1e-2)


def test_the_inverse_is_that_of_numpy():
    columns = np.random.default_rng(0).normal(size=(30, 40))
    matrix = columns @ columns.T
    lower, pivots = inverse_factors(matrix)
    assert lower.T @ (lower / pivots[:, None]) == pytest.approx(np.linalg.inv(matrix))


@pytest.mark.parametrize("num_columns", [10, 100, 2000])
def test_elimination_in_stages_solves_the_same_equations(num_columns):
    rng = np.random.default_rng(num_columns)
    columns = SparseColumns(rng.integers(60, size=(3, num_columns)), rng.uniform(-1, 1, (3, num_columns)), 60)
    order, stages = stages_of_elimination(columns)
    assert sorted(order) == list(range(60))
    assert bool(stages) == (num_columns < 2000)
    matrix = columns.squared(columns.pairs(), rng.uniform(1, 2, num_columns)) + np.eye(60)
    values = rng.normal(size=60)
    solution = solver_of(matrix[np.ix_(order, order)], stages)(values[order])
    assert solution == pytest.approx(np.linalg.solve(matrix, values)[order])


@pytest.mark.parametrize("path", sorted(Path(ctcdro.sampling.__file__).parent.glob("*.py")), ids=lambda path: path.stem)
def test_no_plan_depends_on_the_rounding_of_blas(path):
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    assert not [node.lineno for node in nodes if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult)]
    assert not [node.lineno for node in nodes if isinstance(node, ast.Attribute) and node.attr in BLAS]
