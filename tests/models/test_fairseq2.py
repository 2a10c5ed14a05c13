"""Models of fairseq2 in `transformers`, against what fairseq2 computes."""

import pytest
import torch
import transformers
from fairseq2_models import HEADS, PIECES, as_pretrained, compute, random_weights, write_tokenizer
from in_process import run

from ctcdro.models.fairseq2 import config_options, convert_fairseq2, convert_names, labels_of
from ctcdro.models.recognizer import build
from ctcdro.models.starting_point import read_starting_point
from ctcdro.speech.sentencepiece import VocabularyPiece, read_pieces
from ctcdro.speech.vocabulary import Vocabulary

pytestmark = pytest.mark.usefixtures("one_thread")

LENGTHS = torch.tensor([9_000, 4_321, 12_345])


@pytest.fixture
def audio():
    generator = torch.Generator().manual_seed(0)
    rows = [0.5 * torch.randn(length, generator=generator) for length in LENGTHS.tolist()]
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)


@pytest.fixture
def tokenizer(tmp_path):
    return write_tokenizer(tmp_path / "tokenizer.model")


def normalized(row):
    """fairseq2's normalization of audio is a layer norm without weights. It adds more to the variance than that of
    `transformers`, which matters for quiet audio only."""
    return torch.nn.functional.layer_norm(row, row.shape)


def save(weights, path):
    torch.save(weights, path)
    return path


@pytest.mark.parametrize("norms_first", [True, False])
@pytest.mark.parametrize("is_nested", [True, False])
def test_transformers_computes_what_fairseq2_computes(norms_first, is_nested, audio, tokenizer, tmp_path):
    weights = random_weights(norms_first)
    nested = {"model": {f"module.{name}": tensor for name, tensor in weights.items()}}
    checkpoint = save(nested if is_nested else weights, tmp_path / "model.pt")
    converted = convert_fairseq2(checkpoint, tmp_path / "out", tokenizer, num_heads=HEADS)
    assert converted == (3, 32, len(PIECES))
    model, info = transformers.AutoModelForCTC.from_pretrained(tmp_path / "out", output_loading_info=True)
    assert not any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    for row, length in enumerate(LENGTHS.tolist()):
        values = normalized(audio[row, :length])
        hidden, logits = compute(weights, values)
        with torch.inference_mode():
            found = model.eval().wav2vec2(values[None]).last_hidden_state[0]
            torch.testing.assert_close(found, hidden, rtol=0, atol=1e-5)
            torch.testing.assert_close(model(values[None]).logits[0], logits, rtol=0, atol=1e-5)


def test_a_recognizer_starts_from_it_with_its_labels(audio, tokenizer, tmp_path):
    weights = random_weights()
    convert_fairseq2(save(weights, tmp_path / "model.pt"), tmp_path / "out", tokenizer, num_heads=HEADS)
    vocabulary = Vocabulary(["ces", "pol"], "acdełč ")
    start = read_starting_point(str(tmp_path / "out"))
    model, copied = start.build(vocabulary, torch.ones(len(vocabulary)), seed=0)
    assert copied.added == ["[ces]", "[pol]"]
    assert copied.dropped == ["<1>", "</s>", "<10>", "가"]  # two have no name, because others have it
    rows = [0 if token == "<pad>" else start.labels.index(token) for token in copied.kept]
    columns = [vocabulary.tokens.index(token) for token in copied.kept]
    with torch.inference_mode():
        output = model.eval()(audio, LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        _, logits = compute(weights, normalized(audio[row, :length]))
        assert len(logits) == int(output.num_frames[row])
        torch.testing.assert_close(output.logits[row, : len(logits), columns], logits[:, rows], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("is_pretrained", [True, False])
def test_an_encoder_without_labels(is_pretrained, audio, tmp_path):
    weights = random_weights()
    checkpoint = save(as_pretrained(weights) if is_pretrained else weights, tmp_path / "model.pt")
    assert convert_fairseq2(checkpoint, tmp_path / "out", num_heads=HEADS).num_labels is None
    encoder = build(str(tmp_path / "out"), 7, seed=0).eval().encoder
    assert encoder.normalize
    with torch.inference_mode():
        [last] = encoder(audio, LENGTHS, all_layers=False)
    hidden, _ = compute(weights, normalized(audio[2]))
    torch.testing.assert_close(last[2], hidden, rtol=1e-4, atol=1e-4)


def test_the_command_converts_a_checkpoint(tokenizer, tmp_path):
    checkpoint = save(random_weights(), tmp_path / "model.pt")
    options = ("--num-heads", str(HEADS), "--tokenizer", tokenizer, "--out", tmp_path / "out")
    done = run("convert", checkpoint, *options)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"3 layers of width 32, 13 labels\nModel: {tmp_path / 'out'}\n"
    assert {path.name for path in (tmp_path / "out").iterdir()} >= {"config.json", "model.safetensors", "vocab.json"}
    assert run("convert", checkpoint, *options).returncode == 2  # nothing is overwritten


@pytest.mark.parametrize(("width", "num_layers", "num_heads"), [(768, 12, 12), (1024, 24, 16), (1280, 48, 16)])
def test_settings_of_published_models_are_found_from_their_weights(width, num_layers, num_heads):
    """Those of wav2vec 2.0 base, and of omniASR with 300 million and a billion parameters."""
    config = transformers.Wav2Vec2Config(
        **{"hidden_size": width, "num_hidden_layers": num_layers, "intermediate_size": 4 * width},
        **({} if width == 768 else {"feat_extract_norm": "layer", "do_stable_layer_norm": True, "conv_bias": True}),
        **{"num_attention_heads": num_heads, "mask_time_prob": 0.0},
    )
    with torch.device("meta"):
        options = config_options(transformers.Wav2Vec2Model(config).state_dict())
    assert {key: getattr(config, key) for key in options if "drop" not in key} == {
        key: value for key, value in options.items() if "drop" not in key
    }


def test_the_first_label_is_the_blank_and_labels_are_unique():
    labels = labels_of([VocabularyPiece(*piece) for piece in PIECES])
    assert labels[:6] == ["<pad>", "<1>", "</s>", "<unk>", "|", "a"]
    assert len(set(labels)) == len(labels) == len(PIECES)


def test_checkpoints_of_old_torch_are_read(tmp_path):
    checkpoint = tmp_path / "model.pt"
    torch.save({"model": random_weights()}, checkpoint, _use_new_zipfile_serialization=False)
    convert_fairseq2(checkpoint, tmp_path / "out", num_heads=4)
    assert (tmp_path / "out" / "config.json").is_file()


@pytest.mark.parametrize("content", [b"junk\n", b"", b"PK\3\4junk"])
def test_other_files_are_named_without_advice_to_load_them_unsafely(tmp_path, content):
    checkpoint = tmp_path / "model.pt"
    checkpoint.write_bytes(content)
    with pytest.raises(ValueError, match=r"model\.pt: not a file of tensors .* or damaged") as reported:
        convert_fairseq2(checkpoint, tmp_path / "out")
    assert "weights_only" not in str(reported.value)


class Spy:
    """Would write a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def test_a_checkpoint_is_not_executed(tmp_path):
    checkpoint = save({"model": random_weights(), "config": Spy(tmp_path / "written")}, tmp_path / "model.pt")
    with pytest.raises(ValueError, match=r"model.pt: not a file of tensors that torch can read safely"):
        convert_fairseq2(checkpoint, tmp_path / "out")
    assert {path.name for path in tmp_path.iterdir()} == {"model.pt"}


def without(name):
    return {key: tensor for key, tensor in random_weights().items() if key != name}


def changed(**tensors):
    return random_weights() | {name.replace("__", "."): tensor for name, tensor in tensors.items()}


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ([1, 2], "it holds no tensors by name"),
        ({"a": torch.ones(1)}, "it is not a wav2vec 2.0 model of fairseq2; unknown names: a"),
        (changed(llama_decoder__layer_norm__weight=torch.ones(3)), "unknown names: llama_decoder.layer_norm.weight"),
        (without("encoder.layers.2.ffn.inner_proj.bias"), "weights are missing, or have another shape .*dense.bias"),
        (without("encoder.layer_norm.weight"), "it has only one of encoder.layer_norm.weight and"),
        (changed(encoder__layers__1__ffn__inner_proj__bias=torch.ones(9)), "or have another shape .*dense.bias"),
        (without("encoder_frontend.pos_encoder.conv.weight_v"), "it has no weights with 3 axes for"),
        (random_weights(num_labels=12), r"has 12 labels, but the tokenizer has 13 pieces. Use the tokenizer of the"),
        (as_pretrained(random_weights()), "it has no output layer, as pretrained models. Omit --tokenizer"),
    ],
)
def test_checkpoints_that_cannot_be_converted(state, message, tokenizer, tmp_path):
    checkpoint = save(state, tmp_path / "model.pt")
    with pytest.raises(ValueError, match=rf"model.pt: cannot convert this checkpoint: .*{message}"):
        convert_fairseq2(checkpoint, tmp_path / "out", tokenizer, num_heads=HEADS)
    assert not (tmp_path / "out").exists()


def test_heads_that_do_not_divide_the_width():
    weights, _ = convert_names(random_weights())
    with pytest.raises(ValueError, match=r"width 32, which 5 attention heads do not divide. Set --num-heads"):
        config_options(weights, num_heads=5)


def test_a_tokenizer_that_is_none_is_named(tmp_path):
    (tmp_path / "a.model").write_bytes(b"")
    with pytest.raises(ValueError, match=r"a.model: not a SentencePiece model \(no pieces\)"):
        read_pieces(tmp_path / "a.model")
