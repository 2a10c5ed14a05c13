"""The documentation: pages, links, commands and options exist, and the Python on the pages runs."""

import doctest
import importlib
import importlib.util
import re
import shlex
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from layouts import write_audio
from page_loop import run_first_loop

import ctcdro
from ctcdro import Manifest
from ctcdro.runs.config import Config, parse_config
from ctcdro.sweeps.config import SweepConfig, parse_sweep

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
READ_BY_PEOPLE = [*PAGES, *(ROOT / name for name in ("README.md", "CONTRIBUTING.md"))]
GUIDES = [page for page in PAGES if page.parent.name in ("how-to", "tutorials", "explanation")]
SECTIONS = ("model", "objective", "data", "sampling", "optimizer", "training")
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
    """What is typed after `ctcdro`: in blocks of code, where a backslash continues a line, and in sentences."""
    in_blocks = "\n".join(fences(page, "")).replace("\\\n", " ").splitlines()
    in_sentences = re.findall(r"`(ctcdro [^`\n]+)`", prose(page))
    for line in (*in_blocks, *in_sentences):
        if typed := re.match(r"(?:.* -m )?ctcdro (.*)", line):
            yield shlex.split(typed[1], comments=True)


@pytest.fixture(scope="module")
def commands():
    from typer.main import get_command

    from ctcdro.cli.main import app

    return get_command(app)


def unknown_words(words, command):
    """The commands and options among words that do not exist."""
    if hasattr(command, "commands") and words and not words[0].startswith("-"):
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
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([\w-]+):", makefile, flags=re.MULTILINE))
    for toolkit in re.search(r"^TOOLKITS := (.*)$", makefile, flags=re.MULTILINE)[1].split():
        targets |= {f"test-with-{toolkit}", f"test-faults-with-{toolkit}"}
    commands = "\n".join(code for page in READ_BY_PEOPLE for code in fences(page, ""))
    text = "\n".join(prose(page) for page in READ_BY_PEOPLE)
    named = {*re.findall(r"^make ([\w-]+)", commands, flags=re.MULTILINE), *re.findall(r"`make ([\w-]+)`", text)}
    assert named - targets == set()


def test_extras_on_the_page_about_installation_are_those_there_are():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    listed = re.findall(r"^\| `([^|`]+)` \|", text_of(DOCS / "install.md"), flags=re.MULTILINE)
    assert set(listed) == set(extras) - {"dev", "docs"}
    named = {name for page in READ_BY_PEOPLE for name in re.findall(r"(?:\.|ctcdro)\[([\w,-]+)\]'", text_of(page))}
    assert {extra for names in named for extra in names.split(",")} <= set(extras)


# The configuration.


def test_configurations_on_pages_are_valid():
    checked = 0
    for page in GUIDES:
        for code in fences(page, "yaml"):
            values = yaml.safe_load(code)
            if "ctc_conf" in values:  # of ESPnet
                continue
            if set(values) <= set(SweepConfig.model_fields):
                parse_sweep({"run": {"dataset": "data"}, **values})
            else:
                parse_config({"dataset": "data", **values})
            checked += 1
    assert checked > 5


def test_keys_on_pages_exist():
    sections = {name: Config.model_fields[name].annotation.model_fields for name in SECTIONS}
    key = rf"(?:`|--set '?)(?:run\.)?({'|'.join(SECTIONS)})\.(?!onnx\b|py\b|safetensors\b)(\w+)(?=[`:=])"
    pages = [page for page in READ_BY_PEOPLE if page.name != "architecture.md"]  # where they are folders
    named = [(page, *found) for page in pages for found in re.findall(key, text_of(page))]
    assert len(named) > 30
    assert [f"{page}: {section}.{name}" for page, section, name in named if name not in sections[section]] == []


# Pages that follow from the code.


@pytest.fixture(scope="module")
def render_reference():
    return load_script("render_reference")


def test_the_reference_is_current(render_reference):
    for path, text in render_reference.pages().items():
        assert text_of(path) == text, f"{path.name} is out of date; run `make reference`"


def test_the_reference_has_every_command_and_option(commands, render_reference):
    page = render_reference.cli_page()
    for command in render_reference.leaf_commands(commands):
        for parameter in command.params:
            if not render_reference.is_hidden(parameter):
                assert parameter.param_type_name == "argument" or f"`{parameter.opts[0]}" in page


def test_the_examples_of_the_script_run(render_reference):
    done = doctest.testmod(render_reference)
    assert (done.failed, done.attempted) == (0, 2)


# What is on the pages runs.


def test_the_sweep_of_the_guide_has_the_runs_that_it_describes():
    described = fences(DOCS / "how-to/tune-with-a-sweep.md", "yaml")[0]
    names = [setting.objective for setting in parse_sweep(yaml.safe_load(described)).grid()]
    assert (names.count("erm"), names.count("ctc-dro"), len(names)) == (1, 6, 7)


@pytest.mark.parametrize("page", ["README.md", "docs/how-to/use-your-own-loop.md"])
def test_the_loop_on_the_page_trains(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run_first_loop(ROOT / page)
    assert capsys.readouterr().out.count("'ces': 0.") == 2


def test_the_reader_of_the_guide_reads(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_audio(tmp_path / "a.wav", 0.5)
    Path("list.tsv").write_text(f"train\tces\t{tmp_path / 'a.wav'}\tDobrý den!\ntrain\tces\n", encoding="utf-8")
    exec(fences(DOCS / "how-to/extend.md", "python")[0], {})
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
    return [
        name
        for page in (DOCS / "reference/api").glob("*.md")
        for name in re.findall(r"^::: (\S+)$", text_of(page), re.M)
    ]


def test_modules_of_the_api_exist_and_have_one_page():
    names = on_api_pages()
    assert len(names) == len(set(names))
    files = [ROOT / "src" / name.replace(".", "/") for name in names]  # toolkits need not be installed
    assert [file for file in files if not (file.with_suffix(".py").exists() or (file / "__init__.py").exists())] == []


def test_all_public_names_are_on_api_pages():
    homes = {getattr(ctcdro, name).__module__ for name in ctcdro.__all__}
    assert homes <= set(on_api_pages())


# What makes the site of the pages.


@pytest.fixture(scope="module")
def hooks():
    for package in ("griffe", "latex2mathml"):
        pytest.importorskip(package, reason="the extra `docs` is not installed; `make docs` does")
    return load_script("site_hooks")


def load_script(name):
    """A script of docs/, which is not part of the package."""
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_examples_of_the_hooks_run(hooks):
    done = doctest.testmod(hooks)
    assert (done.failed, done.attempted) == (0, 3)


def test_files_of_the_project_can_be_pages(hooks):
    page = SimpleNamespace(file=SimpleNamespace(src_uri="project/contributing.md"))
    made = hooks.on_page_markdown(text_of(DOCS / "project/contributing.md"), page=page)
    assert made.startswith("# Contributing")
    assert "(architecture.md)" in made


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
