"""What the site needs besides Markdown: formulas that need no script, files from outside of docs/, and docstrings.

- Formulas become MathML when the site is built; browsers draw it themselves.
- `<!-- include: CHANGELOG.md -->` is replaced by that file of the project.
- Links to files of the project outside of docs/ become plain text, because those files are not on the site.
- Docstrings use `.. math::`, `:math:` and sections called "Example", which mkdocstrings does not know.
"""

from __future__ import annotations

import html
import posixpath
import re
from pathlib import Path
from typing import Any

import griffe
from latex2mathml.converter import convert

ROOT = Path(__file__).parents[1]

# As `pymdownx.arithmatex` leaves them.
FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)

INCLUDE = re.compile(r"^<!-- include: (\S+) -->$", re.MULTILINE)
LOCAL_LINK = re.compile(r"\[([^\[\]]*)\]\((?!https?:|#)([^()\s]*)\)")


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Called by mkdocs for the text of each page."""
    folder = posixpath.join("docs", posixpath.dirname(page.file.src_uri))
    if include := INCLUDE.fullmatch(markdown.strip()):
        return with_local_links((ROOT / include[1]).read_text(encoding="utf-8"), ".", folder)
    return with_local_links(markdown, folder, folder)


def with_local_links(markdown: str, source: str, target: str) -> str:
    """The text of a file in the folder `source`, for a page in the folder `target`, both relative to the project.

    Example:
        >>> with_local_links("[A](../examples/a.py), [B](b.md), [C](how-to/c.md#d)", "docs", "docs")
        'A, [B](b.md), [C](how-to/c.md#d)'
        >>> with_local_links("[B](docs/b.md), [L](LICENSE)", ".", "docs/project")
        '[B](../b.md), L'
    """

    def rewritten(found: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(source, found[2]))
        is_on_site = path.startswith("docs/")
        return f"[{found[1]}]({posixpath.relpath(path, target)})" if is_on_site else found[1]

    return LOCAL_LINK.sub(rewritten, markdown)


def on_page_content(content: str, **_: Any) -> str:
    """Called by mkdocs for the HTML of each page."""
    return FORMULA.sub(lambda found: as_mathml(html.unescape(found[3]), is_block=found[2] == "["), content)


def as_mathml(formula: str, is_block: bool) -> str:
    """A formula of LaTeX for a browser, with the spaces that LaTeX has: none within |G|, a thin one before exp."""
    made = convert(formula.strip(), display="block" if is_block else "inline")
    made = re.sub(
        r'<mo(?: stretchy="false")?>(&#x0007C;)</mo>', r'<mo stretchy="false" lspace="0" rspace="0">\1</mo>', made
    )
    return re.sub(r"(<mi>(?:exp|log|ln)</mi>)", r'<mspace width="0.17em"/>\1', made)


def as_markdown(docstring: str) -> str:
    r"""A docstring of ours as mkdocstrings reads them.

    Example:
        >>> as_markdown(".. math:: q_g\n    + 1\n\nWith :math:`q_g` small.\n\nExample:\n    …")
        '$$ q_g\n    + 1 $$\n\nWith $q_g$ small.\n\nExamples:\n    …'
    """
    text = re.sub(r"^\.\. math:: (.*?)(?=\n\n|\Z)", r"$$ \1 $$", docstring, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r":math:`([^`]*)`", lambda found: f"${' '.join(found[1].split())}$", text)
    return re.sub(r"^Example:$", "Examples:", text, flags=re.MULTILINE)


class InMarkdown(griffe.Extension):
    """Called for every module, class, function and attribute of the API pages."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)
