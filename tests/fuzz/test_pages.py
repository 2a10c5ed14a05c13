"""Every string from data is text on the page: malicious strings do not change its elements."""

import json
from html.parser import HTMLParser

import pytest
from hostile import TEXTS, damaged
from hostile_runs import STRINGS, write_hostile_runs
from hypothesis import given, settings
from hypothesis import strategies as st

from ctcdro.report.figures import lengths_figure
from ctcdro.report.model_card import model_card
from ctcdro.report.page import write_report
from ctcdro.report.table import Cell, Column, Table
from ctcdro.runs.folder import RunFolder
from ctcdro.scoring.scores import Scores
from ctcdro.speech.vocabulary import Vocabulary

HARMLESS = [f"x{number}" for number in range(len(STRINGS))]


class Built(HTMLParser):
    """The structure of a page: elements with their attribute names, addresses, scripts, styles, and text."""

    def __init__(self, page):
        super().__init__()
        self.elements, self.addresses, self.code, self.text = set(), set(), [], []
        self._in_code = False
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attributes):
        named = dict(attributes)
        self.elements.add((tag, tuple(sorted(named))))
        self.addresses |= {named[name][:5] for name in ("href", "src") if name in named}
        self._in_code = tag in ("script", "style")

    def handle_endtag(self, tag):
        self._in_code = False

    def handle_comment(self, comment):
        self.elements.add(("a comment", comment))

    def handle_data(self, data):
        (self.code if self._in_code else self.text).append(data)


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    found = {}
    for kind, strings in (("hostile", STRINGS), ("harmless", HARMLESS)):
        folder = write_hostile_runs(tmp_path_factory.mktemp(kind), strings)
        write_report([folder], folder / "page.html", num_worst=30, tables=folder / "tables")
        found[kind] = folder
    return found


def test_hostile_strings_build_nothing(pages):
    hostile, harmless = (Built((pages[kind] / "page.html").read_text(encoding="utf-8")) for kind in pages)
    # Notes, marks of alignments, and heads of columns with long names.
    allowed = {("p", ()), ("span", ("class",)), ("button", ("class", "type"))}
    assert hostile.elements - harmless.elements <= allowed
    assert {name for _, names in hostile.elements for name in names if name.startswith("on")} == set()
    assert hostile.addresses == harmless.addresses
    assert all(address.startswith(("#", "data:")) for address in hostile.addresses)
    assert "".join(hostile.code) == "".join(harmless.code)


def test_hostile_strings_are_shown_as_they_are(pages):
    shown = "".join(Built((pages["hostile"] / "page.html").read_text(encoding="utf-8")).text)
    for string in STRINGS:
        assert string in shown, string
    assert "49{" not in shown


def test_tables_and_figures_are_written_of_them(pages, tmp_path):
    assert len(list((pages["hostile"] / "tables").iterdir())) == len(list((pages["harmless"] / "tables").iterdir()))
    folder = write_hostile_runs(tmp_path, ["$\\frac{", "$x$", "%s{}<b>", "_", "^", "\\"])
    write_report([folder], folder / "page.html", num_worst=0, figures=folder / "figures")
    assert len(list((folder / "figures").iterdir())) >= 8


FEW = settings(max_examples=200)


def tags_of_figure(name):
    return {tag for tag, _ in Built(lengths_figure({name: [1.0, 2.0]}, "a", "x").to_svg()).elements}


@pytest.fixture(scope="module")
def harmless_tags():
    return tags_of_figure("x")


@given(text=TEXTS | st.sampled_from(STRINGS))
@settings(max_examples=50, deadline=None)
def test_names_in_figures_have_no_tags(harmless_tags, text):
    assert tags_of_figure(text.encode("utf-8", "replace").decode()) == harmless_tags


@given(TEXTS | st.sampled_from(STRINGS))
@FEW
def test_tables_as_markdown_have_no_tags_and_one_line_a_row(text):
    table = Table.of("a", text, [Column(text, lambda cell: cell)], [Cell(text), Cell("x", note=text)])
    assert "<" not in table.to_markdown()
    assert len(table.to_markdown().splitlines()) <= 6
    table.to_latex(), table.to_csv()


@given(damaged(b"<b>|\n`x`"))
@FEW
def test_cards_of_models_have_no_tags(tmp_path_factory, content):
    text = "".join(content.decode(errors="replace").split())[:200].replace("[", "").replace("]", "") or "x"
    run = RunFolder(tmp_path_factory.mktemp("card"))
    run.config.write_text(json.dumps({"dataset": text, "model": {"encoder": text}}))
    Vocabulary([text], "ab").save(run.vocabulary)
    run.run.write_text(json.dumps({"versions": {text: text}}))
    run.scores("test").parent.mkdir()
    edits = dict.fromkeys(("substitutions", "deletions", "insertions", "reference"), 1)
    figures = {"cer": 1.0, "wer": 1.0, "lid": 1.0, "num_utterances": 1, "characters": edits, "words": edits}
    scores = {"profile": "plain", "languages": {text: figures}, "together": figures, "confusion": {text: {text: 1}}}
    Scores.from_record(scores)
    run.scores("test").write_text(json.dumps(scores))
    run.group_weights.write_text(json.dumps({"step": 1, "weights": {text: 1.0}}))
    card = model_card(run)
    assert "<" not in card.split("---\n", 2)[2]
