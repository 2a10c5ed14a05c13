"""The tutorials: their commands run, on small data with a small model, and print what the pages show."""

import re
from pathlib import Path

import pytest
from layouts import Fleurs, Spoken
from page_commands import DOCS, lines, run, steps

from ctcdro.cli import console
from ctcdro.storage.json_files import read_json, read_log

pytestmark = pytest.mark.usefixtures("one_thread")

TUTORIALS = DOCS / "tutorials"
GREETINGS = {
    "ces": "dobrý den",
    "cmn": "你好",
    "kor": "안녕",
    "pol": "dzień dobry",
    "ron": "bună ziua",
    "spa": "buenos días",
}


def shown(line):
    """A line of a page as a pattern: `…` is any text."""
    return ".*".join(re.escape(word) for word in re.split(r"[\s…]+", line) if word)


def follow(page):
    """Writes the files and runs the commands of a page, and compares the output with what the page shows."""
    output = ""
    for language, code in steps(TUTORIALS / page):
        if language == "yaml":
            Path(code.split()[1]).write_text(code, encoding="utf-8")
        elif language == "":
            output = "".join(run(line) for line in lines(code) if line.startswith("ctcdro "))
        elif language == "bash":  # downloads
            output = ""
        elif language == "text" and output:
            for line in filter(str.strip, code.splitlines()):
                assert re.search(shown(line), output), f"{line}\n{output}"


@pytest.fixture
def small_fleurs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(console.results, "_width", 150)
    sizes = {"train": 6, "dev": 2, "test": 2}
    spoken = [
        Spoken(split, lang, f"{split}{number}", f"{text} {chr(97 + number)}{split[0]}", 1 + 0.1 * number)
        for split, size in sizes.items()
        for lang, text in GREETINGS.items()
        for number in range(size)
    ]
    Fleurs().write(Path("fleurs/data"), spoken)


@pytest.mark.slow
def test_the_tutorial_on_a_real_corpus_works(small_fleurs):
    follow("real-corpus.md")
    assert Path("fleurs.html").stat().st_size > 100_000
    assert undocumented("Dataset folder", files_in("data/fleurs")) == set()
    assert undocumented("Run folder", files_in("runs/trial")) == set()
    assert undocumented("Run folder", *read_log(Path("runs/trial/log.jsonl"))) == set()
    assert undocumented("Predictions and scores", read_json("runs/trial/scores/test.json")) == set()
    assert undocumented("Sweep folder", files_in("runs/fleurs")) == set()
    assert undocumented("Sweep folder", *read_json("runs/fleurs/table.json")) == set()
    assert undocumented("Sweep folder", *read_json("runs/fleurs/selected.json")["settings"]) == set()
    assert undocumented("Model folder", files_in("runs/trial/model")) == set()


def undocumented(heading, *names):
    """Names of files or fields that the tables in a section of the page about file formats do not list."""
    page = (TUTORIALS.parent / "reference" / "file-formats.md").read_text(encoding="utf-8")
    _, _, section = page.partition(f"\n## {heading}\n")
    rows = re.findall(r"^\| (`[^|]+) \|", section.partition("\n## ")[0], flags=re.MULTILINE)
    listed = {name.rstrip("/") for row in rows for name in re.findall(r"`([^`]+)`", row)}
    return {name for some in names for name in some} - listed


def files_in(folder):
    return [path.name for path in Path(folder).iterdir()]


@pytest.mark.slow
def test_the_tutorial_of_the_demonstration_works(tmp_path, monkeypatch):
    pytest.importorskip("espeakng_loader", reason="needs the extra `demo`")
    monkeypatch.chdir(tmp_path)
    follow("demo.md")
    assert Path("both.html").exists()
