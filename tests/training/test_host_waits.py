"""The host waits for the device once per step, where it reads the figures for the log.

The GPU is a stand-in without values (`tests/helpers/device_without_values.py`). What torch's CUDA kernels do inside,
such as the copies of lengths in its CTC loss, is not visible on it; `benchmarks/gpu.py` counts that.
"""

import sys
from contextlib import nullcontext

import numpy as np
import pytest
import tiny_encoders
import torch
from accelerate import Accelerator
from device_without_values import DeviceWithoutValues
from test_training_mixed_languages import mix
from tones import write_dataset
from torch.optim import Optimizer
from torch.utils import _foreach_utils

from ctcdro.objectives.methods import METHODS
from ctcdro.runs.config import parse_config
from ctcdro.runs.folder import RunFolder
from ctcdro.speech.batch import LoadedUtterance, collate
from ctcdro.training.loop import train_step
from ctcdro.training.setup import set_up_run
from ctcdro.training.step_log import log_step

pytestmark = pytest.mark.usefixtures("one_thread")

EVERY_SIGNAL = [(method.name, signal) for method in METHODS.values() for signal in method.signals or (None,)]
READ = "aten._to_copy.default in training/step_log.py: values = torch.cat"


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    return write_dataset(tmp_path_factory.mktemp("dataset"), num_train=6, num_dev=1)


@pytest.fixture
def device(monkeypatch):
    """The stand-in as the device of all runs. It has neither autocast nor fused optimizers."""
    monkeypatch.setattr(Accelerator, "device", property(lambda self: torch.device(DeviceWithoutValues.name)))
    monkeypatch.setattr(torch, "autocast", lambda device_type, enabled: nullcontext())
    supported = _foreach_utils._get_fused_kernels_supported_devices()
    monkeypatch.setattr(
        sys.modules[Optimizer.__module__], "_get_fused_kernels_supported_devices", lambda: [*supported, "meta"]
    )
    with DeviceWithoutValues() as device:
        yield device


def take_steps(device, dataset, folder, *overrides, encoder="mel-small", num_steps=3, **sections):
    """What the host waited for in each step after the first."""
    values = {
        "dataset": str(dataset),
        "model": {"encoder": encoder, **sections.pop("model", {})},
        "data": {"num_workers": 0},
        "sampling": {"batch_duration": 2.0},
        "optimizer": {"batches_per_step": 2},
        "training": {"num_batches": 2 * num_steps, "validate_every_batches": 100, "trackers": []},
        **sections,
    }
    run = set_up_run(parse_config(values, overrides), RunFolder(folder))
    assert next(run.recognizer.parameters()).is_meta
    for _ in range(num_steps):
        device.waits.clear()
        record = train_step(run)
        log_step(run, record, lambda record: None)
        yield device.waits


def assert_one_wait(steps):
    for waits in steps:
        [wait] = waits
        assert wait.startswith(READ)


@pytest.mark.parametrize(("name", "signal"), EVERY_SIGNAL)
def test_a_step_with_any_objective_reads_once(device, dataset, tmp_path, name, signal):
    objective = {"name": name, **({"signal": signal} if signal else {})}
    if name == "static":
        objective["weights"] = {"aaa": 1.0, "bbb": 2.0}
    assert_one_wait(take_steps(device, dataset, tmp_path / "run", objective=objective))


@pytest.mark.parametrize("encoder", tiny_encoders.MODELS)
def test_a_step_of_any_encoder_reads_once(device, folders, dataset, tmp_path, encoder):
    assert_one_wait(take_steps(device, dataset, tmp_path / "run", encoder=folders[encoder], num_steps=1))
    assert all("speech/batch.py" in copy for copy in device.large_copies)  # the batch, which is pinned


@pytest.mark.parametrize(
    ("encoder", "model"),
    [
        ("wav2vec2", {"head": "linear", "spec_augment": True}),
        ("whisper", {"head": "linear", "spec_augment": True}),
        ("parakeet", {"head": "linear", "spec_augment": True}),
        ("wav2vec2-bert", {"head": "convolution"}),
        ("hubert", {"freeze_encoder": True}),
        ("wav2vec2", {"lora": {"rank": 2, "dropout": 0.1}, "gradient_checkpointing": True}),
    ],
)
def test_a_step_of_any_kind_of_model_reads_once(device, folders, dataset, tmp_path, encoder, model):
    steps = take_steps(device, dataset, tmp_path / "run", encoder=folders[encoder], model=model, num_steps=1)
    assert_one_wait(steps)
    assert all("speech/batch.py" in copy for copy in device.large_copies)


@pytest.mark.parametrize(
    "overrides",
    [
        ("objective.loss_normalization=frame", "objective.reduction=mean", "data.on_bad_audio=skip"),
        ("objective.loss_normalization=label", "objective.warmup_batches=3", "training.average_last_fraction=0.7"),
    ],
)
def test_no_setting_of_training_reads_more(device, dataset, tmp_path, overrides):
    assert_one_wait(take_steps(device, dataset, tmp_path / "run", *overrides))


def test_utterances_in_several_languages_need_no_other_read(device, tmp_path):
    dataset = write_dataset(tmp_path / "mixed", num_train=6, num_dev=1)
    mix(dataset / "train.jsonl")
    assert_one_wait(take_steps(device, dataset, tmp_path / "run"))


@pytest.mark.parametrize(
    "read",
    [
        lambda values: values[0].item(),
        lambda values: values.tolist(),
        lambda values: bool(values.sum() > 0),
        lambda values: values.cpu(),
        lambda values: values.nonzero(),
        lambda values: values[values > 0],
        lambda values: values[torch.tensor([0])],
        lambda values: torch.zeros(4).copy_(values),
        lambda values: values.copy_(torch.zeros(4)),
        lambda values: torch.zeros(4).to(values.device),
    ],
)
def test_every_kind_of_wait_is_noticed(read):
    with DeviceWithoutValues() as device:
        values = torch.zeros(4).to(device.name, non_blocking=True)
        values.copy_(torch.zeros(4), non_blocking=True)
        values[values > 0] = 1.0  # a kernel alone
        assert not device.waits
        read(values)
    assert len(device.waits) == 1


def test_only_what_is_computed_with_moves_to_the_device():
    lengths = [8_000, 6_000]
    batch = collate(
        [LoadedUtterance(np.ones(length, np.float32), [3, 4], 1, index) for index, length in enumerate(lengths)]
    )
    moved = batch.to("meta")
    assert [name for name in batch._fields[:-1] if getattr(moved, name).is_meta] == ["inputs", "targets", "groups"]
    assert moved.lengths is batch.lengths
