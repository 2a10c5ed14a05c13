"""The device of a process."""

import os

import pytest
import torch

from ctcdro.runtime.devices import use_device, visible_gpus


@pytest.fixture(autouse=True)
def four_gpus(monkeypatch):
    """A machine with four GPUs; torch finds those that the variable shows."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.delenv("WORLD_SIZE", raising=False)

    def count():
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        return 4 if visible is None else len([name for name in visible.split(",") if name in "0123" and name])

    monkeypatch.setattr(torch.cuda, "device_count", count)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: count() > 0)
    yield
    os.environ.pop("CUDA_VISIBLE_DEVICES", None)


@pytest.mark.parametrize(
    ("visible", "device", "left"),
    [
        (None, "auto", ["0", "1", "2", "3"]),
        (None, "cuda", ["0", "1", "2", "3"]),
        (None, "cuda:2", ["2"]),
        ("1,3", "cuda:1", ["3"]),
        ("1,3", "auto", ["1", "3"]),
        ("1,3", "cpu", []),
        (None, "cpu", []),
    ],
)
def test_a_device_hides_the_others(visible, device, left):
    if visible is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = visible
    use_device(device)
    assert visible_gpus() == left


@pytest.mark.parametrize(("visible", "device"), [("", "cuda"), ("1,3", "cuda:2"), ("0,1,2,3", "cuda:4")])
def test_a_gpu_that_does_not_exist_is_rejected(visible, device):
    os.environ["CUDA_VISIBLE_DEVICES"] = visible
    with pytest.raises(ValueError, match=f"^--device {device}: PyTorch finds no such GPU"):
        use_device(device)


@pytest.mark.parametrize("device", ["gpu", "cuda:", "cuda:-1", "CUDA", "cpu:0", ""])
def test_other_names_are_rejected(device):
    with pytest.raises(ValueError, match=r"^--device must be auto, cpu, cuda or a GPU such as cuda:1; got"):
        use_device(device)


def test_a_numbered_gpu_is_for_a_single_process(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    use_device("cuda")
    with pytest.raises(ValueError, match="is for a single process"):
        use_device("cuda:1")
