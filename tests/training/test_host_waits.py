"""Nothing between a batch and its weighted loss reads from the device, which would make the host wait for a GPU.

Torch's meta device stands in for a GPU: it has no values, so that every attempt to read one is an error.
"""

from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
import tiny_encoders
import torch
from transformers import masking_utils

from ctcdro import ctc_dro
from ctcdro.models.recognizer import build
from ctcdro.runs.config import parse_config
from ctcdro.speech.batch import LoadedUtterance, collate
from ctcdro.training.run import Run


@pytest.fixture(scope="module", autouse=True)
def ctc_loss_without_values():
    """The meta device lacks the CTC loss, which on a GPU takes lengths from the host."""

    def shapes_of_ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, zero_infinity=False):
        assert input_lengths.is_cpu
        assert target_lengths.is_cpu
        num_frames, num_utterances, _ = log_probs.shape
        alphas = log_probs.new_empty(num_utterances, num_frames, 2 * targets.shape[1] + 1)
        return log_probs.new_empty(num_utterances), alphas

    with torch.library._scoped_library("aten", "IMPL") as library:
        library.impl("_ctc_loss.Tensor", shapes_of_ctc_loss, "Meta")
        yield


@pytest.fixture(autouse=True)
def parts_of_others(monkeypatch):
    """The meta device has no autocast, which our code switches off anyway. `transformers` asks once per batch whether
    any frame is padding; that read is not ours."""
    monkeypatch.setattr(torch, "autocast", lambda device_type, enabled: nullcontext())
    monkeypatch.setattr(masking_utils, "_ignore_bidirectional_mask_sdpa", lambda *args, **kwargs: False)


@pytest.fixture
def batch():
    lengths = [8_000, 6_000]
    return collate(
        [LoadedUtterance(np.ones(length, np.float32), [3, 4], 1, index) for index, length in enumerate(lengths)]
    )


def test_only_what_is_computed_with_moves_to_the_device(batch):
    moved = batch.to("meta")
    assert [name for name in batch._fields[:-1] if getattr(moved, name).is_meta] == ["inputs", "targets", "groups"]
    assert moved.lengths is batch.lengths


@pytest.mark.parametrize(
    ("head", "normalize"), [("transformer", "none"), ("convolution", "frame"), ("linear", "label")]
)
def test_no_head_or_normalization_reads_from_the_device(folders, batch, head, normalize):
    weigh(build(folders["wav2vec2"], 7, head=head, seed=0), batch, normalize)


@pytest.mark.parametrize("name", ["mel-small", *tiny_encoders.MODELS])
def test_no_encoder_reads_from_the_device(folders, batch, name):
    weigh(build(folders.get(name, name), 7, seed=0), batch)


@pytest.mark.parametrize("name", ["mel-small", "wav2vec2", "wav2vec2-bert", "whisper", "parakeet"])
def test_no_masks_in_an_encoder_are_read_from_the_device(folders, batch, name):
    weigh(build(folders.get(name, name), 7, head="linear", spec_augment=True, seed=0), batch)


def weigh(model, batch, normalize="none"):
    """What a training step does with a batch, on a device without values."""
    config = parse_config({"dataset": "-", "objective": {"loss_normalization": normalize}})
    run = SimpleNamespace(wrapped_model=model.to("meta"), recognizer=model, config=config)
    objective = ctc_dro(2, step_size=1e-2, smoothing=0.5, signal="loss_per_character", warmup_batches=1).to("meta")
    batch = batch.to("meta")
    losses = Run.losses(run, batch)
    assert losses.is_meta
    assert objective(losses, batch.groups, batch.num_characters).is_meta
