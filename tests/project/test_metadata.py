"""What the project says about itself in several places agrees."""

import re
import tomllib
from pathlib import Path

import yaml

import ctcdro

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
WORKFLOW = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))


def test_the_version_is_that_of_the_citation_and_of_the_newest_entry_of_the_changelog():
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)[1]
    assert ctcdro.__version__ == CITATION["version"] == newest


def test_the_citation_names_the_authors_and_the_paper_of_the_package():
    assert [author["name"] for author in PROJECT["authors"]] == [author["name"] for author in CITATION["authors"]]
    assert CITATION["license"] == PROJECT["license"]
    paper = CITATION["preferred-citation"]
    assert paper["url"] == PROJECT["urls"]["Paper"]
    assert paper["identifiers"][0]["value"].removeprefix("arXiv:") == paper["url"].rpartition("/")[2]


def test_ci_runs_targets_of_make_on_the_supported_versions_of_python():
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    commands = [step["run"] for job in WORKFLOW["jobs"].values() for step in job["steps"] if "run" in step]
    called = {command.removeprefix("make ") for command in commands if command.startswith("make ")}
    assert {"docs", "lint", "test", "test-package"} == called <= targets
    classified = [name.rpartition(" ")[2] for name in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", name)]
    assert WORKFLOW["jobs"]["test"]["strategy"]["matrix"]["python-version"] == classified
