"""The description of software and hardware for bug reports."""

import tomllib
from pathlib import Path

import torch
from in_process import run

import ctcdro
from ctcdro.runtime.environment import extras, installed_versions

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]


def test_the_command_prints_versions_hardware_and_extras(monkeypatch):
    monkeypatch.setenv("CTCDRO_CPU_BFLOAT16", "works")
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA", raising=False)
    lines = run("env").stdout.splitlines()
    facts = dict(line.split("  ", 1) for line in lines)
    facts = {title: fact.strip() for title, fact in facts.items()}
    assert facts["ctcdro"] == ctcdro.__version__
    assert facts["torch"] == installed_versions(["torch"])["torch"]
    assert facts["bfloat16 on the CPU"] == "works"
    assert facts["GPUs"].startswith("none (") == (torch.cuda.device_count() == 0)
    assert "train" in facts["Installed extras"].split(", ")
    assert {"Python", "OS", "CPU", "CPU cores", "Memory", "Missing extras"} <= facts.keys()


def test_extras_are_those_of_the_project_with_the_extras_in_them():
    assert extras().keys() == PROJECT["optional-dependencies"].keys() - {"dev", "docs"}
    assert {"submitit", "accelerate", "typer"} <= extras()["sweep"]
    assert {"espnet", "typer"} <= extras()["espnet"]
    assert not [name for packages in extras().values() for name in packages if "ctcdro" in name]


def test_packages_that_are_not_installed_have_no_version():
    assert installed_versions(["no-such-package", "torch"]).keys() == {"torch"}
