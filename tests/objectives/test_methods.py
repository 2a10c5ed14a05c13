"""The registry of methods: entries agree with the functions they name, and with each other."""

import inspect
import subprocess
import sys
from importlib import import_module

import pytest
import torch

import ctcdro
from ctcdro.objectives.methods import METHODS, all_settings
from ctcdro.objectives.signals import SignalName

REQUIRED = {"weights": {"ces": 1, "cmn": 2.5}}  # settings without a default that works


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_a_method_creates_its_objective_from_the_defaults_of_its_settings(method):
    defaults = {name: setting.default for name, setting in all_settings().items()} | REQUIRED
    objective = method.create(2, defaults, group_names=["ces", "cmn"])
    assert objective(torch.tensor([3.0, 4.0]), torch.tensor([0, 1]), torch.tensor([2, 3])).isfinite()
    assert objective.group_names == ["ces", "cmn"]


def test_every_public_objective_is_a_method_under_its_own_name():
    factories = {method.factory.split(".")[1]: name for name, method in METHODS.items()}
    names = {**{name: name.replace("-", "_") for name in METHODS}, "static": "static_weights"}
    assert factories == {function: name for name, function in names.items()}
    assert set(factories) < set(ctcdro.__all__)


def test_settings_are_arguments_that_are_rejected_if_misspelled():
    for method in METHODS.values():
        module, name = method.factory.split(".")
        factory = getattr(import_module(f"ctcdro.objectives.{module}"), name)
        explicit = {
            parameter.name
            for parameter in inspect.signature(factory).parameters.values()
            if parameter.kind is inspect.Parameter.KEYWORD_ONLY
        }
        assert explicit <= set(method.arguments) <= {setting.name for setting in method.settings}
        defaults = {setting.name: setting.default for setting in method.settings if setting.default}
        required = {"weights": [1, 2]} if method.takes("weights") else {}
        with pytest.raises(TypeError, match="stepsize"):
            factory(2, **defaults, **required, stepsize=1)


def test_every_signal_belongs_to_a_method_that_accepts_it():
    assert {signal for method in METHODS.values() for signal in method.signals} == set(SignalName.__args__)
    for method in METHODS.values():
        assert bool(method.signals) == method.takes("signal")
        for signal in method.signals:
            settings = {setting.name: setting.default for setting in method.settings} | {"signal": signal}
            assert method.create(2, settings).settings["signal"] == signal
        if method.signals:
            defaults = {setting.name: setting.default for setting in method.settings}
            assert method.create(2, defaults).settings["signal"] == method.signals[0]


def test_the_registry_does_not_import_torch():
    program = "import ctcdro.objectives.methods, sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0
