"""`ctcdro config` and `ctcdro recipes`."""

import io

import pytest
import yaml
from in_process import run

from ctcdro.recipes import list_recipes
from ctcdro.runs.config import read_config


def test_a_new_configuration_is_complete_and_valid(tmp_path, monkeypatch):
    printed = run("config", "init")
    assert "num_batches: 48000" in printed.stdout
    monkeypatch.setattr("sys.stdin", io.StringIO(printed.stdout))
    checked = run("config", "check", "-")
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "stdin: valid\n", "")
    written = run("config", "init", "--out", tmp_path / "run.yaml")
    assert written.stdout == f"Configuration: {tmp_path / 'run.yaml'}\n"
    assert (tmp_path / "run.yaml").read_text(encoding="utf-8") == printed.stdout


def test_show_prints_what_a_run_would_use(tmp_path):
    (tmp_path / "run.yaml").write_text("dataset: data\nobjective: {name: erm}\n")
    shown = run("config", "show", tmp_path / "run.yaml", "--set", "seed=7").stdout
    assert yaml.safe_load(shown) == read_config(tmp_path / "run.yaml", ["seed=7"]).model_dump(mode="json")
    assert yaml.safe_load(shown)["dataset"] == str(tmp_path / "data")


def test_show_prints_a_sweep(tmp_path):
    (tmp_path / "sweep.yaml").write_text("run: {dataset: data}\nseeds: [1, 2]\n")
    shown = yaml.safe_load(run("config", "show", tmp_path / "sweep.yaml").stdout)
    assert (shown["seeds"], shown["run"]["dataset"]) == ([1, 2], str(tmp_path / "data"))


@pytest.mark.parametrize(
    ("content", "problems"),
    [
        ("dataset: d\nsede: 1\nseed: -1\n", ["sede: unknown key. Did you mean seed?", "seed: "]),
        ("run: {dataset: d}\nseeds: []\n", ["seeds: "]),
        ("objective: {name: erm}\n", ["dataset: "]),
        ("a: [\n", ["not valid YAML: "]),
    ],
)
def test_every_problem_gets_a_line(tmp_path, content, problems):
    (tmp_path / "a.yaml").write_text(content)
    done = run("config", "check", tmp_path / "a.yaml")
    assert done.returncode == 1
    assert done.stderr == ""
    found = sorted(done.stdout.splitlines())
    assert len(found) == len(problems)
    assert all(
        line.startswith(f"{tmp_path / 'a.yaml'}: {problem}") for line, problem in zip(found, problems, strict=True)
    )


@pytest.mark.parametrize(("content", "key"), [("{}", ""), ("run: {}", "run.")])
def test_a_number_of_batches_that_is_rounded_gets_a_line(tmp_path, content, key):
    settings = "{dataset: d, training: {num_batches: 50}, optimizer: {batches_per_step: 16}}"
    (tmp_path / "a.yaml").write_text(content.format(settings))
    rounded, valid = run("config", "check", "a.yaml", cwd=tmp_path).stdout.splitlines()
    words = "is rounded down to 48, a multiple of `optimizer.batches_per_step`, 16"
    assert (rounded, valid) == (f"a.yaml: {key}training.num_batches: 50 {words}", "a.yaml: valid")


def test_all_recipes_are_listed_with_a_line_about_each():
    lines = run("recipes", "list").stdout.splitlines()
    assert [line.split()[0] for line in lines] == [recipe.name for recipe in list_recipes()]
    assert all(line.endswith(".") and len(line.split()) > 4 for line in lines)


def test_a_recipe_is_copied_under_its_name_or_another(tmp_path):
    assert run("recipes", "copy", "paper/set1", cwd=tmp_path).stdout == "Recipe: set1.yaml\n"
    assert run("recipes", "copy", "paper/set1", "--out", "a.yaml", cwd=tmp_path).returncode == 0
    assert (tmp_path / "a.yaml").read_bytes() == (tmp_path / "set1.yaml").read_bytes()
    again = run("recipes", "copy", "paper/set1", cwd=tmp_path)
    assert (again.returncode, again.stderr) == (2, "ctcdro: set1.yaml already exists. Choose another --out.\n")
