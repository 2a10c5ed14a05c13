"""An ONNX graph from audio to log probabilities, including feature extraction.

    input_values        (B, T) float32, audio at 16 kHz
    input_lengths       (B,) int64, samples per utterance
    logprobs            (B, F, V) float32, log probabilities of labels; blank after the end of an utterance
    logprobs_lengths    (B,) int64, frames per utterance

The names, `vocab.txt` and `config.json` are those that the package onnx-asr expects of its type `wav2vec2-ctc`. What a
program needs to decode is also in the metadata of the graph.
"""

from __future__ import annotations

import json
import logging
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from ...runtime.extras import extra
from ...speech.audio import SAMPLE_RATE
from ...speech.vocabulary import BLANK, WORD_SPACE, Vocabulary
from ...storage.atomic import atomic_write
from ..recognizer import Recognizer
from .inference import InferenceModel
from .weights import inference_copy

FORMAT = "ctcdro onnx 1"
MODEL, INT8_MODEL = "model.onnx", "model.int8.onnx"
INPUTS = ("input_values", "input_lengths")
OUTPUTS = ("logprobs", "logprobs_lengths")

# A file of protocol buffers cannot be larger than 2 GB. Larger weights are in a second file.
MAX_FILE_BYTES = 1_800_000_000

# Weights of the log-mel spectrogram.
LOG_MEL = re.compile(r"(log_mel|features)\.(kernel|filters)$")

# The tokens for blank and word space in lists of tokens of other programs.
LISTED_AS = {BLANK: "<blk>", WORD_SPACE: "\N{LOWER ONE EIGHTH BLOCK}"}


def write_onnx_model(model: Recognizer, vocabulary: Vocabulary, folder: Path, *, int8: bool = False) -> None:
    """Writes `model.onnx`, lists of tokens and a configuration, and optionally a second graph with int8 weights."""
    with extra("onnx", "Exporting to ONNX"):
        import onnxruntime  # noqa: F401
        import onnxscript  # noqa: F401
    network = inference_copy(model)
    metadata = describe(network, vocabulary)
    network.encoder.make_exportable()
    with _quiet_exporters():
        _write_graph(network, metadata, folder / MODEL)
        if int8:
            _write_int8(folder / MODEL, folder / INT8_MODEL)
    tokens = "".join(f"{LISTED_AS.get(token, token)} {label}\n" for label, token in enumerate(vocabulary.tokens))
    for name in ("tokens.txt", "vocab.txt"):
        with atomic_write(folder / name) as file:
            file.write(tokens)
    with atomic_write(folder / "config.json") as file:
        json.dump({"model_type": "wav2vec2-ctc", **metadata}, file, ensure_ascii=False, indent=2)


def describe(model: InferenceModel, vocabulary: Vocabulary) -> dict[str, Any]:
    """What a program needs to know to use the model."""
    return {
        "format": FORMAT,
        "vocabulary": vocabulary.tokens,
        "languages": vocabulary.languages,
        "sample_rate": SAMPLE_RATE,
        "subsampling_factor": model.samples_per_frame,
        "seconds_per_frame": model.samples_per_frame / SAMPLE_RATE,
        "min_samples": model.encoder.min_samples,
        "max_samples": model.encoder.max_samples,
    }


def _write_graph(model: InferenceModel, metadata: dict[str, Any], path: Path) -> None:
    # Sizes that divide evenly would look like a rule, and only such sizes would be supported.
    size = model.encoder.min_samples + 15_999
    audio, num_samples = torch.zeros(2, size), torch.tensor([size, size - 7_001])
    with torch.no_grad():
        program = torch.onnx.export(
            model,
            (audio, num_samples),
            input_names=INPUTS,
            output_names=OUTPUTS,
            dynamic_shapes=({0: "batch", 1: "samples"}, {0: "batch"}),
            dynamo=True,
            verbose=False,
        )
    assert program is not None
    graph = program.model
    shape = graph.graph.outputs[0].shape
    assert shape is not None
    shape[1] = "frames"  # instead of a formula
    graph.metadata_props.update({name: json.dumps(value, ensure_ascii=False) for name, value in metadata.items()})
    num_bytes = sum(tensor.nbytes for tensor in model.state_dict().values())
    program.save(path, external_data=num_bytes > MAX_FILE_BYTES)


@contextmanager
def _quiet_exporters() -> Iterator[None]:
    """Hides messages, and switches off a fast path of Transformer layers in torch that has no equivalent in ONNX."""
    disabled, is_fast = logging.root.manager.disable, torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)
        torch.backends.mha.set_fastpath_enabled(is_fast)


def _write_int8(source: Path, target: Path) -> None:
    """Quantizes the weights of linear layers. Convolutions and the log-mel spectrogram keep their precision."""
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    graph = onnx.load(source, load_external_data=False).graph
    quantize_dynamic(
        source,
        target,
        op_types_to_quantize=["MatMul", "Gemm"],
        nodes_to_exclude=[node.name for node in graph.node if any(map(LOG_MEL.search, node.input))],
        per_channel=True,
        reduce_range=True,  # sums of products of 8 bits saturate on CPUs without VNNI
        weight_type=QuantType.QInt8,
        use_external_data_format=_num_bytes(source) > 4 * MAX_FILE_BYTES,
    )


def _num_bytes(path: Path) -> int:
    """The size of a graph with its weights."""
    return sum(file.stat().st_size for file in path.parent.glob(f"{path.name}*"))
