"""Exports a trained recognizer as a folder for other programs.

export(model, vocabulary, "exported")
transformers.pipeline("automatic-speech-recognition", "exported")("a.wav")  # {'text': '[ces]dobrý den'}
"""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

from ...speech.vocabulary import Vocabulary
from ...storage.atomic import atomic_folder, atomic_write
from ...storage.paths import PathLike, is_empty
from ..recognizer import Recognizer, check_vocabulary
from .custom_model import write_custom_model
from .onnx_model import write_onnx_model
from .stock_model import has_stock_class, write_stock_model

Format: TypeAlias = Literal["transformers", "onnx"]


def export(
    model: Recognizer,
    vocabulary: Vocabulary,
    folder: PathLike,
    format: Format = "transformers",
    *,
    int8: bool = False,
    readme: str | None = None,
) -> None:
    """Writes a folder atomically. LoRA is merged into the encoder.

    Args:
        model: the recognizer, in evaluation mode.
        vocabulary: its labels.
        folder: an empty or new folder.
        format: "transformers" for Hugging Face `transformers`: a class of the library if there is one, otherwise a
            class in the folder, for `trust_remote_code=True`. "onnx" for an ONNX graph.
        int8: whether to write a second ONNX graph with int8 weights.
        readme: text of a README.md, such as a model card.

    Raises:
        ValueError: if the folder is not empty, or arguments are incompatible.
    """
    if format not in get_args(Format):
        raise ValueError(f"`format` must be one of {', '.join(get_args(Format))}; got {format!r}.")
    if int8 and format != "onnx":
        raise ValueError("int8 weights need the format onnx. Use --format onnx (`format` in Python), or omit int8.")
    check_vocabulary(model, vocabulary)
    if not is_empty(folder):
        raise ValueError(f"{folder} is not empty. Choose another --out (`folder` in Python).")
    with atomic_folder(folder) as unfinished:
        if format == "onnx":
            write_onnx_model(model, vocabulary, unfinished, int8=int8)
        elif has_stock_class(model):
            write_stock_model(model, vocabulary, unfinished)
        else:
            write_custom_model(model, vocabulary, unfinished)
        if readme is not None:
            with atomic_write(unfinished / "README.md") as file:
                file.write(readme)
