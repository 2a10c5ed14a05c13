"""Options of commands that decode with a model: `ctcdro evaluate` and `ctcdro transcribe`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .options import must_be_file

if TYPE_CHECKING:
    from ..decoding.beam_search import BeamSearch

BeamSizeOption = Annotated[
    int | None,
    typer.Option(
        "--beam-size", metavar="N", min=1, help="Hypotheses of a beam search.", show_default="greedy decoding"
    ),
]
LmOption = Annotated[
    Path | None,
    typer.Option(
        "--lm",
        metavar="FILE",
        help="n-gram language model for the beam search, in ARPA or KenLM format.",
        callback=must_be_file(),
    ),
]
LmWeightOption = Annotated[
    float | None,
    typer.Option("--lm-weight", metavar="X", min=0, help="Weight of the language model.", show_default="0.5"),
]


def make_beam_search(
    model_folder: Path, beam_size: int | None, lm: Path | None, lm_weight: float | None
) -> BeamSearch | None:
    """The beam search that the options ask for; None for greedy decoding."""
    if lm_weight is not None and lm is None:
        raise ValueError("--lm-weight requires --lm, a language model to weight.")
    if beam_size is None and lm is None:
        return None
    from ..decoding.beam_search import BeamSearch
    from ..speech.vocabulary import Vocabulary

    options = {"beam_size": beam_size, "language_model": lm, "lm_weight": lm_weight}
    specified: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    return BeamSearch(Vocabulary.load(model_folder / "vocab.json"), **specified)
