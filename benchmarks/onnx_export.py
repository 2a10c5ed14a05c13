"""Is an exported ONNX model equal to the recognizer, and how fast is it?

.venv/bin/python benchmarks/onnx_export.py RUN DATASET

Transcribes utterances of the test data, evenly spaced through the manifest, one at a time. The recognizer in PyTorch
and the graphs in onnxruntime take turns, with the same number of threads.

- "Difference" is the largest absolute difference of a log probability from that of PyTorch, and "within 1e-4" the
  number of utterances in which it is at most 1e-4. The same follows for PyTorch in float64 instead, which shows the
  rounding errors of each system.
- "Real-time factor" is computing time over duration, without reading audio: the minimum of all rounds. With one thread,
  the time is that of the processor, which other processes affect less.
- "Speed-up" is the time of PyTorch over that of the graph: median over rounds, with a 95% bootstrap interval.
"""

from __future__ import annotations

import argparse
import copy
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import onnxruntime
import torch
from measuring import ResultTable, seconds_in_turns, shown
from torch import nn

from ctcdro import Manifest
from ctcdro.models.encoders.waveform import WaveformEncoder
from ctcdro.models.exports.export import export
from ctcdro.models.exports.onnx_model import INT8_MODEL, MODEL
from ctcdro.models.log_mel import LogMel
from ctcdro.models.recognizer import Recognizer, load
from ctcdro.runs.folder import RunFolder
from ctcdro.scoring.scores import Scores, score
from ctcdro.scoring.transcripts import Prediction
from ctcdro.speech.audio import SAMPLE_RATE, read_audio
from ctcdro.speech.vocabulary import Vocabulary

LogProbs = npt.NDArray[np.float32]
Recognize = Callable[[npt.NDArray[np.float32]], LogProbs]
Module = TypeVar("Module", bound=nn.Module)


def in_torch(model: Recognizer, audio: npt.NDArray[np.float32]) -> LogProbs:
    with torch.inference_mode():
        logits = model(torch.from_numpy(audio)[None], torch.tensor([len(audio)])).logits
        return logits[0].log_softmax(-1).numpy()


def in_float64(model: Module) -> Module:
    """A copy that computes in double precision, from mel features or normalized audio on."""
    exact = copy.deepcopy(model).double()
    for module in exact.modules():
        if isinstance(module, LogMel):
            module.register_forward_hook(lambda module, inputs, output: output.double())
        elif isinstance(module, WaveformEncoder):
            module.network.feature_extractor.register_forward_pre_hook(lambda module, inputs: inputs[0].double())
    return exact


def differences(outputs: Sequence[LogProbs], expected: Sequence[LogProbs]) -> tuple[str, str]:
    """The largest difference of all utterances, and the number of utterances in which it is at most 1e-4."""
    largest = np.array([np.abs(one - other).max() for one, other in zip(outputs, expected, strict=True)])
    return f"{largest.max():.1e}", str(int((largest <= 1e-4).sum()))


def in_onnxruntime(session: onnxruntime.InferenceSession, audio: npt.NDArray[np.float32]) -> LogProbs:
    inputs = {"input_values": audio[None], "input_lengths": np.array([len(audio)])}
    return session.run(["logprobs"], inputs)[0][0]


def recognize_all(recognize: Recognize, audio: Sequence[npt.NDArray[np.float32]]) -> list[LogProbs]:
    return [recognize(one) for one in audio]


def open_graph(path: Path, num_threads: int) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = num_threads
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def scores_of(outputs: Sequence[LogProbs], manifest: Manifest, chosen: Sequence[int], vocabulary: Vocabulary) -> Scores:
    predictions = []
    for index, output in zip(chosen, outputs, strict=True):
        language, text = vocabulary.decode_frames(output.argmax(-1).tolist())
        one = manifest[index]
        predictions.append(Prediction(str(index), one.lang, one.text, language, text))
    return score(predictions)


def num_bytes(path: Path) -> int:
    """The size of a file, or of all files in a folder."""
    return sum(file.stat().st_size for file in ([path] if path.is_file() else path.iterdir()))


def compare(run: Path, dataset: Path, num_utterances: int, num_rounds: int, num_threads: int) -> None:
    torch.set_num_threads(num_threads)
    model_folder = RunFolder(run).require_model()
    model, vocabulary = load(model_folder)
    manifest = Manifest.read(dataset / "test.jsonl")
    chosen = [int(index) for index in np.linspace(0, len(manifest) - 1, min(num_utterances, len(manifest)))]
    audio = [read_audio(manifest[index].audio_filepath) for index in chosen]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "exported"
        export(model, vocabulary, folder, "onnx", int8=True)
        systems: dict[str, Recognize] = {"PyTorch": partial(in_torch, model)}
        sizes = [num_bytes(model_folder)]
        for name, file in {"onnxruntime, float32": MODEL, "onnxruntime, int8": INT8_MODEL}.items():
            systems[name] = partial(in_onnxruntime, open_graph(folder / file, num_threads))
            sizes.append(num_bytes(folder / file))
    passes = [partial(recognize_all, recognize, audio) for recognize in systems.values()]
    outputs = [recognize() for recognize in passes]
    clock = time.process_time if num_threads == 1 else time.perf_counter
    seconds = seconds_in_turns(passes, num_rounds, num_warm_up=0, clock=clock)
    duration = sum(map(len, audio)) / SAMPLE_RATE
    print(f"{len(chosen)} utterances, {duration:.0f} s of audio, {num_threads} threads, {num_rounds} rounds\n")
    exact = recognize_all(partial(in_torch, in_float64(model)), audio)
    table = ResultTable(
        *("system", "MB", "difference", "within 1e-4", "difference from float64", "within 1e-4"),
        *("real-time factor", "speed-up", "worst CER", "mean CER"),
    )
    for number, name in enumerate(systems):
        scores = scores_of(outputs[number], manifest, chosen, vocabulary)
        worst, mean = scores.worst(), scores.mean()
        assert worst is not None
        assert mean is not None
        table.add(
            name,
            f"{sizes[number] / 1e6:.1f}",
            *differences(outputs[number], outputs[0]),
            *differences(outputs[number], exact),
            f"{seconds[:, number].min() / duration:.4f}",
            shown(seconds[:, 0] / seconds[:, number]),
            f"{100 * worst[1]:.2f}% ({worst[0]})",
            f"{100 * mean:.2f}%",
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("dataset", type=Path)
    parser.add_argument("--utterances", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    compare(arguments.run, arguments.dataset, arguments.utterances, arguments.rounds, arguments.threads)
