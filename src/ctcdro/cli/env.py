"""`ctcdro env`."""

from __future__ import annotations

import typer


def env() -> None:
    """Print versions, hardware and installed extras, for bug reports.

    Example: ctcdro env
    """
    from ..runtime.environment import describe_environment

    facts = describe_environment()
    width = max(map(len, facts))
    for title, fact in facts.items():
        typer.echo(f"{title:{width}}  {fact}")
