"""Configurations for `ctcdro train` and `ctcdro sweep`, and a Slurm job file; commands are in their first lines."""

from __future__ import annotations

import shutil
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple

from ..storage.paths import PathLike

FOLDER = Path(__file__).parent
SUFFIXES = (".yaml", ".sbatch")


class Recipe(NamedTuple):
    name: str
    """Such as "mel-small" or "paper/set1"."""
    description: str
    """The first comment of the file."""
    path: Path


def list_recipes() -> list[Recipe]:
    """All recipes, those of the paper last."""
    files = [path for suffix in SUFFIXES for path in FOLDER.rglob(f"*{suffix}")]
    paths = sorted(files, key=lambda path: (path.parent.name == "paper", path.parent, path.stem))
    return [Recipe(path.relative_to(FOLDER).with_suffix("").as_posix(), _first_comment(path), path) for path in paths]


def copy_recipe(name: str, out: PathLike | None = None) -> Path:
    """Copies a recipe to a file or folder, by default to the working directory. Returns the path of the copy.

    Raises:
        ValueError: if there is no such recipe, or the file already exists.
    """
    recipes = {recipe.name: recipe for recipe in list_recipes()}
    for suffix in SUFFIXES:
        name = name.removesuffix(suffix)
    if name not in recipes:
        same_file = [recipe for recipe in recipes if recipe.endswith(f"/{name}")]
        similar = same_file or get_close_matches(name, recipes, n=1)
        hint = f"Did you mean {similar[0]}?" if similar else f"The recipes are {', '.join(recipes)}."
        raise ValueError(f"Unknown recipe {name!r}. {hint}")
    source = recipes[name].path
    target = Path(out or ".")
    if target.is_dir():
        target /= source.name
    if target.exists():
        raise ValueError(f"{target} already exists. Choose another --out.")
    shutil.copyfile(source, target)
    return target


def _first_comment(path: Path) -> str:
    with open(path, encoding="utf-8") as file:
        line = next(line for line in file if not line.startswith("#!"))
        return line.removeprefix("#").strip()
