"""Options of commands that decode with a model: `ctcdro evaluate` and `ctcdro transcribe`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .options import must_be_file

if TYPE_CHECKING:
    from ..decoding.beam_search import Search

BeamSizeOption = Annotated[
    int | None,
    typer.Option(
        "--beam-size", metavar="N", min=1, help="Hypotheses of a beam search.", show_default="greedy decoding"
    ),
]
LmOption = Annotated[
    list[str] | None,
    typer.Option(
        "--lm",
        metavar="[CODE=]FILE",
        help="n-gram language model for the beam search, in ARPA or KenLM format. Repeat it with a language each, "
        "e.g. kor=ko.arpa, to choose the model after identifying the language.",
    ),
]
LmWeightOption = Annotated[
    float | None,
    typer.Option("--lm-weight", metavar="X", min=0, help="Weight of the language model.", show_default="0.5"),
]
BlankPenaltyOption = Annotated[
    float | None,
    typer.Option(
        "--blank-penalty",
        metavar="X",
        help="Penalty of the blank in the beam search, against missing characters.",
        show_default="0",
    ),
]


def make_beam_search(
    model_folder: Path,
    beam_size: int | None,
    lm: list[str] | None,
    lm_weight: float | None,
    blank_penalty: float | None,
) -> Search | None:
    """The beam search that the options ask for; None for greedy decoding."""
    if lm_weight is not None and not lm:
        raise ValueError("--lm-weight requires --lm, a language model to weight.")
    if beam_size is None and not lm:
        if blank_penalty is not None:
            raise ValueError("--blank-penalty requires --beam-size or --lm: greedy decoding has no penalty.")
        return None
    from ..decoding.beam_search import BeamSearch, BeamSearchByLanguage
    from ..models.saving import load_vocabulary

    vocabulary = load_vocabulary(model_folder)
    options = {"beam_size": beam_size, "lm_weight": lm_weight, "blank_penalty": blank_penalty}
    specified: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    models = parse_language_models(lm or [])
    if isinstance(models, dict):
        return BeamSearchByLanguage(vocabulary, models, **specified)
    return BeamSearch(vocabulary, language_model=models, **specified)


def parse_language_models(values: list[str]) -> Path | dict[str, Path] | None:
    """The file of `--lm FILE`, or the files of each language of `--lm kor=FILE --lm ces=FILE`."""
    by_language = {}
    for value in values:
        language, equals, file = value.partition("=")
        if Path(value).is_file() or not equals:
            if len(values) > 1:
                raise ValueError(f"--lm {value}: several language models need their languages, such as kor={value}.")
            return must_be_file()(Path(value))
        if language in by_language:
            raise ValueError(f"--lm {value}: {language} has two language models.")
        by_language[language] = must_be_file()(Path(file))
    return by_language or None
