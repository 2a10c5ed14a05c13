"""The language of everything that people read: the terms of the field, American spelling, short sentences.

Scans prose: pages, README, comments, docstrings, and strings with a space in them. Code on pages is skipped.
"""

import ast
import io
import re
import tokenize
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("docs/**/*.md"), *ROOT.glob("*.md"), ROOT / "benchmarks" / "README.md"])
PROGRAMS = sorted(
    path for folder in ("src", "tests", "benchmarks", "examples", "docs") for path in ROOT.glob(f"{folder}/**/*.py")
)
OTHERS = sorted([ROOT / "Makefile", *ROOT.glob("src/**/*.yaml"), *ROOT.glob("src/**/*.jinja")])

MAX_WORDS = 30
MAX_MEAN_WORDS = 15

OWNER = "(its|their|your|our)"
RATE = "characters|utterances|cuts|batches|steps|samples|words|frames|labels|lines|files|examples|times|once|twice"
UNIT = "second|minute|hour|epoch|step|batch|label|line|core|group|language|utterance|frame|character|round|run|day"

# Phrases to avoid, and what to write instead.
PHRASES = {
    r"go(es|ing)? on|gone on|went on": "resume, continue",
    r"told|tells?": "report, print, show, specify",
    r"left out|leav(es?|ing) out|passed over": "skip, drop, omit, exclude",
    r"beside": "compared with, next to",
    rf"of {OWNER} own(?! [a-z]+|$)|of {OWNER} own (and|for|in|on|that|to|with|which)": "its own, separate",
    r"anew": "again",
    r"mend(s|ed|ing)?": "fix",
    r"lest": "otherwise, so that",
    r"befell?|for want of|kinship": "happened, without, relation",
    r"by heart": "memorize, overfit",
    r"nothing but blanks": "predicts only blanks",
    r"(is|are|be|still) sound": "valid, intact",
    r"equally many": "the same number of",
    r"per cent": "percent",
    rf"({RATE}|\d) an? ({UNIT})(?! (has|is|needs))": "per",
    r"what (one can|it costs)": "name the thing: guarantees, cost",
    r"looks? at the development": "validate",
}

BRITISH = (
    "(optimi|normali|recogni|summari|initiali|synchroni|seriali|tokeni|visuali|minimi|maximi|generali|regulari|organi"
    "|utili|penali|randomi|quanti|vectori|paralleli|customi|memori|categori|standardi|finali|reali|speciali)s(e|ing|ation)"
    "|licence|colour|behaviour|neighbour|favour|labell(ed|ing)|modell(ed|ing)|cancell(ed|ing)|centre|metre(?!d)|artefact"
    "|analys(e[ds]?|ing)(?![a-z])|judgement|learnt|spelt|whilst|amongst|programme(?!r)|grey"
)

# Places where a phrase is right.
ALLOWED = {
    ("tests/project/test_language.py", ""),  # the lists above
    ("tests/runs/test_config_mistakes.py", "optimise"),  # a misspelled key
}


class Prose(NamedTuple):
    path: Path
    line: int
    text: str

    @property
    def name(self):
        return self.path.relative_to(ROOT).as_posix()


def of_program(path):
    """The comments, docstrings, messages and names of tests of a program; examples in docstrings are code."""
    source = path.read_text(encoding="utf-8")
    comment, start = [], 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            if comment and token.start[0] != start + len(comment):
                yield Prose(path, start, " ".join(comment))
                comment = []
            start = start if comment else token.start[0]
            comment.append(token.string.lstrip("#! "))
    if comment:
        yield Prose(path, start, " ".join(comment))
    tree = ast.parse(source)
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            yield Prose(path, node.lineno, node.name.replace("_", " "))
        if isinstance(node, ast.Constant | ast.JoinedStr) and id(node) not in parts:
            text = re.sub(r"^ *(>>>|\.\.\.) .*$", "", text_of(node), flags=re.M)
            if " " in text.strip():
                yield Prose(path, node.lineno, text)


def text_of(node):
    """The text of a string; `{}` stands for values in it."""
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def of_page(path):
    """The paragraphs, list items, table rows and headings of a page, without code."""
    text = re.sub(
        r"^ *```.*?^ *```$", lambda block: "\n" * block[0].count("\n"), path.read_text("utf-8"), flags=re.M | re.S
    )
    text = re.sub(r"<!--.*?-->", lambda block: "\n" * block[0].count("\n"), text, flags=re.S)
    paragraph, start = [], 0
    for number, line in enumerate([*text.splitlines(), ""], start=1):
        if paragraph and (not line.strip() or re.match(r" *([-*#>|]|\d+\.) ?", line)):
            yield Prose(path, start, "\n".join(paragraph))
            paragraph = []
        if line.strip():
            start = start if paragraph else number
            paragraph.append(line)


def of_other(path):
    """The comments of YAML, and the lines of other files without tags and template code."""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        text = line.partition("#")[2] if path.suffix == ".yaml" else re.sub(r"<[^>]*>|\{[{%].*?[%}]\}", " ", line)
        if text.strip():
            yield Prose(path, number, text)


def without_code(text):
    return re.sub(r"\]\([^)]*\)", "]", re.sub(r"`[^`]*`", "Code", text))


@pytest.fixture(scope="module")
def prose():
    texts = [text for path in PAGES for text in of_page(path)]
    texts += [text for path in PROGRAMS for text in of_program(path)]
    texts += [text for path in OTHERS for text in of_other(path)]
    assert len(texts) > 5000
    return texts


def found(pattern, texts):
    """Each match, with file and line, except in allowed places."""
    matches = []
    for text in texts:
        for match in re.finditer(pattern, without_code(text.text), flags=re.I):
            phrase = " ".join(match[0].split())
            if not {(text.name, phrase.lower()), (text.name, "")} & ALLOWED:
                matches.append(f"{text.name}:{text.line}: {phrase}")
    return matches


def rule(phrase):
    return rf"\b({phrase})\b".replace(" ", r"\s+")


@pytest.mark.parametrize("phrase", PHRASES)
def test_phrases_are_those_of_the_field(prose, phrase):
    assert found(rule(phrase), prose) == [], f"write: {PHRASES[phrase]}"


@pytest.mark.parametrize(
    ("text", "is_right"),
    [
        ("Stopped, the same command goes on.", False),
        ("A missing file is\ntold with its line.", False),
        ("It forms a batch of its own.", False),
        ("Time is 10 characters a second.", False),
        ("Features are computed anew.", False),
        ("a pass over the data of its own corpus", True),
        ("the number of labels an utterance has", True),
        ("`goes on` is a name", True),
    ],
)
def test_rules_find_the_phrases_and_nothing_else(text, is_right):
    matches = [match for phrase in PHRASES for match in found(rule(phrase), [Prose(ROOT / "a.md", 1, text)])]
    assert (matches == []) == is_right


def test_examples_follow_such_as(prose):
    texts = [text._replace(text=re.sub(r"`[^`\s]+`", "`", text.text)) for text in prose]
    assert found(r"\w, as (?=[`\"“'\[\d])", texts) == []


def test_percent_signs_follow_the_number(prose):
    assert found(r"\d %(?! ?[\w({])", prose) == []


def test_spelling_is_american(prose):
    assert found(rf"\b({BRITISH})", prose) == []


def test_names_in_programs_are_spelled_american():
    names = [
        Prose(path, token.start[0], token.string)
        for path in PROGRAMS
        for token in tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline)
        if token.type == tokenize.NAME
    ]
    assert found(BRITISH, names) == []


def test_headings_begin_with_a_noun_or_a_verb(prose):
    headings = [text for text in prose if text.path.suffix == ".md" and text.text.startswith(("#", "!!!"))]
    assert len(headings) > 100
    assert found(r"^(#+|!!! \w+) \"?(what|whatever|of|as)\b.*[^?]$", headings) == []


def sentences(page):
    """The words of each sentence in the paragraphs and lists of a page."""
    for text in of_page(page):
        if not re.match(r" *[#|>]", text.text) and not text.text.startswith(("!", "[", "<")):
            plain = re.sub(r"^ *([-*]|\d+\.) +", "", without_code(text.text))
            for sentence in re.split(r"(?<=[.!?])(?<!e\.g\.)(?<!et al\.)\s+", plain):
                yield text, sentence.split()


def test_sentences_are_short():
    lengths, long = [], []
    for page in PAGES:
        for text, words in sentences(page):
            lengths.append(len(words))
            if len(words) > MAX_WORDS:
                long.append(f"{text.name}:{text.line}: {len(words)} words: {' '.join(words)[:60]}…")
    assert long == []
    assert sum(lengths) / len(lengths) < MAX_MEAN_WORDS


FRAGMENT = re.compile(r"(of|as|that|those|what|which|whatever|or|by|and|but|instead|because|so)\b", re.I)


def messages(tree):
    """Texts of errors, help and descriptions of settings."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args:
            yield node.exc.args[0]
        if isinstance(node, ast.Call):
            yield from (keyword.value for keyword in node.keywords if keyword.arg in ("help", "description"))


def test_messages_do_not_begin_with_a_fragment():
    fragments, number = [], 0
    for path in ROOT.glob("src/**/*.py"):
        for node in messages(ast.parse(path.read_text(encoding="utf-8"))):
            number += 1
            if FRAGMENT.match(text_of(node)):
                fragments.append(f"{path.relative_to(ROOT)}:{node.lineno}: {text_of(node)[:60]}")
    assert number > 300
    assert fragments == []
