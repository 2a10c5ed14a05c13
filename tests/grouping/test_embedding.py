"""Features of utterances: independent of their batch, and equal to those computed by other means."""

import numpy as np
import pytest
import torch
from tones import write_dataset

from ctcdro import Manifest
from ctcdro.decoding.decode import decode
from ctcdro.grouping.embedding import choose_layers, embed, load_encoder, load_run, pool
from ctcdro.models.recognizer import build
from ctcdro.speech.audio import read_audio
from ctcdro.speech.signal_to_noise import estimate_snr
from ctcdro.speech.vocabulary import Vocabulary


@pytest.fixture(scope="module")
def manifest(tmp_path_factory):
    return Manifest.read(write_dataset(tmp_path_factory.mktemp("tones"), num_train=5, num_dev=1) / "train.jsonl")


@pytest.fixture(scope="module")
def saved(manifest, tmp_path_factory):
    """Saved recognizers, with one layer for the head and with several."""
    vocabulary = Vocabulary.of([one.text for one in manifest], [one.lang for one in manifest])
    folder = tmp_path_factory.mktemp("saved")
    build("mel-small", len(vocabulary), seed=0).save(folder / "mel-small", vocabulary)
    return folder / "mel-small"


@pytest.mark.parametrize("name", ["mel-small", "whisper", "wav2vec2, group norm"])
def test_features_do_not_depend_on_the_other_utterances(name, manifest, folders):
    encoder = load_encoder(folders.get(name, name))
    together = embed(manifest, encoder).features
    alone = np.concatenate([embed(manifest.select([index]), encoder).features for index in range(len(manifest))])
    np.testing.assert_allclose(together, alone, rtol=1e-3, atol=1e-4)
    assert together.shape == (len(manifest), 2 * 80 if name == "mel-small" else 2 * 32)


def test_pooling_is_the_mean_and_the_deviation_of_the_real_frames():
    hidden = torch.randn(3, 9, 4, generator=torch.manual_seed(0))
    lengths = [9, 5, 1]
    expected = [
        np.concatenate([row[:length].mean(0), row[:length].std(0)])
        for row, length in zip(hidden.numpy(), lengths, strict=True)
    ]
    np.testing.assert_allclose(pool(hidden, torch.tensor(lengths)).numpy(), expected, atol=1e-5)


def test_losses_are_those_of_decoding_per_character(manifest, saved):
    run = load_run(saved)
    losses = decode(run.recognizer, run.vocabulary, manifest).losses / [len(one.text) for one in manifest]
    np.testing.assert_allclose(embed(manifest, run.recognizer.encoder, run).losses, losses, rtol=1e-5)
    np.testing.assert_allclose(embed(manifest, load_encoder("mel-small"), run).losses, losses, rtol=1e-5)


def test_a_run_and_its_encoder_have_the_same_features(manifest, saved):
    run = load_run(saved)
    own = embed(manifest, run.recognizer.encoder, run).features
    assert np.array_equal(own, embed(manifest, load_encoder(str(saved))).features)


def test_energies_of_mel_small_keep_the_level_of_the_audio(manifest):
    samples = torch.from_numpy(read_audio(manifest[0].audio_filepath))
    encoder = load_encoder("mel-small")
    [quiet], [loud] = (encoder(factor * samples[None], torch.tensor([len(samples)])) for factor in (1, 2))
    torch.testing.assert_close(loud - quiet, torch.full_like(quiet, np.log(4)), rtol=0, atol=1e-3)


def test_the_signal_to_noise_ratio_is_that_of_the_audio_without_padding(manifest):
    found = embed(manifest, load_encoder("mel-small")).signal_to_noise
    np.testing.assert_allclose(found, [estimate_snr(read_audio(one.audio_filepath)) for one in manifest], rtol=1e-6)


def test_layers_are_pooled_in_their_order(manifest, folders):
    encoder = load_encoder(folders["whisper"])
    parts = [embed(manifest, encoder, layers=[layer]).features for layer in (0, 2)]
    assert np.array_equal(embed(manifest, encoder, layers=[-1, 0]).features, np.hstack(parts))
    assert np.array_equal(embed(manifest, encoder).features, embed(manifest, encoder, layers=[1]).features)


@pytest.mark.parametrize(("num_layers", "layers"), [(3, [3]), (3, [0, -4])])
def test_layers_that_an_encoder_does_not_have_are_rejected(num_layers, layers):
    with pytest.raises(ValueError, match="must be between -3 and 2: the encoder has 3 layers; got"):
        choose_layers(num_layers, layers)
