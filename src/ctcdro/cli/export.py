"""`ctcdro export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from ..runtime.extras import extra
from .options import RunArgument, out_folder


def export(
    run: RunArgument,
    out: Annotated[Path, out_folder("Folder to write.")],
    format: Annotated[
        Literal["transformers", "space"],
        typer.Option(help="Hugging Face transformers, or a Hugging Face Space with a page to try the model."),
    ] = "transformers",
) -> None:
    """Export a model for Hugging Face transformers, with a model card.

    Supports models with a pretrained encoder and a linear head; for a Space, all models.

    Example: ctcdro export runs/first --out exported
    """
    with extra("train", "`ctcdro export`"):
        from ..models.export import export as write_export
        from ..models.recognizer import load
        from ..report.model_card import model_card
        from ..serve.space import write_space
    from ..runs.folder import RunFolder
    from ..storage.atomic import atomic_write

    folder = RunFolder(run)
    if format == "space":
        write_space(folder, out)
        typer.echo(f"Space: {out}")
        return
    model_folder = folder.require_model()
    card = model_card(folder)
    model, vocabulary = load(model_folder)
    write_export(model, vocabulary, out)
    with atomic_write(out / "README.md") as file:
        file.write(card)
    typer.echo(f"Model: {out}")
