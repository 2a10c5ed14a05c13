"""The stream of batches: its workers end with it."""

import gc
import multiprocessing

from tones import write_dataset

from ctcdro.sampling.samplers import LengthMatchedBatchSampler
from ctcdro.speech.dataset import SpeechDataset
from ctcdro.speech.manifest import Manifest
from ctcdro.speech.vocabulary import Vocabulary
from ctcdro.training.endless_loader import BatchStream


def open_stream(folder, num_workers):
    write_dataset(folder)
    manifest = Manifest.read(folder / "train.jsonl")
    vocabulary = Vocabulary.of((one.text for one in manifest), (one.lang for one in manifest))
    groups = manifest.groups("lang")
    sampler = LengthMatchedBatchSampler(manifest.durations, groups.numbers, 4.0)
    return BatchStream(SpeechDataset(manifest, vocabulary, group_numbers=groups.numbers), sampler, num_workers)


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
