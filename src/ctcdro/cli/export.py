"""`ctcdro export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..runtime.extras import extra
from .options import RunArgument, out_folder


def export(
    run: RunArgument,
    out: Annotated[Path, out_folder("Folder to write.")],
) -> None:
    """Export a model for Hugging Face transformers, with a model card.

    Supports models with a pretrained encoder and a linear head.

    Example: ctcdro export runs/first --out exported
    """
    with extra("train", "`ctcdro export`"):
        from ..models.export import export as write_export
        from ..models.recognizer import load
        from ..report.model_card import model_card
    from ..runs.folder import RunFolder
    from ..storage.atomic import atomic_write

    folder = RunFolder(run)
    model_folder = folder.require_model()
    card = model_card(folder)
    model, vocabulary = load(model_folder)
    write_export(model, vocabulary, out)
    with atomic_write(out / "README.md") as file:
        file.write(card)
    typer.echo(f"Model: {out}")
