"""Exported ONNX graphs in onnxruntime, against the recognizer in torch."""

import json
import runpy
import sys
import wave
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

from ctcdro.decoding.decode import best_texts
from ctcdro.models.encoders.lora import Lora
from ctcdro.models.encoders.mel_small import MelSmall
from ctcdro.models.exports import onnx_model
from ctcdro.models.exports.export import export
from ctcdro.models.exports.weights import inference_copy
from ctcdro.models.log_mel import normalized_audio
from ctcdro.models.recognizer import Recognizer, build
from ctcdro.models.settings import RecognizerSettings
from ctcdro.speech.audio import read_audio
from ctcdro.speech.vocabulary import Vocabulary

VOCABULARY = Vocabulary(["ces", "kor"], "abcdefghij ")
EXAMPLE = Path(__file__).parents[2] / "examples" / "onnx_recognizer.py"
HEADS = ["linear", "transformer", "convolution"]
EVERY_FAMILY = [
    *("wav2vec2", "wav2vec2, group norm", "hubert", "hubert, group norm", "wavlm", "wavlm, group norm"),
    *("data2vec-audio", "wav2vec2-bert", "whisper", "parakeet"),
]

pytestmark = [
    pytest.mark.usefixtures("one_thread"),
    pytest.mark.filterwarnings("ignore:Support for mismatched key_padding_mask"),
]


def make(folder, head="linear", lora=None):
    model = build(folder, len(VOCABULARY), head=head, seed=0, lora=lora).eval()
    with torch.no_grad(), torch.random.fork_rng():
        torch.manual_seed(1)
        for name, parameter in model.named_parameters():
            if "lora_" in name:
                torch.nn.init.normal_(parameter, std=0.1)
        noise = 0.1 * torch.randn(1, 16_000)
        if head == "linear":  # so that the best label changes from frame to frame
            model.head.output.bias.sub_(model(noise, torch.tensor([16_000])).logits.mean((0, 1)))
    return model


def batch_of(*lengths):
    """Noise, and a sine on top of it, followed by garbage instead of silence."""
    num_samples = torch.tensor(lengths)
    size = max(lengths) + 333
    audio = 0.1 * torch.randn(len(lengths), size, generator=torch.Generator().manual_seed(sum(lengths)))
    audio += 0.05 * torch.sin(0.07 * torch.arange(size))
    is_real = torch.arange(size) < num_samples[:, None]
    return audio.where(is_real, 0.0), audio.where(is_real, 0.7), num_samples


def run(session, audio, num_samples):
    return session.run(None, {"input_values": audio.numpy(), "input_lengths": num_samples.numpy()})


def assert_equal_to_torch(model, folder, atol=1e-4):
    session = onnxruntime.InferenceSession(folder / "model.onnx")
    least = model.encoder.min_samples
    for lengths in ([least], [16_000, least + 1, 9_001], [12_345, 16_160, 15_999, 7_777], [9_280]):
        silent, noisy, num_samples = batch_of(*lengths)
        with torch.inference_mode():
            logits, num_frames = model(silent, num_samples)
        found, found_frames = run(session, noisy, num_samples)
        assert found_frames.tolist() == num_frames.tolist()
        for number, (n, expected) in enumerate(zip(num_frames, logits.log_softmax(-1), strict=True)):
            np.testing.assert_allclose(found[number, :n], expected[:n], rtol=0, atol=atol)
            assert (found[number, n:, 0] == 0).all()
            assert (found[number, n:, 1:] < -1000).all()
            alone = num_samples[number : number + 1]
            [[single], _] = run(session, noisy[number : number + 1, : int(alone)], alone)
            np.testing.assert_allclose(found[number, :n], single[:n], rtol=0, atol=atol)


@pytest.mark.parametrize("name", ["mel-small", *EVERY_FAMILY])
def test_the_model_that_is_traced_is_equal_to_the_recognizer(name, folders):
    for head in ["linear"] if name == "mel-small" else HEADS:
        model = make(folders.get(name, name), head, Lora(rank=2) if name == "wavlm" else None)
        traced = inference_copy(model)
        traced.encoder.make_exportable()
        silent, noisy, num_samples = batch_of(16_000, model.encoder.min_samples, 9_001)
        with torch.inference_mode():
            logits, expected_frames = model(silent, num_samples)
            log_probs, num_frames = traced(noisy, num_samples)
        assert num_frames.tolist() == expected_frames.tolist()
        for found, expected, n in zip(log_probs, logits.log_softmax(-1), num_frames, strict=True):
            torch.testing.assert_close(found[:n], expected[:n], rtol=0, atol=1e-4)


def test_the_graph_of_a_pretrained_encoder_is_equal_to_torch(folders, tmp_path):
    model = make(folders["whisper"], "convolution")
    export(model, VOCABULARY, tmp_path / "exported", "onnx")
    assert_equal_to_torch(model, tmp_path / "exported")


@pytest.mark.slow
@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("name", EVERY_FAMILY)
def test_the_graphs_of_all_families_and_heads_are_equal_to_torch(name, head, folders, tmp_path):
    model = make(folders[name], head)
    export(model, VOCABULARY, tmp_path / "exported", "onnx")
    assert_equal_to_torch(model, tmp_path / "exported")


@pytest.fixture(scope="module")
def mel_small(one_thread, tmp_path_factory):
    """A recognizer with one block, which is exported in seconds, and its export, with int8 weights."""
    folder = tmp_path_factory.mktemp("exports") / "exported"
    settings = RecognizerSettings("mel-small", len(VOCABULARY), "linear")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = Recognizer(MelSmall(width=48, num_blocks=1), settings).eval()
    export(model, VOCABULARY, folder, "onnx", int8=True, readme="# Card")
    return model, folder


def test_mel_small_needs_no_other_front_end(mel_small):
    assert_equal_to_torch(*mel_small)


def test_the_folder_has_all_that_a_program_needs(mel_small):
    _, folder = mel_small
    files = {"model.onnx", "model.int8.onnx", "tokens.txt", "vocab.txt", "config.json", "README.md"}
    assert {path.name for path in folder.iterdir()} == files
    expected = {
        "format": "ctcdro onnx 1",
        "vocabulary": VOCABULARY.tokens,
        "languages": ["ces", "kor"],
        "sample_rate": 16_000,
        "subsampling_factor": 480,
        "seconds_per_frame": 0.03,
        "min_samples": 400,
        "max_samples": None,
    }
    assert json.loads((folder / "config.json").read_text()) == {"model_type": "wav2vec2-ctc", **expected}
    lines = (folder / "tokens.txt").read_text(encoding="utf-8").splitlines()
    assert lines[:5] == ["<blk> 0", "<unk> 1", "▁ 2", "[ces] 3", "[kor] 4"]
    assert len(lines) == len(VOCABULARY)
    for name in ("model.onnx", "model.int8.onnx"):
        onnx.checker.check_model(folder / name)
        session = onnxruntime.InferenceSession(folder / name)
        metadata = session.get_modelmeta().custom_metadata_map
        assert {key: json.loads(metadata[key]) for key in expected} == expected
        assert [one.shape for one in session.get_inputs()] == [["batch", "samples"], ["batch"]]
        assert [one.shape for one in session.get_outputs()] == [["batch", "frames", len(VOCABULARY)], ["batch"]]


def test_int8_weights_change_little_and_spare_the_mel_filters(mel_small):
    _, folder = mel_small
    quantized = onnx.load(folder / "model.int8.onnx").graph
    assert sum(node.op_type == "MatMulInteger" for node in quantized.node) == 4  # all linear layers
    [filters] = [weights for weights in quantized.initializer if weights.name.endswith("filters")]
    assert filters.data_type == onnx.TensorProto.FLOAT
    silent, _, num_samples = batch_of(16_000)
    exact, _ = run(onnxruntime.InferenceSession(folder / "model.onnx"), silent, num_samples)
    rough, _ = run(onnxruntime.InferenceSession(folder / "model.int8.onnx"), silent, num_samples)
    assert 1e-4 < np.abs(exact - rough).max() < 0.2


def test_large_weights_are_in_a_second_file(mel_small, tmp_path, monkeypatch, capfd):
    model, folder = mel_small
    monkeypatch.setattr(onnx_model, "MAX_FILE_BYTES", 1_000)
    export(model, VOCABULARY, tmp_path / "exported", "onnx", int8=True)
    assert capfd.readouterr() == ("", "")
    silent, _, num_samples = batch_of(16_000)
    for name in ("model.onnx", "model.int8.onnx"):
        assert (tmp_path / "exported" / f"{name}.data").stat().st_size > 1_000
        found, _ = run(onnxruntime.InferenceSession(tmp_path / "exported" / name), silent, num_samples)
        expected, _ = run(onnxruntime.InferenceSession(folder / name), silent, num_samples)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.filterwarnings("ignore")  # those of the exporter
def test_the_mean_and_the_variance_of_long_audio_are_exact(tmp_path):
    """In float32, onnxruntime's sums over samples one after the other would have errors of 1e-5."""

    class Normalize(torch.nn.Module):
        def forward(self, audio, num_samples):
            return normalized_audio(audio, num_samples)

    shapes = ({1: "samples"}, None)
    example = torch.zeros(1, 16_001), torch.tensor([16_001])
    path = tmp_path / "normalize.onnx"
    torch.onnx.export(Normalize().eval(), example, path, dynamic_shapes=shapes, dynamo=True, verbose=False)
    size = 320_000
    audio = 0.01 + 0.1 * torch.randn(1, size, generator=torch.Generator().manual_seed(0))
    session = onnxruntime.InferenceSession(path)
    names = [one.name for one in session.get_inputs()]
    [found] = session.run(None, dict(zip(names, (audio.numpy(), np.array([size])), strict=True)))
    exact = audio.double()
    expected = (exact - exact.mean()) / (exact.var(correction=0) + 1e-7).sqrt()
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


def test_the_missing_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(ImportError, match=r"Exporting to ONNX needs the extra `onnx`: pip install 'ctcdro\[onnx\]'"):
        export(make("mel-small"), VOCABULARY, tmp_path / "exported", "onnx")
    assert not (tmp_path / "exported").exists()


# The example


def write_wav(path, audio, rate=16_000):
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes((audio * 2**15).to(torch.int16).numpy().tobytes())
    return str(path)


def test_the_example_transcribes_wav_files(mel_small, tmp_path):
    model, folder = mel_small
    recognizer = runpy.run_path(str(EXAMPLE))["Recognizer"](folder / "model.onnx")
    for n in (16_000, 9_001):
        noise = 0.1 * torch.randn(n, generator=torch.Generator().manual_seed(n))
        path = write_wav(tmp_path / f"{n}.wav", noise)
        audio = torch.from_numpy(read_audio(path))[None]
        [expected] = best_texts(model(audio, torch.tensor([n])), VOCABULARY)
        assert len(expected[1]) > 5
        assert recognizer.transcribe(path) == expected
    with pytest.raises(ValueError, match=r"slow.wav: expected 16 kHz, one channel, 16 bits; got .* \(8000, 1, 2\)"):
        recognizer.transcribe(write_wav(tmp_path / "slow.wav", torch.zeros(10), 8_000))
    with pytest.raises(ValueError, match=rf"short.wav: too short: 96 samples; .* {model.encoder.min_samples}\."):
        recognizer.transcribe(write_wav(tmp_path / "short.wav", torch.zeros(96)))


def test_the_example_is_short():
    assert len([line for line in EXAMPLE.read_text().splitlines() if line.strip()]) <= 30


def test_the_example_refuses_another_format(mel_small, tmp_path):
    graph = onnx.load(mel_small[1] / "model.onnx")
    for one in graph.metadata_props:
        one.value = one.value.replace("ctcdro onnx 1", "ctcdro onnx 2")
    onnx.save(graph, tmp_path / "new.onnx")
    with pytest.raises(ValueError, match=r"new.onnx: expected the format 'ctcdro onnx 1'; got \"ctcdro onnx 2\""):
        runpy.run_path(str(EXAMPLE))["Recognizer"](str(tmp_path / "new.onnx"))
