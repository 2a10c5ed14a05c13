"""The section `model` of a configuration. The text below each key is its description in the reference."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from ..storage.json_files import read_json
from .parsing import FolderPath, ModelName, Section


class LoraConfig(Section):
    """LoRA trains small matrices instead of all weights of the encoder."""

    rank: int = Field(8, gt=0)
    """Rank of the adapters. Higher ranks can change the encoder more, and need more memory."""
    alpha: float = Field(16.0, gt=0)
    """Scale of the adapters: their output is multiplied by `alpha / rank`."""
    dropout: float = Field(0.0, ge=0, lt=1)
    """Dropout probability of the adapters' input."""


class ModelConfig(Section):
    """The recognizer: an encoder and a head."""

    encoder: ModelName = "facebook/wav2vec2-xls-r-300m"
    """Checkpoint of a `transformers` encoder: a name on the Hugging Face Hub, or a folder, also of `ctcdro convert`.
    `mel-small` is a small encoder that is trained from scratch. With `init_from`, the default is the encoder of that
    model."""
    init_from: ModelName | None = None
    """Model to start from: a run folder, a saved recognizer, or a CTC model of `transformers` such as a
    `Wav2Vec2ForCTC`, in a folder or on the Hub. Labels that are only in the new data are added to those of an earlier
    run. null: start from the pretrained encoder, or from scratch."""
    init_head: bool = True
    """With `init_from`: also start from the head of that model. false: only from its encoder, with the labels of the
    data."""
    head: Literal["transformer", "linear", "convolution"] = "transformer"
    """`transformer`: the paper's two layers, over all layers of the encoder. `linear`: one layer, over the last.
    `convolution`: over all layers, fast on a CPU. `mel-small` always has a linear head. With `init_from`, the default
    is the head of that model."""
    freeze_encoder: bool = False
    """Train only the head."""
    feature_cache_dir: FolderPath | None = None
    """Folder that keeps the features of a frozen encoder, so that they are computed only once. Several runs can share
    it."""
    lora: LoraConfig | None = None
    """Low-rank adapters (LoRA). null: train all weights of the encoder."""
    spec_augment: bool = True
    """Mask features in training (SpecAugment): those of the head or, with a linear head, the input of the encoder's
    layers. With a linear head, the default is false."""
    gradient_checkpointing: bool = False
    """Save memory by recomputing the activations of the encoder. Training takes about a third longer."""

    @model_validator(mode="before")
    @classmethod
    def _choose_defaults(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        defaults = _read_defaults(values.get("init_from"), values.get("init_head", True))
        if values.get("encoder", defaults.get("encoder")) == "mel-small":
            defaults["head"] = "linear"
        values = defaults | values
        return {"spec_augment": values.get("head") != "linear"} | values

    def problems(self) -> Iterator[str]:
        if self.init_from is None and not self.init_head:
            yield "init_head: false has no effect without `init_from`; remove it"
        is_mel_small = self.encoder == "mel-small"
        if is_mel_small and self.head != "linear":
            yield f"head: mel-small has a linear head; remove `head: {self.head}`"
        for key in ("freeze_encoder", "lora", "gradient_checkpointing"):
            if is_mel_small and getattr(self, key):
                yield f"{key}: mel-small is trained from scratch and does not support it; remove `{key}`"
        if self.freeze_encoder and self.lora is not None:
            yield "lora: adapters cannot be trained in a frozen encoder; remove `lora` or `freeze_encoder`"
        if self.freeze_encoder and self.gradient_checkpointing:
            yield "gradient_checkpointing: a frozen encoder has no gradients; remove `gradient_checkpointing`"
        if self.freeze_encoder and self.head == "linear" and self.spec_augment:
            yield "spec_augment: a linear head masks the input of the encoder, which is frozen; set it to false"
        if self.feature_cache_dir is not None and not self.freeze_encoder:
            yield "feature_cache_dir: features change while the encoder is trained; add `freeze_encoder: true`"


def _read_defaults(init_from: Any, init_head: Any) -> dict[str, str]:
    """Encoder and head of the model to start from, if it can be read; errors are reported when it is loaded."""
    if not isinstance(init_from, str):
        return {}
    defaults = {"encoder": init_from, "head": "linear"}  # of a CTC model of `transformers`
    for path in (Path(init_from) / "model" / "config.json", Path(init_from) / "config.json"):
        if path.is_file():
            try:
                settings = read_json(path)["settings"]
                defaults = {key: str(settings[key]) for key in defaults}
            except (ValueError, TypeError, KeyError):  # a model of `transformers`, or damaged
                pass
            break
    return defaults if init_head else {"encoder": defaults["encoder"]}
