"""Recognizers that start from others: saved ones, those of `transformers`, other labels, and what does not fit."""

import json

import pytest
import torch
import transformers
from tiny_encoders import write_with_adapters
from tokenizers import Tokenizer
from tokenizers.models import BPE

from ctcdro.models.encoders.lora import Lora
from ctcdro.models.exports.export import export
from ctcdro.models.recognizer import build, load
from ctcdro.models.starting_point import count_labels, find_rows, grow_rows, read_starting_point
from ctcdro.speech.utterance import Utterance
from ctcdro.speech.vocabulary import Vocabulary

OLD = Vocabulary(["ces", "kor"], "abcde가")
NEW = Vocabulary(["ces", "pol"], "cdeł")
GROWN = Vocabulary(["ces", "kor", "pol"], "abcde가ł")
COUNTS = torch.arange(len(GROWN))

pytestmark = pytest.mark.usefixtures("one_thread")


def logits(model):
    audio = 0.1 * torch.randn(2, 16_000, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        return model.eval()(audio, torch.tensor([16_000, 9_000])).logits


def saved(folder, encoder, **options):
    """A saved recognizer with random weights, also in its adapters."""
    model = build(encoder, len(OLD), seed=1, **options)
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.2)
    model.save(folder, OLD)
    return model, read_starting_point(str(folder))


@pytest.mark.parametrize(
    ("encoder", "options"),
    [
        ("mel-small", {}),
        ("whisper, encoder alone", {"head": "convolution", "freeze_encoder": True}),
        ("wav2vec2", {"head": "transformer", "lora": Lora(rank=2)}),
        ("wav2vec2, group norm", {"head": "linear", "spec_augment": True}),
    ],
)
def test_old_labels_keep_their_logits_and_new_ones_are_like_them(encoder, options, folders, tmp_path):
    model, start = saved(tmp_path / "model", folders.get(encoder, encoder), **options)
    assert start.grow(NEW) == GROWN
    grown, copied = start.build(GROWN, COUNTS, seed=2)
    assert grown.training
    assert grown.settings.lora is None
    rows = torch.tensor([GROWN.tokens.index(token) for token in OLD.tokens])
    before, after = logits(model), logits(grown)
    torch.testing.assert_close(after[..., rows], before, rtol=1e-4, atol=1e-4)
    assert torch.equal(grown.head.output.weight[rows], model.head.output.weight)
    languages = [GROWN.tokens.index(f"[{language}]") for language in OLD.languages]
    new_language = after[..., GROWN.tokens.index("[pol]")]
    shift = COUNTS[GROWN.tokens.index("[pol]")].log() - COUNTS[languages].log().mean()
    torch.testing.assert_close(new_language, after[..., languages].mean(-1) + shift, rtol=1e-4, atol=1e-4)
    assert (copied.kept, copied.added, copied.dropped) == (OLD.tokens, ["[pol]", "ł"], [])
    assert copied.languages == ["ces", "kor"]


def test_adapters_can_be_added_on_top_and_the_encoder_frozen(folders, tmp_path):
    model, start = saved(tmp_path / "model", folders["wav2vec2"], head="linear", lora={"rank": 2})
    for settings in ({"lora": {"rank": 4}}, {"freeze_encoder": True}):
        again, _ = start.build(OLD, COUNTS[: len(OLD)], **settings)
        torch.testing.assert_close(logits(again), logits(model), rtol=1e-4, atol=1e-4)
    assert not any(parameter.requires_grad for parameter in again.encoder.parameters())


def test_only_the_encoder_can_be_copied(folders, tmp_path):
    model, start = saved(tmp_path / "model", folders["wav2vec2"], head="linear")
    other, copied = start.build(NEW, COUNTS[: len(NEW)], head="transformer", copies_head=False, seed=3)
    assert copied.added == NEW.tokens
    assert not copied.has_head
    assert other.settings.head == "transformer"
    weights = other.encoder.state_dict()
    assert all(torch.equal(weights[name], tensor) for name, tensor in model.encoder.state_dict().items())


@pytest.mark.parametrize("name", ["wav2vec2", "parakeet"])
def test_ctc_models_of_transformers(name, folders, tmp_path):
    """Labels are matched by name, with capitals if there are no small letters; the others are dropped."""
    model = build(folders[name], len(OLD), head="linear", seed=1)
    export(model, OLD, tmp_path / "exported")
    path = tmp_path / "exported" / "vocab.json"
    labels = json.loads(path.read_text())
    path.write_text(json.dumps({token.upper() if token in "abc" else token: row for token, row in labels.items()}))
    start = read_starting_point(str(tmp_path / "exported"))
    assert start.grow(NEW) is NEW
    recognizer, copied = start.build(NEW, count_labels(NEW, [Utterance("a", 1.0, "ceł", "pol")]), seed=2)
    assert copied.added == ["[pol]", "ł"]
    assert copied.dropped == ["[kor]", "A", "B", "가"]
    rows = [OLD.tokens.index(token) for token in copied.kept]
    columns = [NEW.tokens.index(token) for token in copied.kept]
    torch.testing.assert_close(logits(recognizer)[..., columns], logits(model)[..., rows], rtol=1e-4, atol=1e-4)


def test_a_parakeet_with_the_tokenizer_of_published_ones(folders, tmp_path):
    """Its labels are pieces of words, with the blank at the end. Those of one character can be used."""
    model = transformers.ParakeetForCTC.from_pretrained(folders["parakeet"])
    model.save_pretrained(tmp_path)
    pieces = ["<unk>", "\u2581t", "\u2581", "c", "ce", "e"]
    tokenizer = Tokenizer(BPE({piece: row for row, piece in enumerate(pieces)} | {"<pad>": 19}, [], unk_token="<unk>"))
    transformers.ParakeetTokenizer(tokenizer_object=tokenizer, unk_token="<unk>", pad_token="<pad>").save_pretrained(
        tmp_path
    )
    start = read_starting_point(str(tmp_path))
    recognizer, copied = start.build(NEW, torch.ones(len(NEW)), seed=2)
    assert copied.kept == ["<pad>", "<unk>", "|", "c", "e"]
    rows = [19, 0, 2, 3, 5]
    kept = [NEW.tokens.index(token) for token in copied.kept]
    assert torch.equal(recognizer.head.output.weight[kept], model.ctc_head.weight[rows, :, 0])
    assert torch.equal(recognizer.head.output.bias[kept], model.ctc_head.bias[rows])


@pytest.mark.parametrize("language", ["eng", "ces"])
@pytest.mark.parametrize("settings", [{}, {"lora": {"rank": 2}}])
def test_mms_starts_with_the_adapters_that_transformers_saved(language, settings, tmp_path):
    """English is in the main weights. Fine-tuning trains the adapters; LoRA keeps them as they are."""
    source = write_with_adapters(tmp_path / "mms", {"eng": "abcde", "ces": "ceě"})
    stock = transformers.Wav2Vec2ForCTC.from_pretrained(source)
    if language == "ces":
        stock.load_adapter(language)
        processor = transformers.Wav2Vec2Processor.from_pretrained(source, target_lang=language)
        source = tmp_path / "mms-ces"
        stock.save_pretrained(source)
        processor.save_pretrained(source)
    start = read_starting_point(str(source))
    recognizer, copied = start.build(NEW, torch.ones(len(NEW)), seed=2, **settings)
    adapters = [weight for name, weight in recognizer.named_parameters() if ".adapter_layer." in name]
    assert len(adapters) == 12
    assert all(weight.requires_grad is not bool(settings) for weight in adapters)
    rows = [start.labels.index(token) for token in copied.kept]
    columns = [NEW.tokens.index(token) for token in copied.kept]
    audio = 0.1 * torch.randn(16_000, generator=torch.Generator().manual_seed(0))
    features = transformers.Wav2Vec2FeatureExtractor()(audio.numpy(), sampling_rate=16_000, return_tensors="pt")
    with torch.inference_mode():
        expected = stock.eval()(**features).logits[..., rows]
        found = recognizer.eval()(audio[None], torch.tensor([16_000])).logits
    torch.testing.assert_close(found[..., columns], expected, rtol=1e-4, atol=1e-4)
    recognizer.save(tmp_path / "saved", NEW)
    assert torch.equal(logits(load(tmp_path / "saved")[0]), logits(recognizer))


def test_new_rows_of_a_model_without_languages():
    weight, bias = torch.randn(4, 3), torch.randn(4)
    rows = find_rows(NEW.tokens, ["<pad>", "<unk>", "|", "c"])
    counts = torch.tensor([0, 0, 5, 9, 3, 4, 0, 2, 8])
    new_weight, new_bias = grow_rows(weight, bias, rows, NEW, counts)
    kept = [label for label, row in enumerate(rows) if row is not None]
    assert torch.equal(new_weight[kept], weight)
    assert torch.equal(new_bias[kept], bias)
    torch.testing.assert_close(new_weight[NEW.tokens.index("[ces]")], weight[1:].mean(0))
    difference = new_bias[NEW.tokens.index("[ces]")] - new_bias[NEW.tokens.index("[pol]")]
    torch.testing.assert_close(difference, torch.tensor(9 / 3).log())


def test_models_that_do_not_fit(folders, tmp_path):
    _, start = saved(tmp_path / "model", "mel-small")
    with pytest.raises(ValueError, match=r"has the encoder mel-small, but model\.encoder is big\. Remove"):
        start.build(OLD, COUNTS[: len(OLD)], encoder="big")
    _, start = saved(tmp_path / "linear", folders["wav2vec2"], head="linear")
    with pytest.raises(ValueError, match=r"has the head linear, but model\.head is transformer.*init_head=false"):
        start.build(OLD, COUNTS[: len(OLD)], head="transformer")
    with pytest.raises(ValueError, match=r"it is WhisperEncoder, without a CTC head. Supported: Wav2Vec2ForCTC"):
        read_starting_point(folders["whisper, encoder alone"])
    model, start = saved(tmp_path / "model", "mel-small")
    with pytest.raises(ValueError, match=r"model\.init_from") as error:
        start.build(OLD, COUNTS[: len(OLD)], encoder="big", head="transformer")
    assert str(error.value) == (
        f"model.init_from: {tmp_path / 'model'} has the encoder mel-small and the head linear, but model.encoder is "
        "big and model.head is transformer. Remove model.encoder and model.head from the configuration, or add "
        "--set model.encoder=mel-small --set model.head=linear."
    )
    with pytest.raises(ValueError, match=r"model\.init_from: .*nowhere: no such folder"):
        read_starting_point(str(tmp_path / "nowhere"))  # the Hub is not asked
    with pytest.raises(ValueError, match=r"model\.init_from: Cannot load model '.*elsewhere/model'"):
        read_starting_point(str(tmp_path / "elsewhere" / "model"))
    export(model, OLD, tmp_path / "exported")
    with pytest.raises(ValueError, match=r"model\.init_from: .*exported: .* Specify its run folder instead\."):
        read_starting_point(str(tmp_path / "exported"))
    config = tmp_path / "model" / "config.json"
    config.write_text(config.read_text().replace("ctcdro recognizer 1", "ctcdro recognizer 9"))
    with pytest.raises(ValueError, match=r"written by another version of ctcdro \(format 'ctcdro recognizer 9'"):
        read_starting_point(str(tmp_path / "model"))
