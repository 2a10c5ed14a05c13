"""wav2vec 2.0 in the layout of fairseq2: random weights under its names, and what it computes, in plain torch."""

import re

import torch
import torch.nn.functional as F
from transformers.utils.sentencepiece_model_pb2_new import ModelProto

WIDTH, CHANNELS, INNER, LAYERS, HEADS, GROUPS, KERNEL = 32, 12, 48, 3, 4, 4, 16
CONVOLUTIONS = [(10, 5), *[(3, 2)] * 4, *[(2, 2)] * 2]

# Pieces of omniASR's tokenizers begin like this. Types: 1 normal, 2 unknown, 3 control.
PIECES = [("<s>", 3), ("<pad>", 3), ("</s>", 3), ("<unk>", 2), ("\u2581", 1), *((one, 1) for one in "acdeł|č가")]


def random_weights(norms_first=True, num_labels=13, seed=0):
    """The state of a CTC model: with norms before each layer, as omniASR, or after it, as wav2vec 2.0 base."""
    generator = torch.Generator().manual_seed(seed)
    weights = {}

    def add(name, *shape, mean=0.0, std=0.3):
        weights[name] = mean + std * torch.randn(*shape, generator=generator)

    def add_linear(name, rows, columns):
        add(f"{name}.weight", rows, columns, std=columns**-0.5)
        add(f"{name}.bias", rows)

    def add_norm(name, width):
        add(f"{name}.weight", width, mean=1.0)
        add(f"{name}.bias", width)

    front, before = "encoder_frontend", 1
    for layer, (kernel, _) in enumerate(CONVOLUTIONS):
        name = f"{front}.feature_extractor.layers.{layer}"
        add(f"{name}.conv.weight", CHANNELS, before, kernel, std=(before * kernel) ** -0.5)
        before = CHANNELS
        if norms_first:
            add(f"{name}.conv.bias", CHANNELS)
            add_norm(f"{name}.layer_norm", CHANNELS)
        elif layer == 0:
            add_norm(f"{name}.group_norm", CHANNELS)
    add_norm(f"{front}.post_extract_layer_norm", CHANNELS)
    add_linear(f"{front}.model_dim_proj", WIDTH, CHANNELS)
    add(f"{front}.pos_encoder.conv.bias", WIDTH)
    add(f"{front}.pos_encoder.conv.weight_g", 1, 1, KERNEL, mean=1.0)
    add(f"{front}.pos_encoder.conv.weight_v", WIDTH, WIDTH // GROUPS, KERNEL)
    add_norm("encoder.layer_norm" if norms_first else f"{front}.layer_norm", WIDTH)
    for layer in range(LAYERS):
        name = f"encoder.layers.{layer}"
        for part in ("q_proj", "k_proj", "v_proj", "output_proj"):
            add_linear(f"{name}.self_attn.{part}", WIDTH, WIDTH)
        add_linear(f"{name}.ffn.inner_proj", INNER, WIDTH)
        add_linear(f"{name}.ffn.output_proj", WIDTH, INNER)
        add_norm(f"{name}.self_attn_layer_norm", WIDTH)
        add_norm(f"{name}.ffn_layer_norm", WIDTH)
    add_linear("final_proj", num_labels, WIDTH)
    return weights


def compute(weights, audio):
    """(T,) normalized audio -> (F, D) output of the encoder, and (F, V) logits."""
    norms_first = "encoder.layer_norm.weight" in weights

    def linear(name, x):
        return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    def norm(name, x):
        return F.layer_norm(x, x.shape[-1:], weights[f"{name}.weight"], weights[f"{name}.bias"])

    x = audio[None]  # (channels, frames)
    for layer, (_, stride) in enumerate(CONVOLUTIONS):
        name = f"encoder_frontend.feature_extractor.layers.{layer}"
        x = F.conv1d(x, weights[f"{name}.conv.weight"], weights.get(f"{name}.conv.bias"), stride)
        if f"{name}.layer_norm.weight" in weights:
            x = norm(f"{name}.layer_norm", x.T).T
        if f"{name}.group_norm.weight" in weights:  # one group per channel
            scaled = (x - x.mean(1, keepdim=True)) / (x.var(1, keepdim=True, correction=0) + 1e-5).sqrt()
            x = scaled * weights[f"{name}.group_norm.weight"][:, None] + weights[f"{name}.group_norm.bias"][:, None]
        x = F.gelu(x)
    front = "encoder_frontend"
    x = linear(f"{front}.model_dim_proj", norm(f"{front}.post_extract_layer_norm", x.T))
    x = x + F.gelu(_positions(weights, x))
    if not norms_first:
        x = norm(f"{front}.layer_norm", x)
    for layer in range(LAYERS):
        name = f"encoder.layers.{layer}"
        for part, function in (("self_attn", _attention), ("ffn", _feed_forward)):
            inner = norm(f"{name}.{part}_layer_norm", x) if norms_first else x
            x = x + function(linear, f"{name}.{part}", inner)
            x = x if norms_first else norm(f"{name}.{part}_layer_norm", x)
    if norms_first:
        x = norm("encoder.layer_norm", x)
    return x, linear("final_proj", x)


def _positions(weights, x):
    """The positional convolution, whose weights are a direction and a length for each place in the kernel."""
    name = "encoder_frontend.pos_encoder.conv"
    direction = weights[f"{name}.weight_v"]
    kernel = weights[f"{name}.weight_g"] * direction / direction.square().sum((0, 1), keepdim=True).sqrt()
    return F.conv1d(x.T, kernel, weights[f"{name}.bias"], padding=KERNEL // 2, groups=GROUPS)[:, :-1].T


def _attention(linear, name, x):
    query, key, value = (linear(f"{name}.{part}_proj", x).unflatten(1, (HEADS, -1)).transpose(0, 1) for part in "qkv")
    shares = (query @ key.transpose(1, 2) / query.shape[2] ** 0.5).softmax(2)
    return linear(f"{name}.output_proj", (shares @ value).transpose(0, 1).flatten(1))


def _feed_forward(linear, name, x):
    return linear(f"{name}.output_proj", F.gelu(linear(f"{name}.inner_proj", x)))


def as_pretrained(weights):
    """The same encoder with the parts of a pretrained model: a projection that computes no labels, and others."""
    changed = {name: tensor for name, tensor in weights.items() if not re.match("final_proj", name)}
    names = ("final_proj.weight", "final_target_proj.weight", "quantizer.entries", "masker.temporal_mask_embed")
    return changed | {name: torch.zeros(2, 2) for name in names}


def write_tokenizer(path, pieces=PIECES):
    """A SentencePiece model, written by the protocol buffers of `transformers`."""
    model = ModelProto()
    model.trainer_spec.model_prefix = "omni"
    model.normalizer_spec.name = "identity"
    for text, type in pieces:
        model.pieces.add(piece=text, score=-1.5, type=type)
    path.write_bytes(model.SerializeToString())
    return path
