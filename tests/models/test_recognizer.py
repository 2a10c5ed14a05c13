"""The recognizer: guarantees of every encoder, on tiny random checkpoints and mel-small."""

import json
import os
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
import tiny_encoders
import torch
import transformers
from cases import case
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from ctcdro.decoding.decode import best_texts
from ctcdro.models.encoders.lora import Lora
from ctcdro.models.encoders.pretrained import FAMILIES
from ctcdro.models.recognizer import build, load
from ctcdro.speech.audio import SAMPLE_RATE
from ctcdro.speech.vocabulary import Vocabulary

VOCABULARY = Vocabulary(["ces", "kor"], "abcdefghij ")


def every(*names):
    """Runs a test with these encoders."""
    return pytest.mark.parametrize("encoder", names, indirect=True)


# One encoder for each way in which padding is kept out and frames are counted.
every_encoder = every(
    *("wav2vec2", "wav2vec2, group norm", "hubert", "wavlm", "data2vec-audio", "wav2vec2-bert", "whisper", "parakeet"),
    "mel-small",
)
# One encoder for each front end.
every_front_end = every("wav2vec2", "wav2vec2-bert", "whisper", "parakeet", "mel-small")
every_head = pytest.mark.parametrize(
    ("encoder", "head"),
    [
        *(("wav2vec2", "transformer"), ("wav2vec2", "linear"), ("whisper", "convolution"), ("mel-small", "linear")),
        *(("parakeet", "transformer"), ("parakeet", "linear")),
    ],
    indirect=["encoder"],
)

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="session")
def encoder(request, folders):
    return folders.get(request.param, request.param)


def make(encoder, **options):
    """A recognizer without randomness in training."""
    model = build(encoder, len(VOCABULARY), **{"seed": 0, "spec_augment": False, **options})
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
        if isinstance(module, torch.nn.MultiheadAttention):
            module.dropout = 0.0
    return model


def draw(*lengths, seed=0):
    """Noise with a trend and an offset: (B, T) audio, (B,) lengths. An utterance is the same in every batch."""
    rows = []
    for length in lengths:
        generator = torch.Generator().manual_seed(seed + length)
        rows.append(0.1 * torch.randn(length, generator=generator) + torch.linspace(0.0, 0.2, length))
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True), torch.tensor(lengths)


LENGTHS = (9_000, 4_321, 12_345, 2_000)
TARGETS = torch.tensor([[3, 5, 6, 7], [4, 5, 5, 0], [3, 9, 8, 0], [4, 0, 0, 0]])
NUM_LABELS = torch.tensor([4, 3, 3, 1])


@every_encoder
def test_padding_changes_nothing_in_training(encoder):
    check_padding(make(encoder).train())


@every_head
def test_padding_changes_nothing_in_evaluation(encoder, head):
    with torch.no_grad():
        check_padding(make(encoder, head=head).eval())


def check_padding(model):
    audio, num_samples = draw(*LENGTHS)
    together = model(audio, num_samples)
    losses = model.losses(together, TARGETS, NUM_LABELS)
    for row, length in enumerate(LENGTHS):
        alone = model(*draw(length))
        n = int(together.num_frames[row])
        assert alone.logits.shape == (1, n, len(VOCABULARY))
        torch.testing.assert_close(alone.logits[0], together.logits[row, :n], rtol=1e-4, atol=2e-5)
        loss = model.losses(alone, TARGETS[row : row + 1], NUM_LABELS[row : row + 1])
        torch.testing.assert_close(loss[0], losses[row], rtol=1e-4, atol=1e-4)


@every_encoder
def test_every_parameter_gets_a_gradient_and_a_batch_the_sum_of_those_of_its_utterances(encoder):
    model = make(encoder).train()
    gradients = []
    for batches in ([LENGTHS], [(length,) for length in LENGTHS]):
        model.zero_grad()
        at = 0
        for lengths in batches:
            rows = slice(at, at + len(lengths))
            at += len(lengths)
            model.losses(model(*draw(*lengths)), TARGETS[rows], NUM_LABELS[rows]).sum().backward()
        gradients.append({name: parameter.grad for name, parameter in model.named_parameters()})
    without = [name for name, gradient in gradients[0].items() if gradient is None]  # several processes would wait
    assert without in ([], ["encoder.network.embed_positions.weight"])  # the sinusoids of Whisper
    assert [name for name, p in model.named_parameters() if not p.requires_grad] == without
    for name, gradient in gradients[0].items():
        if name in without:
            continue
        scale = float(gradient.abs().max())
        torch.testing.assert_close(gradients[1][name], gradient, rtol=1e-3, atol=1e-3 * scale + 1e-5, msg=name)


@every_front_end
def test_the_number_of_frames_is_exact(encoder):
    model = _cached(encoder)
    first = model.encoder.min_samples
    lengths = [*range(first, first + 4), *range(1_000, 3_000, 173), 3_199, 3_200, 3_201, 15_999, 16_000, 16_001]
    with torch.inference_mode():
        for length in lengths:
            output = model(*draw(length))
            assert output.logits.shape[1] == int(model.num_frames(torch.tensor([length]))) == int(output.num_frames)
            assert output.logits.isfinite().all()


@every_encoder
@settings(max_examples=8)
@given(lengths=st.lists(st.integers(600, 9_000), min_size=2, max_size=3))
def test_frames_of_a_batch_are_those_of_its_utterances(encoder, lengths):
    model = _cached(encoder)
    audio, num_samples = draw(*lengths)
    audio = torch.nn.functional.pad(audio, (0, 777))  # more padding than needed
    with torch.inference_mode():
        output = model(audio, num_samples)
        assert output.num_frames.tolist() == [int(model.num_frames(torch.tensor(length))) for length in lengths]
        assert output.logits.shape[1] == max(output.num_frames)
        alone = model(*draw(lengths[0])).logits[0]
        torch.testing.assert_close(output.logits[0, : len(alone)], alone, rtol=1e-4, atol=2e-5)


MADE = {}


def _cached(encoder):
    if encoder not in MADE:
        MADE[encoder] = make(encoder).eval()
    return MADE[encoder]


@every("wav2vec2", "whisper", "mel-small")
def test_building_is_determined_by_the_seed_and_leaves_the_generator(encoder):
    state = torch.get_rng_state()
    one, same, other = (build(encoder, 12, seed=seed).state_dict() for seed in (3, 3, 4))
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert any(not torch.equal(one[name], other[name]) for name in one)
    with torch.random.fork_rng():
        torch.manual_seed(3)
        by_caller = build(encoder, 12).state_dict()
    assert all(torch.equal(one[name], by_caller[name]) for name in one)


@every("wav2vec2", "wav2vec2-bert", "whisper", "whisper, encoder alone", "parakeet", "parakeet, encoder alone")
def test_a_checkpoint_keeps_its_weights_in_float32_and_its_masking_is_off(encoder):
    model = build(encoder, 12)
    weights = load_file(os.path.join(encoder, "model.safetensors"))
    for name, tensor in model.encoder.network.state_dict().items():
        assert tensor.dtype == torch.float32 or name.endswith("num_batches_tracked")
        assert any(torch.equal(weights[known], tensor) for known in weights if known.endswith(name))
    config = model.encoder.network.config
    assert getattr(config, "mask_time_prob", 0.0) == 0.0
    assert getattr(config, "layerdrop", 0.0) == getattr(config, "encoder_layerdrop", 0.0) == 0.0


@every("wav2vec2", "whisper", "parakeet")
def test_a_frozen_encoder_stays_as_it_is(encoder):
    model = build(encoder, len(VOCABULARY), freeze_encoder=True, seed=0).train()
    assert model.head.training
    assert not any(module.training for module in model.encoder.modules())
    model.losses(model(*draw(*LENGTHS)), TARGETS, NUM_LABELS).sum().backward()
    assert all(p.grad is None and not p.requires_grad for p in model.encoder.parameters())
    assert all(p.grad is not None for p in model.head.parameters())


@pytest.mark.parametrize(
    ("encoder", "head"), [("wav2vec2", "transformer"), ("mel-small", "linear")], indirect=["encoder"]
)
def test_the_head_can_be_applied_to_encoded_audio(encoder, head):
    model = make(encoder, head=head, freeze_encoder=encoder != "mel-small").eval()
    with torch.no_grad():
        hidden, num_frames = model.encode(*draw(*LENGTHS))
        num_layers = 1 if head == "linear" else model.encoder.num_layers
        assert hidden.shape == (len(LENGTHS), num_frames.max(), num_layers, model.encoder.width)
        output = model.apply_head(hidden, num_frames)
        expected = model(*draw(*LENGTHS))
    assert torch.equal(output.logits, expected.logits)
    assert torch.equal(output.num_frames, expected.num_frames)


@every("wav2vec2", "wavlm", "wav2vec2-bert", "whisper", "parakeet")
def test_lora_trains_few_parameters_and_starts_as_the_encoder_was(encoder, tmp_path):
    plain = make(encoder).eval()
    model = make(encoder, lora=Lora(rank=2)).eval()
    model.head.load_state_dict(plain.head.state_dict())
    audio, num_samples = draw(*LENGTHS)
    with torch.no_grad():
        torch.testing.assert_close(model(audio, num_samples).logits, plain(audio, num_samples).logits)
    model.train()
    model.losses(model(audio, num_samples), TARGETS, NUM_LABELS).sum().backward()
    trained = {name: p for name, p in model.encoder.named_parameters() if p.requires_grad}
    adapted = [name.split(".lora_")[0] for name in trained]
    assert {name.rsplit(".", 1)[1] for name in adapted} == set(FAMILIES[model.encoder.family].lora_targets)
    assert {re.search(r"layers\.(\d+)\.", name)[1] for name in adapted} == {"0", "1"}
    assert all("lora_" in name and p.grad is not None for name, p in trained.items())
    assert any(p.grad.abs().max() > 0 for p in trained.values())
    assert 0 < sum(p.numel() for p in trained.values()) < 0.2 * sum(p.numel() for p in model.encoder.parameters())
    with torch.no_grad():
        for name, p in trained.items():
            p.add_(0.05 * torch.randn(p.shape, generator=torch.Generator().manual_seed(len(name))))
    model.eval()
    with torch.no_grad():
        logits = model(audio, num_samples).logits
    assert not torch.allclose(logits, plain(audio, num_samples).logits, atol=1e-3)
    model.save(tmp_path / "model", VOCABULARY)
    loaded, _ = load(tmp_path / "model")
    with torch.no_grad():
        assert torch.equal(loaded(audio, num_samples).logits, logits)


def test_lora_without_a_rank_is_rejected(folders):
    with pytest.raises(ValueError, match="should be a positive integer value"):
        build(folders["wavlm"], 12, lora={"rank": 0})


@pytest.mark.parametrize(
    ("encoder", "lora"),
    [
        *((name, None) for name in ("wav2vec2, group norm", "wavlm", "data2vec-audio", "wav2vec2-bert", "whisper")),
        ("parakeet", None),
        ("wav2vec2", Lora(rank=2)),
    ],
    indirect=["encoder"],
)
def test_gradient_checkpointing_gives_the_same_gradients(encoder, lora):
    gradients = []
    for checkpointing in (False, True):
        model = make(encoder, gradient_checkpointing=checkpointing, lora=lora).train()
        # Two forward passes before the backward passes: no state of a batch may be overwritten.
        losses = [
            model.losses(model(*draw(*lengths)), TARGETS[:2], NUM_LABELS[:2]).sum()
            for lengths in ((9_000, 4_000), (2_000, 7_000))
        ]
        sum(losses).backward()
        gradients.append({name: p.grad for name, p in model.named_parameters() if p.grad is not None})
    assert gradients[0].keys() == gradients[1].keys()
    for name, gradient in gradients[0].items():
        torch.testing.assert_close(gradients[1][name], gradient, rtol=1e-4, atol=1e-5, msg=name)


@pytest.mark.bfloat16
@every_front_end
def test_losses_are_float32_in_a_run_of_bfloat16(encoder):
    model = make(encoder).train()
    audio, num_samples = draw(*LENGTHS)
    exact = model.losses(model(audio, num_samples), TARGETS, NUM_LABELS)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output = model(audio, num_samples)
        losses = model.losses(output, TARGETS, NUM_LABELS)
    assert output.logits.dtype == torch.bfloat16
    assert losses.dtype == torch.float32
    torch.testing.assert_close(losses, exact, rtol=0.05, atol=0.5)
    losses.sum().backward()
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)


def test_losses_are_those_of_torch():
    model = make("mel-small")
    output = model(*draw(*LENGTHS))
    log_probs = output.logits.log_softmax(-1).transpose(0, 1)
    expected = torch.nn.functional.ctc_loss(log_probs, TARGETS, output.num_frames, NUM_LABELS, reduction="none")
    torch.testing.assert_close(model.losses(output, TARGETS, NUM_LABELS), expected)


def test_a_transcript_that_does_not_fit_has_an_infinite_loss_and_no_gradient():
    model = make("mel-small")
    losses = model.losses(model(*draw(2_000)), torch.arange(1, 15)[None], torch.tensor([14]))
    assert losses.tolist() == [float("inf")]
    losses.sum().backward()
    assert all(p.grad.abs().max() == 0 for p in model.parameters())


@every_front_end
def test_wrong_input_is_rejected(encoder):
    model = _cached(encoder)
    least = model.encoder.min_samples
    with pytest.raises(ValueError, match=rf"`num_samples` is {least - 1}; .* needs {least} for one frame"):
        model(*draw(4_000, least - 1))
    with pytest.raises(ValueError, match=r"`num_samples` is 4,001, but `audio` has only 4,000 samples"):
        model(torch.zeros(1, 4_000), torch.tensor([4_001]))
    with pytest.raises(ValueError, match=r"must have shape \(utterances, samples\).*got \(4000,\) and \(1,\)"):
        model(torch.zeros(4_000), torch.tensor([4_000]))


@every("whisper")
def test_whisper_takes_its_whole_window_and_not_a_sample_more(encoder):
    model = _cached(encoder)
    with torch.inference_mode():
        assert model(*draw(48_000)).num_frames.tolist() == [75]
    with pytest.raises(ValueError, match=r"`num_samples` is 48,001 \(3.0 s\); .* accepts up to 48,000 \(3 s\). Split"):
        model(*draw(48_001))


def test_arguments_that_do_not_go_together_are_refused():
    for options, message in (
        ({"head": "deep"}, "`head` must be"),
        (
            {"head": "transformer"},
            "mel-small is trained from scratch with a linear head. It does not support another `head`",
        ),
        ({"freeze_encoder": True}, "does not support .*`freeze_encoder`"),
        ({"encoder": "any", "freeze_encoder": True, "lora": Lora()}, "mutually exclusive"),
        ({"encoder": "any", "freeze_encoder": True, "gradient_checkpointing": True}, "has no effect with"),
    ):
        with case(options), pytest.raises(ValueError, match=message):
            build(**{"encoder": "mel-small", "vocabulary_size": 12, **options})


def test_a_checkpoint_of_another_kind_is_refused(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(ValueError, match=r"must be a model of type wav2vec2, .*; .* has type bert"):
        build(str(tmp_path), 12)


@pytest.mark.parametrize("config", [{"num_hidden_layers": 10**9}, {"num_hidden_layers": 0}])
def test_a_checkpoint_of_a_billion_layers_or_none_is_refused(config, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "wav2vec2", **config}))
    with pytest.raises(ValueError, match=r"must have 1 to 1,000 layers"):
        build(str(tmp_path), 12)


def test_a_checkpoint_without_some_weights_is_refused(folders, tmp_path):
    weights = load_file(os.path.join(folders["hubert"], "model.safetensors"))
    weights.pop("encoder.layers.1.feed_forward.output_dense.weight")
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    shutil.copy(os.path.join(folders["hubert"], "config.json"), tmp_path)
    with pytest.raises(ValueError, match=r"has no weights for encoder.layers.1.feed_forward.output_dense.weight"):
        build(str(tmp_path), 12)


def test_normalization_follows_the_checkpoint(folders, tmp_path):
    assert build(folders["hubert"], 12).encoder.normalize
    assert not build(folders["hubert, group norm"], 12).encoder.normalize
    shutil.copytree(folders["hubert"], tmp_path / "hubert")
    (tmp_path / "hubert" / "processor_config.json").write_text('{"feature_extractor": {"do_normalize": false}}')
    assert not build(str(tmp_path / "hubert"), 12).encoder.normalize
    os.remove(tmp_path / "hubert" / "processor_config.json")
    (tmp_path / "hubert" / "preprocessor_config.json").write_text('{"do_normalize": false}')
    assert not build(str(tmp_path / "hubert"), 12).encoder.normalize


def test_a_batch_norm_is_warned_about(tmp_path):
    config = transformers.HubertConfig(**tiny_encoders.LARGE, conv_pos_batch_norm=True)
    transformers.HubertModel(config).save_pretrained(tmp_path)
    with pytest.warns(UserWarning, match="depends slightly on padding and on the other utterances"):
        build(str(tmp_path), 12)


def test_mel_small_needs_no_transformers(tmp_path):
    program = (
        "import sys; sys.modules['transformers'] = sys.modules['peft'] = None\n"
        "import torch, pytest\n"
        "from ctcdro.models.recognizer import build, load\n"
        "from ctcdro.speech.vocabulary import Vocabulary\n"
        "vocabulary = Vocabulary(['ces'], 'ab')\n"
        f"build('mel-small', len(vocabulary)).save({str(tmp_path / 'model')!r}, vocabulary)\n"
        f"model, _ = load({str(tmp_path / 'model')!r})\n"
        "model(torch.randn(1, 16_000), torch.tensor([16_000]))\n"
        "with pytest.raises(ImportError, match=r'needs the extra `train`'):\n"
        "    build('facebook/wav2vec2-base', 12)\n"
    )
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0


def test_mel_small_learns_a_few_utterances():
    torch.manual_seed(0)
    model = build("mel-small", len(VOCABULARY), seed=0).train()
    # Each label is a tone.
    texts = ["ab", "ba", "cab", "bac"]
    labels = [VOCABULARY.encode(text, "ces") for text in texts]
    time = torch.arange(3_200) / 16_000
    tones = [torch.cat([torch.sin(2 * torch.pi * (250 * label) * time) for label in row]) for row in labels]
    audio = torch.nn.utils.rnn.pad_sequence([tone + 0.01 * torch.randn(len(tone)) for tone in tones], batch_first=True)
    num_samples = torch.tensor([len(tone) for tone in tones])
    targets = torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in labels], batch_first=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for _ in range(60):
        optimizer.zero_grad()
        model.losses(model(audio, num_samples), targets, torch.tensor([len(row) for row in labels])).sum().backward()
        optimizer.step()
    assert best_texts(model.eval()(audio, num_samples), VOCABULARY) == [("ces", text) for text in texts]


def test_frames_have_the_times_of_the_audio_that_they_are_computed_from(folders):
    names = ("wav2vec2", "wav2vec2-bert", "whisper", "parakeet")
    models = [build(folders[name], 10, head="linear", seed=0) for name in names]
    models += [build("mel-small", 10, seed=0), build(folders["whisper"], 10, head="transformer", seed=0)]
    for model in models:
        for seconds in (0.5, 1.0, 2.3):
            num_frames = int(model.num_frames(torch.tensor([round(seconds * SAMPLE_RATE)])))
            times = model.frame_times(num_frames)
            assert np.diff(times) == pytest.approx(model.frame_seconds)
            # The first and the last frame are at most one and a half frames from the ends.
            assert 0 <= times[0] <= model.frame_seconds
            assert -1.5 * model.frame_seconds <= times[-1] - seconds <= 0.5 * model.frame_seconds
