"""Exported recognizers, used by `transformers` alone."""

import ast
import json
import sys
import types
from itertools import groupby

import pytest
import torch
import transformers
from tiny_encoders import parakeet_features
from transformers import dynamic_module_utils

from ctcdro.decoding.decode import best_texts
from ctcdro.models import heads, masks
from ctcdro.models.encoders.lora import Lora
from ctcdro.models.encoders.pretrained import FAMILIES
from ctcdro.models.exports.bundle import bundle
from ctcdro.models.exports.custom_model import modeling_code
from ctcdro.models.exports.export import export
from ctcdro.models.recognizer import build
from ctcdro.speech.vocabulary import Vocabulary

VOCABULARY = Vocabulary(["ces", "kor"], "abcdefghij ")
quietly = pytest.mark.filterwarnings("ignore:Support for mismatched key_padding_mask")  # WavLM in transformers
EXPORTED = ["wav2vec2", "wav2vec2, group norm", "wav2vec2, adapters", "hubert", "wavlm", "data2vec-audio"]
EXPORTED += ["wav2vec2-bert", "parakeet"]

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def audio():
    torch.manual_seed(0)
    # 76 windows, an even number: of an odd one, wav2vec2-bert of `transformers` has a last frame that is half padding.
    return 0.1 * torch.randn(1, 12_505)


def make(folder, head="linear", **options):
    model = build(folder, len(VOCABULARY), head=head, seed=0, **options).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_" in name:
                torch.nn.init.normal_(parameter, std=0.2)
        noise = torch.randn(1, 16_000, generator=torch.Generator().manual_seed(1))
        logits = model(noise, torch.tensor([16_000])).logits
        model.head.output.bias.sub_(logits.mean((0, 1)))  # so that the best label changes from frame to frame
    return model


def load_extractor(folder):
    """The feature extractor of a folder; that of Parakeet without librosa."""
    saved = json.loads((folder / "preprocessor_config.json").read_text())
    if saved["feature_extractor_type"] != "ParakeetFeatureExtractor":
        return transformers.AutoFeatureExtractor.from_pretrained(folder)
    extractor = parakeet_features()
    assert saved == {key: extractor.to_dict()[key] for key in saved}
    return extractor


@quietly
@pytest.mark.parametrize(
    ("name", "lora"),
    [*((name, None) for name in EXPORTED), *((name, Lora(rank=2)) for name in ("wavlm", "wav2vec2-bert", "parakeet"))],
)
def test_transformers_gives_the_same_logits(name, lora, folders, audio, tmp_path):
    model = make(folders[name], lora=lora)
    export(model, VOCABULARY, tmp_path / "exported")
    stock, info = transformers.AutoModelForCTC.from_pretrained(tmp_path / "exported", output_loading_info=True)
    assert type(stock).__name__ == FAMILIES[model.encoder.family].ctc_class
    assert not any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    extractor = load_extractor(tmp_path / "exported")
    inputs = extractor(audio[0].numpy(), sampling_rate=16_000, return_tensors="pt")
    with torch.inference_mode():
        expected, num_frames = model(audio, torch.tensor([audio.shape[1]]))
        logits = stock.eval()(**inputs).logits
    n = int(num_frames)
    torch.testing.assert_close(logits[:, :n], expected, rtol=1e-3, atol=5e-3)


@quietly
@pytest.mark.parametrize("name", ["wav2vec2", "wav2vec2-bert"])
def test_the_pipeline_gives_the_same_text(name, folders, audio, tmp_path):
    model = make(folders[name])
    export(model, VOCABULARY, tmp_path)
    pipeline = transformers.pipeline("automatic-speech-recognition", str(tmp_path), device="cpu")
    text = pipeline({"raw": audio[0].numpy(), "sampling_rate": 16_000})["text"]
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    _, expected = best_texts(model(audio, torch.tensor([audio.shape[1]])), VOCABULARY)[0]
    assert len(expected) > 5
    for language in VOCABULARY.languages:
        text = text.replace(f"[{language}]", "")
    text = text.replace(tokenizer.unk_token, "\N{REPLACEMENT CHARACTER}")
    assert " ".join(text.split()) == expected


CUSTOM = [
    ("mel-small", "linear", None),
    ("wav2vec2", "transformer", None),
    ("hubert, group norm", "convolution", None),
    ("wavlm", "transformer", Lora(rank=2)),
    ("data2vec-audio", "convolution", None),
    ("wav2vec2-bert", "transformer", None),
    ("whisper", "linear", None),
    ("parakeet", "convolution", Lora(rank=2)),
]


@pytest.fixture
def modules_cache(tmp_path, monkeypatch):
    """A folder for the code that `transformers` copies, instead of one in the home folder."""
    monkeypatch.setattr(dynamic_module_utils, "HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.setattr(sys, "path", sys.path.copy())


@quietly
@pytest.mark.parametrize(("name", "head", "lora"), CUSTOM)
def test_other_models_come_with_code_that_gives_the_same_log_probabilities(
    name, head, lora, folders, tmp_path, modules_cache
):
    model = make(folders.get(name, name), head=head, lora=lora)
    export(model, VOCABULARY, tmp_path / "exported")
    custom, info = transformers.AutoModelForCTC.from_pretrained(
        tmp_path / "exported", trust_remote_code=True, output_loading_info=True
    )
    assert not any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    assert type(custom).__module__.startswith("transformers_modules.")
    num_samples = torch.tensor([12_345, 7_777, model.encoder.min_samples])
    mask = torch.arange(12_345) < num_samples[:, None]
    audio = 0.1 * torch.randn(mask.shape, generator=torch.Generator().manual_seed(0)) * mask
    with torch.inference_mode():
        expected, num_frames = model(audio, num_samples)
        found = custom(audio, mask.long()).logits
    for row, n, log_probs in zip(found, num_frames, expected.log_softmax(-1), strict=True):
        torch.testing.assert_close(row[:n], log_probs[:n], rtol=0, atol=1e-5 if lora is None else 1e-4)
        assert (row[n:].argmax(-1) == 0).all()


@pytest.mark.parametrize(("name", "head"), [("mel-small", "linear"), ("whisper", "convolution")])
def test_the_pipeline_runs_the_code_of_other_models_and_gives_the_same_texts(
    name, head, folders, tmp_path, modules_cache
):
    model = make(folders.get(name, name), head=head)
    export(model, VOCABULARY, tmp_path / "exported")
    pipeline = transformers.pipeline(
        "automatic-speech-recognition", str(tmp_path / "exported"), device="cpu", trust_remote_code=True
    )
    audio = [0.1 * torch.randn(n, generator=torch.Generator().manual_seed(n)) for n in (16_000, 9_001, 12_345)]
    found = pipeline([{"raw": one.numpy(), "sampling_rate": 16_000} for one in audio], batch_size=3)
    for one, result in zip(audio, found, strict=True):
        labels = model(one[None], torch.tensor([len(one)])).logits.argmax(-1)[0].tolist()
        tokens = [VOCABULARY.tokens[label] for label, _ in groupby(labels) if label]
        assert len(tokens) > 5
        assert result["text"] == " ".join("".join(tokens).replace("|", " ").split())


def test_audio_that_the_model_cannot_use_is_refused_by_its_code(folders, tmp_path, modules_cache):
    export(make(folders["whisper"]), VOCABULARY, tmp_path / "exported")
    model = transformers.AutoModelForCTC.from_pretrained(tmp_path / "exported", trust_remote_code=True)
    with pytest.raises(ValueError, match=r"has 100 samples; this model needs at least 400"):
        model(torch.zeros(1, 100))
    with pytest.raises(
        ValueError, match=r"accepts up to 48000. Split the audio, in a pipeline with `chunk_length_s=3`"
    ):
        model(torch.zeros(1, 48_001))


def test_the_code_needs_torch_and_transformers_only():
    tree = ast.parse(modeling_code())
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {
        "." * node.level + node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module
    }
    packages = {name if name.startswith(".") else name.partition(".")[0] for name in imported}
    assert packages - sys.stdlib_module_names == {"torch", "transformers", ".configuration_ctcdro"}


def test_a_bundle_that_would_not_run_is_refused():
    with pytest.raises(ValueError, match=r"heads imports Blocks from ctcdro.models.convolution_blocks: add that"):
        bundle([heads])
    same = types.ModuleType("same")
    same.__file__ = masks.__file__
    with pytest.raises(ValueError, match=r"same and ctcdro.models.masks both define Number"):
        bundle([masks, same])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"format": "tflite"}, "`format` must be one of transformers, onnx; got 'tflite'"),
        ({"int8": True}, "--format onnx"),
    ],
)
def test_other_formats_are_refused(options, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        export(make("mel-small"), VOCABULARY, tmp_path / "exported", **options)
    assert not (tmp_path / "exported").exists()


def test_another_vocabulary_is_refused(folders, tmp_path):
    with pytest.raises(ValueError, match=r"`vocabulary` has 6 labels"):
        export(make(folders["hubert"]), Vocabulary(["ces"], "ab"), tmp_path)


def test_nothing_is_overwritten_and_nothing_is_said(folders, tmp_path, capsys):
    export(make(folders["hubert"]), VOCABULARY, tmp_path / "exported")
    assert capsys.readouterr() == ("", "")
    assert [path.name for path in tmp_path.iterdir()] == ["exported"]
    with pytest.raises(ValueError, match=r"exported is not empty"):
        export(make(folders["hubert"]), VOCABULARY, tmp_path / "exported")
