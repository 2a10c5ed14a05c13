"""The documentation: pages, links, commands and options exist, and the Python on the pages runs."""

import doctest
import importlib
import importlib.util
import re
import shlex
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import yaml
from layouts import write_audio

import ctcdro
from ctcdro import Manifest
from ctcdro.sweeps.config import parse_sweep

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
READ_BY_PEOPLE = [*PAGES, *(ROOT / name for name in ("README.md", "CONTRIBUTING.md"))]
SITE = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))


def text_of(page):
    return page.read_text(encoding="utf-8")


def fences(page, language):
    """Blocks of code on a page; those in no language are commands."""
    found = re.findall(r"^```(\w*)\n(.*?)^```$", text_of(page), flags=re.DOTALL | re.MULTILINE)
    return [code for name, code in found if name == language]


def prose(page):
    return re.sub(r"^```.*?^```$", "", text_of(page), flags=re.DOTALL | re.MULTILINE)


def anchors(page):
    """The anchors of a page's headings, as Markdown makes them of their words."""
    headings = re.findall(r"^#+ (.*)$", prose(page), flags=re.MULTILINE)
    return {re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", heading.lower()).strip()) for heading in headings}


def named_in_nav(entry):
    if isinstance(entry, str):
        return [entry]
    return [page for part in (entry.values() if isinstance(entry, dict) else entry) for page in named_in_nav(part)]


def test_the_pages_of_the_site_are_all_there_are():
    named = named_in_nav(SITE["nav"])
    assert len(named) == len(set(named))
    assert set(named) == {page.relative_to(DOCS).as_posix() for page in PAGES}


def is_valid_link(page, target):
    path, _, anchor = target.partition("#")
    file = (page.parent / path).resolve() if path else page
    if not file.exists():
        return False
    if anchor.startswith("ctcdro."):  # on an API page
        return is_defined(anchor)
    return not anchor or anchor in anchors(file)


def test_links_lead_somewhere():
    links = [(page, target) for page in READ_BY_PEOPLE for target in re.findall(r"\]\(([^()\s]+)\)", prose(page))]
    local = [(page, target) for page, target in links if not target.startswith("https://")]
    assert len(local) > 100
    assert [f"{page}: {target}" for page, target in local if not is_valid_link(page, target)] == []


def test_python_on_pages_is_python():
    for page in READ_BY_PEOPLE:
        for code in fences(page, "python"):
            compile(code, str(page), "exec")


# The commands.


def command_lines(page):
    """What is typed after `ctcdro`, in blocks of code; lines that end in a backslash go on."""
    for code in fences(page, ""):
        for line in code.replace("\\\n", " ").splitlines():
            typed = re.match(r"(?:.* -m )?ctcdro (.*)", line)
            if typed:
                yield shlex.split(typed[1], comments=True)


@pytest.fixture(scope="module")
def commands():
    from typer.main import get_command

    from ctcdro.cli.main import app

    return get_command(app)


def unknown_words(words, command):
    """The commands and options among words that do not exist."""
    if hasattr(command, "commands"):
        if words[0] not in command.commands:
            return {words[0]}
        return unknown_words(words[1:], command.commands[words[0]])
    known = {name for parameter in command.params for name in parameter.opts} | {"--help"}
    return {word.split("=")[0] for word in words if re.match(r"--?[a-z]", word)} - known


def test_commands_and_their_options_exist(commands):
    lines = [(page, words) for page in READ_BY_PEOPLE for words in command_lines(page)]
    assert [f"{page}: {shlex.join(words)}" for page, words in lines if unknown_words(words, commands)] == []
    named = {words[0] for _, words in lines}
    assert {"demo", "prepare", "check", "train", "evaluate", "transcribe", "score", "sweep", "report"} <= named


def test_targets_of_make_exist():
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    commands = "\n".join(code for page in READ_BY_PEOPLE for code in fences(page, ""))
    text = "\n".join(prose(page) for page in READ_BY_PEOPLE)
    named = {*re.findall(r"^make ([\w-]+)", commands, flags=re.MULTILINE), *re.findall(r"`make ([\w-]+)`", text)}
    assert named - targets == set()


def test_extras_on_the_quick_start_are_those_there_are():
    import tomllib

    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    rows = re.findall(r"^\| (`[^|]+`) \|", text_of(DOCS / "quickstart.md"), flags=re.MULTILINE)
    listed = [name for row in rows for name in re.findall(r"`([\w-]+)`", row)]
    assert set(listed) == set(extras) - {"dev", "docs"}


# What is on the pages runs.


def test_the_sweep_of_the_quick_start_has_the_runs_that_it_describes():
    [described] = fences(DOCS / "quickstart.md", "yaml")
    names = [setting.objective for setting in parse_sweep(yaml.safe_load(described)).grid()]
    assert (names.count("erm"), names.count("ctc-dro"), len(names)) == (1, 6, 7)


@pytest.mark.parametrize("page", ["README.md", "docs/quickstart.md"])
def test_the_loop_on_the_page_trains(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    languages = ["ces", "cmn", "ces", "cmn"]
    lines = [f'{{"audio_filepath": "a.wav", "duration": 40, "text": "", "lang": "{lang}"}}' for lang in languages]
    Path("train.jsonl").write_text("\n".join(lines), encoding="utf-8")
    model = torch.nn.Linear(8, 5)
    before = model.weight.detach().clone()

    def collate(groups):
        numbers = torch.full((len(groups),), 12), torch.full((len(groups),), 3)
        return torch.randn(12, len(groups), 8), torch.ones(len(groups), 3).long(), *numbers, torch.tensor(groups)

    loop = fences(ROOT / page, "python")[0]
    parts = {"dataset": [languages.index(one) for one in languages], "collate": collate, "num_epochs": 2}
    exec(loop, {**parts, "model": model, "optimizer": torch.optim.SGD(model.parameters(), lr=0.1)})
    assert not torch.equal(model.weight, before)
    assert capsys.readouterr().out.count("'ces': 0.") == 2


def test_the_reader_of_the_guide_reads(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_audio(tmp_path / "a.wav", 0.5)
    Path("list.tsv").write_text(f"train\tces\t{tmp_path / 'a.wav'}\tDobrý den!\ntrain\tces\n", encoding="utf-8")
    exec(fences(DOCS / "extending.md", "python")[0], {})
    assert [one.text for one in Manifest.read("dataset/train.jsonl")] == ["dobrý den"]
    assert "list.tsv:2" in Path("dataset/dropped.jsonl").read_text()


# The API.


def is_defined(name):
    """Whether a dotted name, such as an anchor of an API page, is defined in one of our modules."""
    module = next(page for page in sorted(on_api_pages(), reverse=True) if f"{name}.".startswith(f"{page}."))
    found = importlib.import_module(module)
    for part in name.removeprefix(module).split(".")[1:]:
        found = getattr(found, part, None)
    return found is not None


def on_api_pages():
    return [name for page in (DOCS / "api").glob("*.md") for name in re.findall(r"^::: (\S+)$", text_of(page), re.M)]


def test_modules_of_the_api_exist_and_have_one_page():
    names = on_api_pages()
    assert len(names) == len(set(names))
    assert all(importlib.util.find_spec(name) for name in names)


def test_all_public_names_are_on_api_pages():
    homes = {getattr(ctcdro, name).__module__ for name in ctcdro.__all__}
    assert homes <= set(on_api_pages())


# What makes the site of the pages.


@pytest.fixture(scope="module")
def hooks():
    for package in ("griffe", "latex2mathml"):
        pytest.importorskip(package, reason="the extra `docs` is not installed; `make docs` does")
    spec = importlib.util.spec_from_file_location("site_hooks", DOCS / "site_hooks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_examples_of_the_hooks_run(hooks):
    done = doctest.testmod(hooks)
    assert (done.failed, done.attempted) == (0, 2)


def test_formulas_become_mathml(hooks):
    content = r'<p>The factor <span class="arithmatex">\(|G| &lt; 6\)</span>.</p><div class="arithmatex">\[q_g\]</div>'
    made = hooks.on_page_content(content)
    assert "arithmatex" not in made
    assert re.findall(r'<math[^>]*display="(\w+)"', made) == ["inline", "block"]
    assert "<mi>G</mi>" in made
    assert "&lt;</mo>" in made or "&#x0003C;</mo>" in made


def test_docstrings_are_changed_where_they_stand(hooks):
    one = SimpleNamespace(docstring=SimpleNamespace(value="With :math:`q_g`.\n\nExample:\n    >>> 1\n    1"))
    hooks.InMarkdown().on_object(obj=one)
    assert one.docstring.value == "With $q_g$.\n\nExamples:\n    >>> 1\n    1"


def test_the_site_asks_no_network():
    assert SITE["theme"]["font"] is False
    assert not re.search(r"https?://", (ROOT / "mkdocs.yml").read_text() + (DOCS / "assets/site.css").read_text())
