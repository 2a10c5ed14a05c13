"""The stream of batches: its workers end with it."""

import gc
import multiprocessing

import pytest
import torch
from tones import write_dataset

from ctcdro.sampling.samplers import LengthMatchedBatchSampler
from ctcdro.speech.dataset import SpeechDataset
from ctcdro.speech.manifest import Manifest
from ctcdro.speech.vocabulary import Vocabulary
from ctcdro.training.endless_loader import BatchStream


def open_stream(folder, num_workers, **options):
    write_dataset(folder)
    manifest = Manifest.read(folder / "train.jsonl")
    vocabulary = Vocabulary.of((one.text for one in manifest), (one.lang for one in manifest))
    groups = manifest.groups("lang")
    sampler = LengthMatchedBatchSampler(manifest.durations, groups.numbers, 4.0)
    return BatchStream(
        SpeechDataset(manifest, vocabulary, group_numbers=groups.numbers), sampler, num_workers, **options
    )


def test_workers_stop_without_garbage_collection_when_the_stream_is_dropped(tmp_path):
    gc.disable()
    try:
        stream = open_stream(tmp_path, num_workers=2)
        next(stream)
        assert len(multiprocessing.active_children()) == 2
        del stream
        assert multiprocessing.active_children() == []
    finally:
        gc.enable()


@pytest.mark.parametrize("num_workers", [0, 1])
def test_batches_for_a_gpu_are_in_pinned_memory(tmp_path, monkeypatch, num_workers):
    # Memory cannot be pinned without a GPU, so a copy marks what would be.
    pinned = []

    def pin(tensor, device=None):
        pinned.append(tensor.clone())
        return pinned[-1]

    monkeypatch.setattr(torch.Tensor, "pin_memory", pin)
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("cuda"))
    monkeypatch.setattr(torch.accelerator, "set_device_index", lambda index: None)
    monkeypatch.setattr(torch.accelerator, "current_device_index", lambda: 0)
    batch = next(open_stream(tmp_path, num_workers, pin_memory=True))
    tensors = [value for value in batch if isinstance(value, torch.Tensor)]
    assert len(tensors) == 7
    assert {id(tensor) for tensor in tensors} <= {id(tensor) for tensor in pinned}
    assert isinstance(batch.skipped, list)
