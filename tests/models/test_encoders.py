"""Pretrained encoders give the output of `transformers` for the utterance alone."""

import numpy as np
import pytest
import torch
import transformers
from tiny_encoders import parakeet_features

from ctcdro.models.encoders.pretrained import from_pretrained

WAVEFORM = ["wav2vec2", "wav2vec2, group norm", "wav2vec2, adapters", "hubert", "wavlm", "data2vec-audio"]
LENGTHS = torch.tensor([9_000, 4_321, 12_345])

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def audio():
    torch.manual_seed(0)
    rows = [0.1 * torch.randn(length) for length in LENGTHS.tolist()]
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)


def assert_same_layers(layers, stock, row):
    """All layers of one utterance; the last one after its norm."""
    assert len(layers) == len(stock.hidden_states)
    for layer, expected in zip(layers, (*stock.hidden_states[:-1], stock.last_hidden_state), strict=True):
        torch.testing.assert_close(layer[row, : expected.shape[1]], expected[0], rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("is_sped_up", [False, True])
@pytest.mark.parametrize("name", WAVEFORM)
def test_layers_are_those_of_the_utterance_alone(name, is_sped_up, folders, audio):
    encoder = from_pretrained(folders[name]).eval()
    if is_sped_up:
        encoder.speed_up_inference()
    stock = transformers.AutoModel.from_pretrained(folders[name]).eval()
    extractor = transformers.Wav2Vec2FeatureExtractor(do_normalize=encoder.normalize)
    with torch.inference_mode():
        layers = encoder(audio, LENGTHS)
        assert torch.equal(encoder(audio, LENGTHS, all_layers=False)[0], layers[-1])
        for row, length in enumerate(LENGTHS.tolist()):
            values = extractor(audio[row, :length].numpy(), sampling_rate=16_000, return_tensors="pt").input_values
            assert_same_layers(layers, stock(values, output_hidden_states=True), row)


def test_layers_of_wav2vec2_bert_are_those_of_the_utterance_alone(folders, audio):
    encoder = from_pretrained(folders["wav2vec2-bert"]).eval()
    stock = transformers.AutoModel.from_pretrained(folders["wav2vec2-bert"]).eval()
    extractor = transformers.SeamlessM4TFeatureExtractor()
    with torch.inference_mode():
        layers = encoder(audio, LENGTHS)
        assert torch.equal(encoder(audio, LENGTHS, all_layers=False)[0], layers[-1])
        for row, length in enumerate(LENGTHS.tolist()):
            features = extractor(audio[row, :length].numpy(), sampling_rate=16_000, return_tensors="pt")
            last = stock(**features).last_hidden_state[0]
            n = int(features["attention_mask"].sum())
            torch.testing.assert_close(layers[-1][row, :n], last[:n], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", ["whisper", "whisper, encoder alone"])
def test_layers_of_whisper_are_those_of_transformers_where_it_has_a_full_window(name, folders):
    encoder = from_pretrained(folders[name]).eval()
    samples = encoder.max_samples
    audio = np.random.default_rng(0).normal(size=samples).astype(np.float32)
    audio[-400:] = 0.0  # at the very end, `transformers` mirrors
    features = transformers.WhisperFeatureExtractor(chunk_length=3)(audio, sampling_rate=16_000, return_tensors="pt")
    with torch.inference_mode():
        layers = encoder(torch.from_numpy(audio)[None], torch.tensor([samples]))
        last = encoder(torch.from_numpy(audio)[None], torch.tensor([samples]), all_layers=False)
        assert torch.equal(last[0], layers[-1])
        stock = encoder.network(features.input_features, output_hidden_states=True)
    assert_same_layers(layers, stock, 0)


@pytest.mark.parametrize("name", ["parakeet", "parakeet, encoder alone"])
def test_layers_of_parakeet_are_those_of_the_utterance_alone(name, folders, audio):
    encoder = from_pretrained(folders[name]).eval()
    stock = transformers.ParakeetEncoder.from_pretrained(folders[name], config=encoder.network.config).eval()
    extractor = parakeet_features()
    with torch.inference_mode():
        layers = encoder(audio, LENGTHS)
        assert torch.equal(encoder(audio, LENGTHS, all_layers=False)[0], layers[-1])
        for row, length in enumerate(LENGTHS.tolist()):
            features = extractor(audio[row, :length].numpy(), sampling_rate=16_000, return_tensors="pt")
            # The last frame of `transformers` may contain padding only.
            outputs = stock(**features, output_hidden_states=True)
            n = int(encoder.num_frames(LENGTHS[row]))
            assert int(outputs.attention_mask.sum()) == n
            for layer, expected in zip(layers, outputs.hidden_states, strict=True):
                torch.testing.assert_close(layer[row, :n], expected[0, :n], rtol=1e-4, atol=2e-5)


def test_loading_says_nothing(folders, capsys):
    from_pretrained(folders["wav2vec2"])
    assert capsys.readouterr() == ("", "")


def test_a_misspelled_name_is_not_looked_up_on_the_hub(monkeypatch):
    monkeypatch.setattr(transformers.AutoConfig, "from_pretrained", lambda *_, **__: pytest.fail("looked up"))
    with pytest.raises(ValueError, match=r"no encoder 'mel-smal'\. Did you mean mel-small\?"):
        from_pretrained("mel-smal")
