"""Results as HTML. Names, texts and languages come from files of others; all of them are escaped."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from itertools import islice

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from ..scoring.formatting import format_percent
from ..speech.language_names import language_name
from .recognition import Recognition

NUM_LANGUAGES = 3


def render_results(results: Sequence[Recognition], reference: str = "") -> str:
    """One card per result, side by side where there is room. Words carry their times, for the page's script."""
    return _template().render(results=results, reference=reference)


def render_problem(problem: str) -> str:
    """Why there are no results."""
    return Markup('<p class="problem" role="alert">{}</p>').format(problem)


@cache
def _template() -> Template:
    loader = PackageLoader("ctcdro.serve")
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    environment.filters |= {
        "percent": format_percent,
        "language": language_name,
        "most_probable": lambda languages: list(islice(languages.items(), NUM_LANGUAGES)),
        "svg": Markup,  # written by matplotlib, which escapes the labels
    }
    return environment.get_template("results.html.jinja")


def read_asset(name: str) -> str:
    """A style sheet or a script of the page."""
    return (files("ctcdro.serve") / "templates" / name).read_text(encoding="utf-8")
