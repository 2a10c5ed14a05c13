"""Sharded training (`training.sharding: full`): each process holds a part of weights, gradients and Adam's averages.

Each layer of the encoder is gathered only while it computes. torch's `fully_shard` (FSDP2) does this, not the plugin of
accelerate: on CPUs, the plugin silently replicates the model instead. With one process there is nothing to shard.

A step of a sharded model exchanges data in every forward pass, so all processes must call it equally often.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from accelerate import Accelerator

    from ..models.recognizer import Recognizer, RecognizerOutput
    from ..runs.config import Config

# Variables that `accelerate launch` sets for other ways to train a large model.
UNSUPPORTED = {"ACCELERATE_USE_DEEPSPEED": "DeepSpeed", "ACCELERATE_USE_MEGATRON_LM": "Megatron-LM"}
USE_FSDP = "ACCELERATE_USE_FSDP"
# Settings of FSDP in accelerate's configuration that training honors, and what to do about other values.
FSDP_SETTINGS = {
    "FSDP_VERSION": ({"2"}, "set fsdp_version: 2"),
    "FSDP_RESHARD_AFTER_FORWARD": ({"true", "full_shard", "1"}, "set fsdp_reshard_after_forward: true"),
    "FSDP_OFFLOAD_PARAMS": ({"false"}, "set fsdp_offload_params: false"),
    "FSDP_ACTIVATION_CHECKPOINTING": ({"false"}, "use model.gradient_checkpointing of the run instead"),
}


def check_launcher(config: Config) -> None:
    """Rejects settings of `accelerate launch` that contradict the configuration, or that are not supported."""
    for variable, name in UNSUPPORTED.items():
        if _is_on(variable):
            raise ValueError(
                f"{name} is not supported ({variable} is set). Remove it from accelerate's configuration; for a model "
                "that does not fit one device, set training.sharding: full."
            )
    if not _is_on(USE_FSDP):
        return
    if config.training.sharding == "none":
        raise ValueError(
            "accelerate's configuration enables FSDP, but training.sharding is none. Set training.sharding: full, or "
            "disable FSDP."
        )
    for variable, (allowed, remedy) in FSDP_SETTINGS.items():
        value = os.environ.get(variable)
        if value is not None and value.lower() not in allowed:
            raise ValueError(f"accelerate's configuration has {variable}={value}, which is not supported; {remedy}.")
    # Otherwise accelerate would shard the model itself on GPUs.
    del os.environ[USE_FSDP]


def shard_model(recognizer: Recognizer, accelerator: Accelerator) -> nn.Module:
    """Shards a recognizer in place, layer by layer, and moves it to the device; wrapped for precision."""
    if accelerator.num_processes > 1:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        # The logits may be a view, which only an operation in place would make unsafe. There is none.
        warnings.filterwarnings("ignore", "FSDP2-wrapped module .* returned a view tensor")
        mesh = init_device_mesh(accelerator.device.type, (accelerator.num_processes,))
        for layer in largest_stack(recognizer.encoder):
            fully_shard(layer, mesh=mesh)
        fully_shard(recognizer, mesh=mesh)
        keep_lengths_on_host(recognizer)
    model: nn.Module = accelerator.prepare_model(recognizer, evaluation_mode=True)  # otherwise it adds DDP
    return model


def keep_lengths_on_host(model: nn.Module) -> None:
    """Hides the lengths, the second argument of a sharded model, from the hook of FSDP.

    On a GPU, that hook copies all arguments to the device. The model reads lengths, so the host would wait for it.
    """
    hidden: list[Tensor] = []

    def hide(module: nn.Module, arguments: tuple[Tensor, Tensor]) -> tuple[Tensor, None]:
        audio, lengths = arguments
        hidden.append(lengths)
        return audio, None

    def restore(module: nn.Module, arguments: tuple[Tensor, None]) -> tuple[Tensor, Tensor]:
        return arguments[0], hidden.pop()

    model.register_forward_pre_hook(hide, prepend=True)
    model.register_forward_pre_hook(restore)


def largest_stack(encoder: nn.Module) -> nn.ModuleList:
    """The layers of an encoder: of all lists of modules, the one with the most parameters."""
    stacks = [module for module in encoder.modules() if isinstance(module, nn.ModuleList)]
    return max(stacks, key=lambda stack: sum(parameter.numel() for parameter in stack.parameters()))


def whole_state(recognizer: nn.Module, is_kept: bool) -> dict[str, Tensor]:
    """The state of a sharded model, gathered one tensor after the other. All processes must call it.

    Args:
        is_kept: whether this process needs the state; otherwise it is empty.
    """
    from torch.distributed.tensor import DTensor

    state = {}
    for name, tensor in recognizer.state_dict().items():
        whole = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
        if is_kept:
            state[name] = whole.cpu()
    return state


def load_whole_state(recognizer: nn.Module, state: Mapping[str, Tensor]) -> None:
    """Loads the state of a whole model, of which this process keeps its part."""
    from torch.distributed.tensor import DTensor, distribute_tensor

    parts = {}
    for name, own in recognizer.state_dict().items():
        whole = state[name]
        if isinstance(own, DTensor):
            # Without a source, no process sends its tensor: all have the same.
            whole = distribute_tensor(whole.to(own.device), own.device_mesh, own.placements, src_data_rank=None)
        parts[name] = whole
    recognizer.load_state_dict(parts)


def local_part(tensor: Tensor) -> Tensor:
    """The part of a sharded tensor in this process, in the same memory; other tensors as they are."""
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


class ShardedForward:
    """The forward pass of a sharded model in evaluation.

    Weights that are gathered in inference mode could not be used in training afterwards.
    """

    def __init__(self, model: nn.Module, recognizer: Recognizer) -> None:
        self._model = model
        self._recognizer = recognizer

    @torch.inference_mode(False)
    @torch.no_grad()
    def __call__(self, audio: Tensor, num_samples: Tensor) -> RecognizerOutput:
        output: RecognizerOutput = self._model(audio, num_samples)
        return output

    def idle(self) -> None:
        """Takes part in a forward pass of other processes, without an utterance."""
        least = self._recognizer.encoder.min_samples
        device = next(self._recognizer.parameters()).device
        self(torch.zeros(1, least, device=device), torch.tensor([least]))


def _is_on(variable: str) -> bool:
    return os.environ.get(variable, "false").lower() in ("true", "1")
