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
        Literal["transformers", "onnx", "space"],
        typer.Option(
            help="Hugging Face transformers; an ONNX graph from audio to log probabilities; or a Hugging Face Space "
            "with a page to try the model."
        ),
    ] = "transformers",
    int8: Annotated[
        bool, typer.Option("--int8", help="With --format onnx, also write model.int8.onnx, with int8 weights.")
    ] = False,
) -> None:
    """Export a model for use without ctcdro, with a model card.

    Supports every encoder and head. For transformers, a model without a class in the library comes with its own code.

    Example: ctcdro export runs/first --format onnx --out exported
    """
    with extra("train", "`ctcdro export`"):
        from ..models.exports.export import export as write_export
        from ..models.exports.stock_model import has_stock_class
        from ..models.recognizer import load
        from ..report.model_card import model_card
        from ..serve.space import write_space
    from ..runs.folder import RunFolder

    folder = RunFolder(run)
    if format == "space":
        if int8:
            raise ValueError("--int8 requires --format onnx.")
        write_space(folder, out)
        typer.echo(f"Space: {out}")
        return
    model_folder = folder.require_model()
    model, vocabulary = load(model_folder)
    needs_code = format == "transformers" and not has_stock_class(model)
    card = model_card(folder, "transformers-custom" if needs_code else format)
    write_export(model, vocabulary, out, format, int8=int8, readme=card)
    typer.echo(f"Model: {out}")
