"""What Optuna asks for, and that it asks for the same again."""

import math

from ctcdro.sweeps.sweep_config import parse_sweep
from ctcdro.sweeps.sweep_search import ROUND, OptunaSearch

CONFIG = parse_sweep({"run": {"dataset": "set1"}, "search": "optuna", "trials": 11})


def value(setting):
    """Best at a step size of 2e-4."""
    return 0.5 if setting.step_size is None else abs(math.log(setting.step_size / 2e-4))


def searched(config):
    search, rounds = OptunaSearch(config), []
    while asked := search.ask():
        rounds.append(asked)
        search.tell({setting: value(setting) for setting in asked})
    return rounds


def test_a_search_begun_again_asks_for_the_same():
    assert searched(CONFIG) == searched(CONFIG)


def test_every_objective_has_its_trials_and_the_baseline_one():
    rounds = searched(CONFIG)
    asked = [setting for one in rounds for setting in one]
    numbers = {name: sum(one.objective == name for one in asked) for name in CONFIG.objectives}
    assert numbers == {"erm": 1, "group-dro": 11, "ctc-dro": 11}
    assert [len(one) for one in rounds] == [1 + 2 * ROUND, 2 * ROUND, 2 * (11 - 2 * ROUND)]


def test_values_are_between_the_smallest_and_the_largest_and_few_digits():
    for setting in (setting for one in searched(CONFIG) for setting in one if setting.objective == "ctc-dro"):
        assert 1e-4 <= setting.step_size <= 1e-3
        assert 0.1 <= setting.smoothing <= 1.0
        assert len(setting.name) <= len("ctc-dro-0.000123-0.123")


def test_it_learns_from_what_it_is_told():
    config = parse_sweep(
        {
            "run": {"dataset": "a"},
            "objectives": ["group-dro"],
            "search": "optuna",
            "trials": 32,
            "step_sizes": [1e-6, 1],
        }
    )
    asked = [setting for one in searched(config) for setting in one]
    first, last = (sum(map(value, some)) / len(some) for some in (asked[:ROUND], asked[-2 * ROUND :]))
    assert last < first / 2
