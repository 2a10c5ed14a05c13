"""Devices: by name, with a clear error if there is no such device."""

import pytest
import torch
from cases import case

from ctcdro.runtime.devices import select_device


def test_unknown_names_are_rejected():
    for name in ("gpu", "cuda:", "cuda:one", "mps", ""):
        with (
            case(name),
            pytest.raises(ValueError, match=r"^--device \(`device` in Python\) must be auto, cpu, cuda or cuda:N; got"),
        ):
            select_device(name)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize("name", ["cuda", "cuda:1"])
def test_a_missing_gpu_is_an_error_with_its_remedy(name):
    with pytest.raises(ValueError, match=rf"^--device {name}: PyTorch finds no GPU\. Use --device cpu, or"):
        select_device(name)
    assert select_device("auto") == torch.device("cpu")


def test_a_gpu_is_used_if_there_is_one_and_named_if_it_is_beyond_the_last(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert select_device("auto") == torch.device("cuda")
    assert select_device("cuda:1") == torch.device("cuda:1")
    assert select_device("cpu") == torch.device("cpu")
    with pytest.raises(ValueError, match=r"^--device cuda:2: there is no such GPU\. The GPUs are cuda:0 to cuda:1"):
        select_device("cuda:2")
