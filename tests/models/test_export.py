"""Exported recognizers, used by `transformers` alone."""

import pytest
import torch
import transformers

from ctcdro.decoding.decode import best_texts
from ctcdro.models.encoders.lora import Lora
from ctcdro.models.encoders.pretrained import FAMILIES
from ctcdro.models.exports.export import export
from ctcdro.models.recognizer import build
from ctcdro.speech.vocabulary import Vocabulary

VOCABULARY = Vocabulary(["ces", "kor"], "abcdefghij ")
quietly = pytest.mark.filterwarnings("ignore:Support for mismatched key_padding_mask")  # WavLM in transformers
EXPORTED = ["wav2vec2", "wav2vec2, group norm", "hubert", "wavlm", "data2vec-audio", "wav2vec2-bert"]

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def audio():
    torch.manual_seed(0)
    # 76 windows, an even number: of an odd one, wav2vec2-bert of `transformers` has a last frame that is half padding.
    return 0.1 * torch.randn(1, 12_505)


def make(folder, **options):
    model = build(folder, len(VOCABULARY), head="linear", seed=0, **options).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_" in name:
                torch.nn.init.normal_(parameter, std=0.2)
        noise = torch.randn(1, 16_000, generator=torch.Generator().manual_seed(1))
        logits = model(noise, torch.tensor([16_000])).logits
        model.head.output.bias.sub_(logits.mean((0, 1)))  # so that the best label changes from frame to frame
    return model


@quietly
@pytest.mark.parametrize(
    ("name", "lora"),
    [*((name, None) for name in EXPORTED), *((name, Lora(rank=2)) for name in ("wavlm", "wav2vec2-bert"))],
)
def test_transformers_gives_the_same_logits(name, lora, folders, audio, tmp_path):
    model = make(folders[name], lora=lora)
    export(model, VOCABULARY, tmp_path / "exported")
    stock, info = transformers.AutoModelForCTC.from_pretrained(tmp_path / "exported", output_loading_info=True)
    assert type(stock).__name__ == FAMILIES[model.encoder.family].ctc_class
    assert not any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    extractor = transformers.AutoFeatureExtractor.from_pretrained(tmp_path / "exported")
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


@pytest.mark.parametrize(
    ("name", "head", "message"),
    [
        ("whisper", "linear", "has no CTC model with encoder"),
        ("mel-small", "linear", "has no CTC model with encoder mel-small"),
        ("hubert", "transformer", "and head transformer, only with encoders wav2vec2, .* and head linear"),
    ],
)
def test_what_transformers_cannot_hold_is_refused(name, head, message, folders, tmp_path):
    model = build(folders.get(name, name), len(VOCABULARY), head=head)
    with pytest.raises(ValueError, match=message):
        export(model, VOCABULARY, tmp_path / "exported")
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
