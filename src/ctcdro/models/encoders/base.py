"""The interface of pretrained encoders."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from ..masks import Number
from ..spec_augment import SpecAugment


class PretrainedEncoder(nn.Module):
    """An encoder from `transformers`.

    Attributes:
        family: the `config.model_type` of the network.
        num_layers: number of hidden layers, including the input of the first Transformer layer.
        min_samples: minimum number of samples, for one frame.
        max_samples: maximum number of samples, or None.
        frame_stride: samples from one frame to the next.
        first_frame_center: sample at the center of the audio from which the first frame is computed.
    """

    def __init__(
        self,
        network: Any,
        min_samples: int,
        max_samples: int | None = None,
        *,
        frame_stride: int,
        first_frame_center: float,
    ) -> None:
        super().__init__()
        config = network.config
        self.network = network
        self.family: str = config.model_type
        self.width: int = config.hidden_size
        self.num_layers: int = config.num_hidden_layers + 1
        self.min_samples = min_samples
        self.max_samples = max_samples
        self.frame_stride = frame_stride
        self.first_frame_center = first_frame_center
        self.augment: SpecAugment | None = None
        self._num_frames: Tensor | None = None

    @property
    def options(self) -> dict[str, Any]:
        """The arguments of `from_options`, which builds the same encoder without its weights."""
        config = self.network.config.to_dict()
        for key in ("_name_or_path", "architectures", "dtype", "model_type", "transformers_version"):
            config.pop(key, None)
        return {"family": self.family, "config": config}

    def num_frames(self, num_samples: Number) -> Number:
        """Exact number of output frames for each number of input samples."""
        raise NotImplementedError

    def forward(self, audio: Tensor, num_samples: Tensor, *, all_layers: bool = True) -> tuple[Tensor, ...]:
        """Returns the hidden layers, each (B, F, D), or only the last."""
        raise NotImplementedError

    def add_spec_augment(self) -> None:
        """Masks the input of the Transformer layers in training. `forward` has to set `_num_frames`."""
        self.augment = SpecAugment()
        self.network.encoder.register_forward_pre_hook(self._mask)

    def _mask(self, module: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        assert self.augment is not None
        assert self._num_frames is not None
        return self.augment(inputs[0], self._num_frames), *inputs[1:]

    def checkpoint_gradients(self, **options: Any) -> None:
        """Enables gradient checkpointing: the backward pass recomputes the activations inside each layer."""
        # With reentrant checkpoints, the hidden layers that the head uses would get no gradient.
        options["use_reentrant"] = False
        self.network.gradient_checkpointing_enable(gradient_checkpointing_kwargs=options)

    def make_exportable(self) -> None:
        """Replaces, in place, what `torch.onnx` cannot export by equal operations for inference."""

    def speed_up_inference(self) -> None:
        """Replaces, in place, what inference computes faster on the device of the network, up to rounding."""

    def freeze_feature_extractor(self) -> None:
        """Freezes the convolutions on raw audio, if there are any, so that their input needs no gradient."""
        if hasattr(self.network, "freeze_feature_encoder"):
            self.network.freeze_feature_encoder()


def hidden_layers(output: Any, all_layers: bool) -> tuple[Tensor, ...]:
    """The hidden layers in an output of `transformers`, or only the last."""
    # `last_hidden_state` includes the final norm. In `transformers` 5, `hidden_states` does not; the norm would have no
    # effect and no gradient.
    return (*output.hidden_states[:-1], output.last_hidden_state) if all_layers else (output.last_hidden_state,)
