"""Options and arguments of several commands."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import typer


def must_be_file(remedy: str = "") -> Callable[[Any], Any]:
    """A callback that rejects paths that are not files; `remedy` is the rest of the message."""
    return lambda value: _check_paths(value, "file", remedy)


def must_be_folder(remedy: str = "") -> Callable[[Any], Any]:
    """A callback that rejects paths that are not folders; `remedy` is the rest of the message."""
    return lambda value: _check_paths(value, "folder", remedy)


def must_exist(value: Any) -> Any:
    """A callback that rejects paths where there is nothing."""
    return _check_paths(value, "", "")


def folder_to_write(value: Path | None) -> Path | None:
    """A callback that rejects a file where a folder is to be written."""
    if value is not None and value.is_file():
        raise ValueError(f"{value} is a file. Choose the name of a folder to write.")
    return value


def out_folder(help: str, *, show_default: bool | str = True) -> Any:
    """The option `--out` of a command that writes a folder."""
    return typer.Option("--out", "-o", metavar="DIR", help=help, callback=folder_to_write, show_default=show_default)


def file_to_write(value: Path | None) -> Path | None:
    """A callback that rejects a folder where a file is to be written, and files in folders that do not exist."""
    if value is not None and value.is_dir():
        raise ValueError(f"{value} is a folder. Choose the name of a file to write.")
    if value is not None and not value.absolute().parent.is_dir():
        raise ValueError(f"{value}: the folder {value.parent} does not exist. Create it first.")
    return value


def _check_paths(value: Any, kind: str, remedy: str) -> Any:
    for path in [value] if isinstance(value, Path) else value or ():
        if not path.exists():
            raise ValueError(f"{path} does not exist. {remedy}".strip())
        if kind and (kind == "folder") != path.is_dir():
            found = "file" if kind == "folder" else "folder"
            raise ValueError(f"{path} is a {found}; expected a {kind}. {remedy}".strip())
    return value


DatasetArgument = Annotated[
    Path,
    typer.Argument(
        metavar="DATASET",
        help="Folder with train.jsonl, dev.jsonl and test.jsonl.",
        callback=must_be_folder("Create a dataset with 'ctcdro prepare'."),
    ),
]
RunArgument = Annotated[
    Path,
    typer.Argument(
        metavar="RUN", help="Folder of a finished run.", callback=must_be_folder("Create it with 'ctcdro train'.")
    ),
]
ConfigArgument = Annotated[
    Path,
    typer.Argument(
        metavar="CONFIG",
        help="YAML file with the configuration.",
        callback=must_be_file("Write one with 'ctcdro config init', or copy a recipe with 'ctcdro recipes copy'."),
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Override a configuration key, e.g. objective.step_size=1e-3. Repeatable."
    ),
]
DeviceOption = Annotated[
    str,
    typer.Option("--device", metavar="DEVICE", help="Compute on auto (a GPU if there is one), cpu, cuda or cuda:N."),
]
ScoringOption = Annotated[
    Literal["plain", "ml-superb2", "paper"],
    typer.Option(
        "--scoring",
        help="Scoring rules. plain: corpus rates. ml-superb2: those of the challenge. paper: those of the authors.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
