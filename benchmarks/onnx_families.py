"""Is an exported ONNX graph equal to the recognizer, for every encoder family and head?

.venv/bin/python benchmarks/onnx_families.py DATASET [RUN ...]

Compares log probabilities of test utterances, one at a time, in pairs of three systems: the graph in onnxruntime, the
recognizer in PyTorch, and the same in float64, which shows the rounding errors of each. "Within 1e-4" is the number of
utterances without a larger difference.

- Trained runs are compared on utterances of any length, evenly spaced through the manifest.
- Families are compared with random weights, on utterances of at most `--max-seconds`. Encoders have the width of a
  published checkpoint and `--layers` layers; biases, norms and batch statistics are random too.
- Random heads give flat distributions, for which agreement is easy. Their output layer is therefore trained on
  arbitrary labels of the frames, until the median probability of the best label is 0.95.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from measuring import ResultTable
from onnx_export import LogProbs, differences, in_float64, in_onnxruntime, open_graph, recognize_all
from torch import Tensor, nn

from ctcdro import Manifest
from ctcdro.models.encoders.base import PretrainedEncoder
from ctcdro.models.encoders.mel_small import MelSmall
from ctcdro.models.encoders.pretrained import from_options
from ctcdro.models.exports.export import export
from ctcdro.models.exports.onnx_model import MODEL
from ctcdro.models.heads import Head
from ctcdro.models.recognizer import Recognizer, load, seeded
from ctcdro.models.settings import RecognizerSettings
from ctcdro.runs.folder import RunFolder
from ctcdro.speech.audio import read_audio
from ctcdro.speech.vocabulary import Vocabulary

Audio = Sequence[npt.NDArray[np.float32]]

# Settings that differ from the defaults of `transformers`, which are those of a published checkpoint.
ARCHITECTURES: dict[str, dict[str, Any]] = {
    "wav2vec2": {},
    "wav2vec2, layer norm": {"feat_extract_norm": "layer", "do_stable_layer_norm": True, "conv_bias": True},
    "hubert": {},
    "wavlm": {},
    "data2vec-audio": {},
    "wav2vec2-bert": {},
    "whisper": {"d_model": 512, "encoder_attention_heads": 8, "encoder_ffn_dim": 2048},
    "parakeet_encoder": {"hidden_size": 512, "intermediate_size": 2048},
}


class Encoded(NamedTuple):
    hidden: tuple[Tensor, ...]
    num_frames: Tensor


@torch.inference_mode()
def encode(encoder: PretrainedEncoder | MelSmall, audio: npt.NDArray[np.float32]) -> Encoded:
    num_samples = torch.tensor([len(audio)])
    hidden = encoder(torch.from_numpy(audio)[None], num_samples, all_layers=True)
    return Encoded(hidden, encoder.num_frames(num_samples))


@torch.inference_mode()
def apply_head(head: nn.Module, encoded: Encoded) -> Tensor:
    logits: Tensor = head(*encoded)[0]
    return logits


def random_encoder(name: str, num_layers: int) -> PretrainedEncoder:
    family = name.partition(",")[0]
    layers = "encoder_layers" if family == "whisper" else "num_hidden_layers"
    config = {**ARCHITECTURES[name], layers: num_layers}
    with seeded(0), torch.no_grad():
        encoder = from_options({"family": family, "config": config, "normalize": "layer norm" in name})
        for key, parameter in encoder.named_parameters():
            if key.endswith(("bias", "norm.weight")):  # zeros and ones would hide errors
                nn.init.normal_(parameter, mean=float(key.endswith("weight")), std=0.3)
        for module in encoder.modules():  # with the weights of `transformers`, all frames are nearly equal
            if family == "parakeet_encoder" and isinstance(module, (nn.Conv1d, nn.Conv2d)):
                module.reset_parameters()
        for key, buffer in encoder.named_buffers():
            if key.endswith(("running_mean", "running_var")):
                buffer.add_(torch.rand(buffer.shape))
    return encoder


def sharpen(head: Any, encoded: Sequence[Encoded], probability: float = 0.95) -> None:
    """Trains the output layer on arbitrary labels of frames, until the best one has this median probability."""
    features: list[Tensor] = []
    hook = head.output.register_forward_pre_hook(lambda module, inputs: features.append(inputs[0][0]))
    logits = torch.cat([apply_head(head, one) for one in encoded])
    hook.remove()
    frames, labels = torch.cat(features), (logits - logits.mean(0)).argmax(-1)
    generator = torch.Generator().manual_seed(0)
    for parameter in head.output.parameters():
        nn.init.zeros_(parameter)
    optimizer = torch.optim.Adam(head.output.parameters(), lr=0.02)
    for _ in range(3000):
        batch = torch.randint(len(frames), (1000,), generator=generator)
        logits = head.output(frames[batch].clone())  # copies of inference tensors may be used in training
        if logits.softmax(-1).amax(-1).median() >= probability:
            return
        optimizer.zero_grad()
        F.cross_entropy(logits, labels[batch].clone()).backward()
        optimizer.step()


def compare(name: str, models: Sequence[Recognizer], vocabulary: Vocabulary, audio: Audio, table: ResultTable) -> None:
    """Adds a row per model. The models have the same encoder. Random heads, without a run, are sharpened."""
    encoder = models[0].encoder
    in_torch = [encode(encoder, one) for one in audio]
    exact_encoder = in_float64(encoder)
    exact = [encode(exact_encoder, one) for one in audio]
    for model in models:
        if name in ARCHITECTURES:
            sharpen(model.head, in_torch)
        outputs: list[list[LogProbs]] = [
            [apply_head(head, one).log_softmax(-1).numpy() for one in encoded]
            for head, encoded in ((model.head, in_torch), (in_float64(model.head), exact))
        ]
        with tempfile.TemporaryDirectory() as temporary:
            export(model, vocabulary, Path(temporary) / "exported", "onnx")
            session = open_graph(Path(temporary) / "exported" / MODEL, torch.get_num_threads())
            outputs.append(recognize_all(partial(in_onnxruntime, session), audio))
        found_in_torch, found_in_float64, found_in_onnx = outputs
        best = np.concatenate([one.max(-1) for one in found_in_float64])
        table.add(
            name,
            model.settings.head,
            f"{np.median(np.exp(best)):.2f}",
            *differences(found_in_onnx, found_in_torch),
            *differences(found_in_onnx, found_in_float64),
            *differences(found_in_torch, found_in_float64),
        )


def main(dataset: Path, runs: Sequence[Path], architectures: Sequence[str], options: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    manifest = Manifest.read(dataset / "test.jsonl")
    vocabulary = Vocabulary.of([one.text for one in manifest], [one.languages for one in manifest])

    def chosen(max_seconds: float) -> Audio:
        short = [one for one in manifest if one.duration <= max_seconds]
        indices = np.linspace(0, len(short) - 1, min(options.utterances, len(short)))
        return [read_audio(short[int(index)].audio_filepath) for index in indices]

    pairs = ("onnxruntime and PyTorch", "onnxruntime and float64", "PyTorch and float64")
    columns = [column for pair in pairs for column in (pair, "within 1e-4")]
    table = ResultTable("encoder", "head", "median probability of the best label", *columns)
    for run in runs:
        model, labels = load(RunFolder(run).require_model())
        compare(f"{model.settings.encoder}, trained", [model], labels, chosen(float("inf")), table)
    for name in architectures:
        encoder = random_encoder(name, options.layers)
        with seeded(0):
            settings = [RecognizerSettings(name, len(vocabulary), head) for head in get_args(Head)]
            models = [Recognizer(encoder, one).eval() for one in settings]
        compare(name, models, vocabulary, chosen(options.max_seconds), table)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", type=Path)
    parser.add_argument("runs", type=Path, nargs="*")
    parser.add_argument("--random", nargs="*", choices=ARCHITECTURES, default=list(ARCHITECTURES), help="families")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--utterances", type=int, default=100)
    parser.add_argument("--max-seconds", type=float, default=1.5)
    arguments = parser.parse_args()
    main(arguments.dataset, arguments.runs, arguments.random, arguments)
