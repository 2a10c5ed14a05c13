"""Renders the templates of HTML pages.

All text from data is escaped, and a page is one file that needs no network. Its security policy allows only its own
script.
"""

from __future__ import annotations

import base64
import hashlib
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from .. import __version__
from ..scoring.formatting import format_percent
from ..speech.language_names import language_name
from ..storage.atomic import atomic_write
from ..storage.paths import PathLike


def write_page(template: str, out: PathLike, **content: Any) -> None:
    """Writes the page of a template in `templates/` atomically."""
    loader = PackageLoader("ctcdro.report")
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    environment.filters |= {"source_hash": _source_hash, "percent": format_percent, "language": language_name}
    page = environment.get_template(template).render(**content, version=__version__)
    with atomic_write(out) as file:
        file.write(page)


def _source_hash(script: str) -> str:
    """The hash that allows a script in a Content-Security-Policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
