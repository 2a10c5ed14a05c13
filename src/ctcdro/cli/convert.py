"""`ctcdro convert`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..runtime.extras import extra
from .options import must_be_file, out_folder


def convert(
    checkpoint: Annotated[
        Path,
        typer.Argument(
            metavar="CHECKPOINT",
            help="File such as omniASR-CTC-300M-v2.pt or omniASR-W2V-300M.pt.",
            callback=must_be_file(),
        ),
    ],
    out: Annotated[Path, out_folder("Folder to write.")],
    tokenizer: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="SentencePiece model with the labels of a CTC model. Without it, only the encoder is converted.",
            callback=must_be_file(),
        ),
    ] = None,
    num_heads: Annotated[
        int | None,
        typer.Option(metavar="N", help="Attention heads.", min=1, show_default="16, or 12 for models of width 768"),
    ] = None,
) -> None:
    """Convert omniASR, or another wav2vec 2.0 model of fairseq2, to Hugging Face transformers.

    Writes a folder for model.encoder or model.init_from of a run. Nothing in the checkpoint is executed.

    Example: ctcdro convert omniASR-CTC-300M-v2.pt --tokenizer omniASR_tokenizer_written_v2.model --out omniasr
    """
    with extra("train", "`ctcdro convert`"):
        from ..models.fairseq2 import convert_fairseq2

    converted = convert_fairseq2(checkpoint, out, tokenizer, num_heads=num_heads)
    labels = "no output layer" if converted.num_labels is None else f"{converted.num_labels:,} labels"
    typer.echo(f"{converted.num_layers} layers of width {converted.width:,}, {labels}\nModel: {out}")
