"""`ctcdro recipes`: list and copy the files that come with the package."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .registration import make_group, register

recipes = make_group("""List or copy ready-made configurations and a Slurm job file.

    Example: ctcdro recipes copy mel-small
""")


def list_all() -> None:
    """List all recipes, with one line about each.

    Example: ctcdro recipes list
    """
    from ..recipes import list_recipes

    found = list_recipes()
    width = max(len(recipe.name) for recipe in found)
    for recipe in found:
        typer.echo(f"{recipe.name:{width}}  {recipe.description}")


def copy(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of a recipe; see `ctcdro recipes list`.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="File to write.", show_default="its own name in this folder"),
    ] = None,
) -> None:
    """Copy a recipe, to use or to change.

    Example: ctcdro recipes copy mel-small --out run.yaml
    """
    from ..recipes import copy_recipe

    typer.echo(f"Recipe: {copy_recipe(name, out)}")


register(recipes, list_all, name="list")
register(recipes, copy)
