"""What the site needs besides Markdown: formulas that need no script, and docstrings and links as Markdown has them.

- Formulas become MathML when the site is built; browsers draw it themselves.
- Docstrings have `.. math::` and `:math:`, and sections called "Example", none of which mkdocstrings knows.
- Pages link to files of the project outside of docs/. Those are not on the site: there the words stay, the link goes.
"""

from __future__ import annotations

import html
import re
from typing import Any

import griffe
from latex2mathml.converter import convert

# As `pymdownx.arithmatex` leaves them.
FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)

LINK_OUT_OF_DOCS = re.compile(r"\[([^\[\]]*)\]\(\.\./[^()\s]*\)")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by mkdocs for the text of each page.

    Example:
        >>> on_page_markdown("Figures are in [`results`](../benchmarks/results), see [data](data.md).")
        'Figures are in `results`, see [data](data.md).'
    """
    return LINK_OUT_OF_DOCS.sub(r"\1", markdown)


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
