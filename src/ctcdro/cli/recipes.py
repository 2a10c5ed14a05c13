"""`ctcdro recipes`: list and copy the configurations that come with the package."""

from __future__ import annotations

from .registration import make_group, register

recipes = make_group("""List or copy ready-made configurations.

    Example: ctcdro recipes copy mel-small
""")


def list_() -> None:
    """List all recipes, with a line about each.

    Example: ctcdro recipes list
    """
    ...


register(recipes, list_, name="list")
