"""The properties of each method: those that it has hold, those that it lacks fail, and the documentation lists both.

A property is a function that raises an AssertionError if an objective does not have it.
"""

from functools import partial
from pathlib import Path

import pytest
import torch

import ctcdro

NUM_GROUPS = 4
NUM_ROUNDS = 60
METHODS = {
    "`erm`": ctcdro.erm,
    "`group-dro`": partial(ctcdro.group_dro, step_size=1e-3),
    "`ctc-dro`": partial(ctcdro.ctc_dro, step_size=1e-3, smoothing=0.5),
    "`ctc-dro`, loss per character": partial(
        ctcdro.ctc_dro, step_size=1e-3, smoothing=0.5, signal="loss_per_character"
    ),
    "`error-weighted`": ctcdro.error_weighted,
    "`error-weighted`, error rate": partial(ctcdro.error_weighted, signal="error_rate"),
    "`static`": partial(ctcdro.static_weights, weights={"a": 1, "b": 2, "c": 3, "d": 4}),
}
NAMES = ["a", "b", "c", "d"]
# A model with these error rates, in languages with these characters per second, has these losses per batch.
ERROR_RATES = torch.tensor([0.8, 0.3, 0.5, 0.2])
CHARACTERS = torch.tensor([40.0, 120.0, 100.0, 140.0])
BLANK_LOSSES = torch.tensor([9.0, 3.4, 3.7, 3.9]) * CHARACTERS


def train(make, losses, characters=CHARACTERS, error_rates=ERROR_RATES, names=NAMES):
    """Returns the weights after many rounds with the same losses."""
    objective = make(len(losses), group_names=names)
    for _ in range(NUM_ROUNDS):
        for group in torch.randperm(len(losses), generator=torch.Generator().manual_seed(0)).tolist():
            batch = losses[group : group + 1], [group], characters[group : group + 1]
            objective(*batch)
        if objective.needs_error_rates:
            objective.update_error_rates(error_rates)
    return objective.weights


def trained(make, **changes):
    return train(make, **{"losses": 3 * ERROR_RATES * CHARACTERS, **changes})


def assert_follows_the_error(make):
    """A higher error rate always means a higher weight, regardless of characters per second."""
    assert trained(make).argsort().tolist() == ERROR_RATES.argsort().tolist()


def assert_bounded_while_only_blanks_are_predicted(make):
    """While a model predicts only blanks, weights differ by no more than losses per second do."""
    weights = train(make, BLANK_LOSSES, error_rates=torch.ones(NUM_GROUPS))
    assert weights.max() / weights.min() <= 1.01 * BLANK_LOSSES.max() / BLANK_LOSSES.min()


def assert_invariant_to_characters_per_second(make):
    """Twice as many characters per second in one language, each as difficult as before, do not change the weights."""
    factor = torch.tensor([1.0, 2.0, 1.0, 1.0])
    changed = trained(make, losses=3 * ERROR_RATES * CHARACTERS * factor, characters=CHARACTERS * factor)
    torch.testing.assert_close(changed, trained(make), rtol=1e-4, atol=1e-6)


def assert_invariant_to_the_scale_of_losses(make):
    """The same weights if all losses are divided by two, for example by another reduction."""
    changed = trained(make, losses=1.5 * ERROR_RATES * CHARACTERS)
    torch.testing.assert_close(changed, trained(make), rtol=1e-4, atol=1e-6)


def assert_invariant_to_the_order_of_groups(make):
    """Renumbered groups have the same weights."""
    order = torch.tensor([2, 0, 3, 1])
    losses = 3 * ERROR_RATES * CHARACTERS
    names = [NAMES[group] for group in order]
    changed = train(make, losses[order], CHARACTERS[order], ERROR_RATES[order], names)
    torch.testing.assert_close(changed, trained(make)[order], rtol=1e-4, atol=1e-6)


def assert_bounded_below(make):
    """No group loses all its weight, even if one loss is a hundred times as high as the others."""
    losses = torch.tensor([30000.0, 300.0, 300.0, 300.0])
    weights = train(make, losses, torch.full((4,), 100.0), torch.tensor([1.0, 0.01, 0.01, 0.01]))
    assert weights.min() > 1e-3


def assert_needs_no_tuning(make):
    """There is no step size, and there are no weights to choose."""
    assert not {"step_size", "weights"} & make(NUM_GROUPS, group_names=NAMES).settings.keys()


def assert_needs_no_development_data(make):
    assert not make(NUM_GROUPS, group_names=NAMES).needs_error_rates


PROPERTIES = {
    "weights follow the error": assert_follows_the_error,
    "bounded while only blanks are predicted": assert_bounded_while_only_blanks_are_predicted,
    "independent of characters per second": assert_invariant_to_characters_per_second,
    "independent of the scale of losses": assert_invariant_to_the_scale_of_losses,
    "independent of the order of groups": assert_invariant_to_the_order_of_groups,
    "no weight falls to zero": assert_bounded_below,
    "no tuning": assert_needs_no_tuning,
    "no development data": assert_needs_no_development_data,
}
PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "method.md"


def read_table():
    """The table of properties in the documentation: {property: {method: whether it has it}}."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    (start,) = (number for number, line in enumerate(lines) if line.startswith("| property |"))
    end = lines.index("", start)
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in (lines[start], *lines[start + 2 : end])]
    header = rows[0][1:]
    return {name: dict(zip(header, [cell == "yes" for cell in cells], strict=True)) for name, *cells in rows[1:]}


@pytest.mark.parametrize("name", PROPERTIES)
def test_methods_have_the_properties_that_the_documentation_lists(name):
    listed = read_table()[name]
    assert list(listed) == list(METHODS)
    for method, make in METHODS.items():
        if listed[method]:
            PROPERTIES[name](make)
        else:
            with pytest.raises(AssertionError):
                PROPERTIES[name](make)


def test_the_documentation_lists_all_properties():
    assert list(read_table()) == list(PROPERTIES)
