"""Converts wav2vec 2.0 models of fairseq2, such as omniASR, to `transformers`.

    convert_fairseq2("omniASR-CTC-300M-v2.pt", "omniasr", tokenizer="omniASR_tokenizer_written_v2.model")
    build("omniasr", len(vocabulary))          # model.encoder: omniasr
    read_starting_point("omniasr")             # model.init_from: omniasr

Both have the same layers under other names. A checkpoint has no settings: sizes are those of its weights, and the rest
is that of the published models. Nothing in a checkpoint is executed.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..runtime.extras import extra
from ..speech.sentencepiece import SPACE_PIECE, UNKNOWN_PIECE, VocabularyPiece, read_pieces
from ..speech.vocabulary import BLANK, SPECIAL_TOKENS, UNKNOWN, WORD_SPACE, save_ctc_tokenizer
from ..storage.atomic import atomic_folder
from ..storage.paths import PathLike, is_empty
from ..storage.tensors import load_torch_file
from .encoders.pretrained import MAX_LAYERS, quiet

# Modules in both libraries; # is the number of a layer.
MODULES = {
    "encoder_frontend.feature_extractor.layers.#.conv": "feature_extractor.conv_layers.#.conv",
    "encoder_frontend.feature_extractor.layers.#.layer_norm": "feature_extractor.conv_layers.#.layer_norm",
    "encoder_frontend.feature_extractor.layers.#.group_norm": "feature_extractor.conv_layers.#.layer_norm",
    "encoder_frontend.post_extract_layer_norm": "feature_projection.layer_norm",
    "encoder_frontend.model_dim_proj": "feature_projection.projection",
    "encoder_frontend.pos_encoder.conv": "encoder.pos_conv_embed.conv",
    "encoder_frontend.layer_norm": "encoder.layer_norm",  # of models with norms after each layer
    "encoder.layer_norm": "encoder.layer_norm",  # of models with norms before each layer
    "encoder.layers.#.self_attn_layer_norm": "encoder.layers.#.layer_norm",
    "encoder.layers.#.self_attn.q_proj": "encoder.layers.#.attention.q_proj",
    "encoder.layers.#.self_attn.k_proj": "encoder.layers.#.attention.k_proj",
    "encoder.layers.#.self_attn.v_proj": "encoder.layers.#.attention.v_proj",
    "encoder.layers.#.self_attn.output_proj": "encoder.layers.#.attention.out_proj",
    "encoder.layers.#.ffn_layer_norm": "encoder.layers.#.final_layer_norm",
    "encoder.layers.#.ffn.inner_proj": "encoder.layers.#.feed_forward.intermediate_dense",
    "encoder.layers.#.ffn.output_proj": "encoder.layers.#.feed_forward.output_dense",
}
# The weight norm of the positional convolution.
PARAMETERS = {"weight_g": "parametrizations.weight.original0", "weight_v": "parametrizations.weight.original1"}
OUTPUT = "final_proj"
# Parts that only training needs. Only pretrained models have the last; their `final_proj` does not compute labels.
TRAINING_PARTS = ("masker", "quantizer", "final_target_proj")
# Models with norms before each layer have both, others none.
LAST_NORM = "encoder.layer_norm.weight"
SECOND_NORM = "encoder_frontend.feature_extractor.layers.1.layer_norm.weight"

# The convolutions of all published models.
KERNELS, STRIDES = (10, 3, 3, 3, 3, 2, 2), (5, 2, 2, 2, 2, 2, 2)
BASE_WIDTH, LARGE_WIDTH = 768, 1024


class Conversion(NamedTuple):
    """What was converted."""

    num_layers: int
    width: int
    num_labels: int | None
    """None if only the encoder was converted."""


def convert_fairseq2(
    checkpoint: PathLike, folder: PathLike, tokenizer: PathLike | None = None, *, num_heads: int | None = None
) -> Conversion:
    """Writes a folder for `transformers` atomically: a `Wav2Vec2ForCTC`, or the encoder alone.

    Args:
        checkpoint: the `.pt` file of a CTC model or of a pretrained model.
        folder: an empty or new folder.
        tokenizer: the SentencePiece model of a CTC model. Without it, only the encoder is converted.
        num_heads: number of attention heads, which the weights do not show. By default, that of the published models:
            12 for the base model, and 16 otherwise.

    Raises:
        ValueError: if a file is not such a model, the files do not fit each other, or the folder is not empty.
    """
    if not is_empty(folder):
        raise ValueError(f"{folder} is not empty. Choose another --out (`folder` in Python).")
    with extra("train", "Converting a checkpoint"):
        import transformers
    pieces = None if tokenizer is None else read_pieces(tokenizer)
    state = load_torch_file(checkpoint)
    try:
        weights, output = convert_names(state)
        if pieces is not None:
            _check_labels(len(pieces), output)
        model = _fill(transformers, weights, output if pieces is not None else {}, num_heads)
    except ValueError as error:
        raise ValueError(f"{checkpoint}: cannot convert this checkpoint: {error}") from error
    with atomic_folder(folder) as unfinished, quiet(transformers):
        model.save_pretrained(unfinished)
        transformers.Wav2Vec2FeatureExtractor(do_normalize=True, return_attention_mask=True).save_pretrained(unfinished)
        if pieces is not None:
            save_ctc_tokenizer({label: row for row, label in enumerate(labels_of(pieces))}, unfinished)
    config = model.config
    return Conversion(config.num_hidden_layers, config.hidden_size, None if pieces is None else len(pieces))


def convert_names(checkpoint: Any) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The weights of the encoder by their names in `transformers`, and `weight` and `bias` of the output layer.

    A pretrained model has no output layer.
    """
    state = checkpoint.get("model", checkpoint) if isinstance(checkpoint, Mapping) else None
    if not isinstance(state, Mapping) or not all(isinstance(name, str) for name in state):
        raise ValueError("it holds no tensors by name.")
    state = {name.removeprefix("module."): tensor for name, tensor in state.items()}
    weights, output, unknown = {}, {}, []
    for name, tensor in state.items():
        layer = re.search(r"(?<=\.layers\.)\d+(?=\.)", name)
        module, _, parameter = name.rpartition(".")
        module = module if layer is None else module.replace(f".layers.{layer[0]}.", ".layers.#.", 1)
        if module in MODULES and isinstance(tensor, Tensor):
            target = MODULES[module].replace("#", layer[0] if layer else "")
            weights[f"{target}.{PARAMETERS.get(parameter, parameter)}"] = tensor
        elif module == OUTPUT and isinstance(tensor, Tensor):
            output[parameter] = tensor
        elif name.partition(".")[0] not in TRAINING_PARTS:
            unknown.append(name)
    if unknown:
        raise ValueError(f"it is not a wav2vec 2.0 model of fairseq2; unknown names: {_some(unknown)}.")
    if (LAST_NORM in state) != (SECOND_NORM in state):
        raise ValueError(f"it has only one of {LAST_NORM} and {SECOND_NORM}; transformers has no such model.")
    is_pretrained = any(name.startswith("final_target_proj.") for name in state)
    return weights, {} if is_pretrained else output


def labels_of(pieces: Sequence[VocabularyPiece]) -> list[str]:
    """The labels of a tokenizer by their names in `transformers`. The blank of fairseq2 is always the first."""
    labels = [BLANK]
    for row, piece in enumerate(pieces[1:], 1):
        label = {SPACE_PIECE: WORD_SPACE}.get(piece.text, piece.text)
        if piece.type == UNKNOWN_PIECE:
            label = UNKNOWN
        elif label in SPECIAL_TOKENS and piece.text != SPACE_PIECE:  # such as fairseq2's padding
            label = f"<{row}>"
        labels.append(label)
    return labels


def config_options(weights: Mapping[str, Tensor], num_heads: int | None = None) -> dict[str, Any]:
    """The arguments of a `Wav2Vec2Config`, from the shapes of the weights."""
    convolutions = [_shape(weights, f"feature_extractor.conv_layers.{layer}.conv.weight", 3) for layer in range(7)]
    kernels = tuple(shape[2] for shape in convolutions)
    if kernels != KERNELS:
        raise ValueError(f"its convolutions have kernels {kernels}; expected {KERNELS}.")
    width, width_of_group, kernel = _shape(weights, "encoder.pos_conv_embed.conv.parametrizations.weight.original1", 3)
    num_layers = sum(bool(re.fullmatch(r"encoder\.layers\.\d+\.layer_norm\.weight", name)) for name in weights)
    num_heads = num_heads or (12 if width == BASE_WIDTH else 16)
    if not 0 < num_layers <= MAX_LAYERS or width % num_heads or width % max(width_of_group, 1):
        raise ValueError(
            f"it has {num_layers} layers of width {width}, which {num_heads} attention heads do not divide. Set "
            "--num-heads (`num_heads` in Python)."
        )
    has_norms_everywhere = "feature_extractor.conv_layers.1.layer_norm.weight" in weights
    return {
        **{"hidden_size": width, "num_hidden_layers": num_layers, "num_attention_heads": num_heads},
        "intermediate_size": _shape(weights, "encoder.layers.0.feed_forward.intermediate_dense.weight", 2)[0],
        **{"conv_dim": tuple(shape[0] for shape in convolutions), "conv_kernel": KERNELS, "conv_stride": STRIDES},
        "conv_bias": "feature_extractor.conv_layers.0.conv.bias" in weights,
        "feat_extract_norm": "layer" if has_norms_everywhere else "group",
        "do_stable_layer_norm": has_norms_everywhere,
        "num_conv_pos_embeddings": kernel,
        "num_conv_pos_embedding_groups": width // max(width_of_group, 1),
        # Dropout of omniASR. SpecAugment and layer drop are off.
        **{"hidden_dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.1, "final_dropout": 0.0},
        "feat_proj_dropout": 0.1 if width > LARGE_WIDTH else 0.0,
        **{"layerdrop": 0.0, "mask_time_prob": 0.0, "mask_feature_prob": 0.0},
    }


def _fill(transformers: Any, weights: Mapping[str, Tensor], output: Mapping[str, Tensor], num_heads: int | None) -> Any:
    """A model of `transformers` with these weights, without a copy of them."""
    options = config_options(weights, num_heads)
    if output:
        options |= {"vocab_size": len(output["weight"]), "pad_token_id": 0, "bos_token_id": None, "eos_token_id": None}
        weights = {f"wav2vec2.{name}": tensor for name, tensor in weights.items()}
        weights |= {f"lm_head.{name}": tensor for name, tensor in output.items()}
    model_class = transformers.Wav2Vec2ForCTC if output else transformers.Wav2Vec2Model
    with torch.device("meta"):
        model = model_class(transformers.Wav2Vec2Config(**options))
    expected = {name: tensor.shape for name, tensor in model.state_dict().items()}
    found = {name: tensor.shape for name, tensor in weights.items()}
    if different := sorted(name for name in expected.keys() | found if expected.get(name) != found.get(name)):
        raise ValueError(f"weights are missing, or have another shape than the others require: {_some(different)}.")
    model.load_state_dict(weights, assign=True)
    return model


def _check_labels(num_pieces: int, output: Mapping[str, Tensor]) -> None:
    if output.keys() != {"weight", "bias"}:
        raise ValueError("it has no output layer, as pretrained models. Omit --tokenizer (`tokenizer` in Python).")
    if output["weight"].ndim != 2 or len(output["weight"]) != num_pieces:
        raise ValueError(
            f"its output layer has {len(output['weight'])} labels, but the tokenizer has {num_pieces} pieces. Use the "
            "tokenizer of the same release."
        )


def _shape(weights: Mapping[str, Tensor], name: str, num_axes: int) -> torch.Size:
    if name not in weights or weights[name].ndim != num_axes:
        raise ValueError(f"it has no weights with {num_axes} axes for {name}.")
    return weights[name].shape


def _some(names: Collection[str]) -> str:
    shown = ", ".join(f"{name:.100}" for name in list(names)[:5])
    return f"{shown} and {len(names) - 5} more" if len(names) > 5 else shown
