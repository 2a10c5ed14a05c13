"""The cost model on paper, compared with modules, with what autograd stores, and with a measured run."""

from dataclasses import replace

import pytest
import torch
import transformers
from cost_model import (
    MMS,
    OMNI,
    XLS_R,
    Encoder,
    Training,
    _front_bytes,
    _layer_bytes,
    head_parameters,
    hours_an_epoch,
    measured_run,
    memory,
    trained_parameters,
)
from real_size import XLS_R_300M
from run import read_results

from ctcdro.models.heads import TransformerHead


def make_network(encoder):
    sizes = {"hidden_size": encoder.width, "num_hidden_layers": encoder.num_layers, "layerdrop": 0.0}
    sizes |= {"intermediate_size": encoder.inner, "attention_dropout": 0.0}
    config = transformers.Wav2Vec2Config(**{**XLS_R_300M, **sizes}, mask_time_prob=0.0)
    with torch.device("meta"):
        return transformers.Wav2Vec2Model(config).train()


def num_parameters(module):
    return sum(parameter.numel() for parameter in module.parameters())


@pytest.mark.parametrize("encoder", [XLS_R, replace(MMS, num_layers=2), replace(OMNI, num_layers=3)])
def test_parameters_are_counted_exactly(encoder):
    assert encoder.parameters == num_parameters(make_network(encoder))
    with torch.device("meta"):
        head = TransformerHead(encoder.width, encoder.num_layers + 1, 60)
    assert head_parameters(encoder, 60) == num_parameters(head)


@pytest.mark.parametrize(("encoder", "published"), [(XLS_R, 317_390_592), (MMS, 965_514_752), (OMNI, 6_488_487_168)])
def test_parameters_are_those_of_published_models_without_their_heads_for_pretraining(encoder, published):
    assert encoder.parameters == pytest.approx(published, rel=0.007)


def stored_bytes(encoder, seconds):
    """What the forward pass of the encoder stores, except its weights and attention weights."""
    network = make_network(encoder)
    weights = {parameter.untyped_storage()._cdata for parameter in network.parameters()}
    stored = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage._cdata not in weights:
            stored[storage._cdata] = storage  # keeps it, so that no other one has the same number
        return tensor

    with torch.device("meta"):
        audio = torch.randn(1, 16_000 * seconds)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        network(audio)
    return sum(storage.nbytes() for storage in stored.values())


def test_activations_are_what_autograd_stores():
    # In one second, attention weights are small, which only the meta device stores.
    training = Training(XLS_R, precision="fp32", on_cpu=True, padded_seconds=1)
    without, one = (stored_bytes(Encoder("", 1024, number), seconds=1) for number in (0, 1))
    assert one - without == pytest.approx(50 * _layer_bytes(training), rel=0.1)
    gradients = 2 * 4 * 512 * 3_200
    per_second = stored_bytes(Encoder("", 1024, 0), seconds=2) - without
    assert per_second == pytest.approx(_front_bytes(training) - gradients, rel=0.1)


def test_memory_is_close_to_that_of_the_measured_run():
    measured = {row[0]: row for row in read_results()["tables"]["real-size"]["rows"]}
    assert f"{(XLS_R.parameters + head_parameters(XLS_R, 32)) / 1e6:.0f} million" == measured["off"][1]
    assert memory(measured_run(checkpointing=False)).total / 1e9 == pytest.approx(float(measured["off"][4]), rel=0.15)


def test_shards_add_up_to_the_whole_and_adapters_need_little():
    whole, shard = (memory(Training(MMS, num_devices=8, sharding=is_sharded)) for is_sharded in (False, True))
    assert 8 * (shard.weights + shard.gradients + shard.optimizer) == pytest.approx(sum(whole[:3]))
    adapters = trained_parameters(Training(MMS, kind="LoRA"))
    assert adapters < 0.01 * trained_parameters(Training(MMS))


def test_hours_follow_the_number_and_the_speed_of_the_devices():
    plain = Training(XLS_R)
    assert hours_an_epoch(plain, flops=2e14) == pytest.approx(hours_an_epoch(plain) / 2)
    assert hours_an_epoch(replace(plain, num_devices=4)) == pytest.approx(hours_an_epoch(plain) / 4)
    assert hours_an_epoch(replace(plain, checkpointing=True)) == pytest.approx(4 / 3 * hours_an_epoch(plain))
