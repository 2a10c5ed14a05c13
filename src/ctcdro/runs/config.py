"""The configuration of a run: one YAML file. Defaults are the paper's; where it is silent, those of the authors' code.

Unknown keys, wrong types and impossible combinations are rejected, with the path of the key.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

from ..objectives.methods import METHODS, all_settings
from ..runtime.extras import extra
from ..storage.paths import PathLike

with extra("train", "A configuration file"):
    from pydantic import AfterValidator, Field, model_validator

    from .parsing import Section, add_fields, parse_section, read_values


class LoraConfig(Section):
    """Low-rank adapters instead of all weights of the encoder."""

    rank: int = Field(8, gt=0)
    alpha: float = Field(16.0, gt=0)
    """Scale of the adapters, divided by the rank."""
    dropout: float = Field(0.0, ge=0, lt=1)


class ModelConfig(Section):
    """Encoder and head."""

    encoder: str = "facebook/wav2vec2-xls-r-300m"
    """A transformers checkpoint, as a folder or a name on the hub; or `mel-small`, which is trained from scratch."""
    head: Literal["transformer", "linear", "convolution"] = "transformer"
    """The paper's two Transformer layers over all layers of the encoder, one linear layer over the last, or
    convolutions over all layers, which are fast on a CPU. Default for `mel-small`, and its only head: linear."""
    freeze_encoder: bool = False
    feature_cache: Path | None = None
    """Folder for the features of a frozen encoder, which are then computed only once."""
    lora: LoraConfig | None = None
    spec_augment: bool = True
    gradient_checkpointing: bool = False

    @model_validator(mode="before")
    @classmethod
    def _choose_head(cls, values: Any) -> Any:
        if isinstance(values, dict) and values.get("encoder") == "mel-small":
            return {"head": "linear"} | values
        return values

    @model_validator(mode="after")
    def _check(self) -> ModelConfig:
        if self.encoder == "mel-small" and self.head != "linear":
            raise ValueError(f"`encoder` mel-small has a linear head; remove `head: {self.head}`")
        if self.freeze_encoder and self.lora is not None:
            raise ValueError("`freeze_encoder` and `lora` cannot be combined; adapters leave the encoder as it is")
        if self.encoder == "mel-small" and (self.freeze_encoder or self.lora is not None):
            raise ValueError("`encoder` mel-small is trained from scratch; it cannot be frozen or adapted")
        if self.feature_cache is not None and not self.freeze_encoder:
            raise ValueError("`feature_cache` needs `freeze_encoder`; otherwise features change in training")
        if self.gradient_checkpointing and (self.freeze_encoder or self.encoder == "mel-small"):
            raise ValueError("`gradient_checkpointing` has no use with a frozen encoder or mel-small")
        return self


def _known_method(name: str) -> str:
    if name not in METHODS:
        raise ValueError(f"must be one of {', '.join(METHODS)}; got {name!r}")
    return name


MethodName = Annotated[str, AfterValidator(_known_method), Field(json_schema_extra={"enum": list(METHODS)})]


@add_fields(
    **{
        name: (setting.kind, Field(setting.default, ge=setting.at_least, description=setting.description))
        for name, setting in all_settings().items()
    }
)
class ObjectiveConfig(Section):
    """What is minimized."""

    name: MethodName = "ctc-dro"
    loss_normalization: Literal["none", "frame", "label"] = "none"
    """Divide the loss of each utterance by its frames or labels, as in the paper's normalization study."""

    @property
    def settings(self) -> dict[str, Any]:
        return {setting.name: getattr(self, setting.name) for setting in METHODS[self.name].settings}

    @model_validator(mode="after")
    def _check(self) -> ObjectiveConfig:
        # Settings that have to be tuned may stay in a configuration when only the method is changed.
        tuned = {name for method in METHODS.values() for name in method.tuned}
        for key, setting in all_settings().items():
            value = getattr(self, key)
            if not METHODS[self.name].takes(key) and value != setting.default and key not in tuned:
                takers = [name for name, method in METHODS.items() if method.takes(key)]
                raise ValueError(
                    f"`{key}: {value}` has no effect on {self.name}; remove it, or choose {' or '.join(takers)}"
                )
        return self


class BatchConfig(Section):
    """Batches and groups."""

    sampler: Literal["length-matched", "similar-length", "group-uniform"] = "length-matched"
    batch_duration: float = Field(50.0, gt=0)
    """Seconds per batch; for `length-matched`."""
    balance: float = Field(0.0, ge=0, le=1)
    """0: groups have equal shares; 1: shares in proportion to their audio, each utterance once per epoch."""
    batch_size: int = Field(4, gt=0)
    """Utterances per batch; for the other samplers."""
    group_by: str = "lang"
    """Field or fields that define groups, such as `lang,corpus`."""
    on_fault: Literal["stop", "skip"] = "stop"
    """How to handle audio that cannot be read."""
    num_workers: int = Field(2, ge=0)
    """Processes that read audio."""


class OptimizerConfig(Section):
    """Adam and its steps."""

    learning_rate: float = Field(1e-4, gt=0)
    betas: tuple[Annotated[float, Field(ge=0, lt=1)], Annotated[float, Field(ge=0, lt=1)]] = (0.9, 0.999)
    weight_decay: float = Field(1e-6, ge=0)
    decoupled: bool = False
    """AdamW instead of Adam."""
    clip_norm: float | None = Field(5.0, gt=0)
    """Limit on the norm of the gradient; null for none. It is scaled with the weight of a step's groups, so that it
    does not undo the group weights."""
    accumulate: int = Field(16, gt=0)
    """Batches per step, over all processes."""
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    """Learning rate after warm-up: constant, or falling to zero."""
    warmup: float = Field(0.0, ge=0, lt=1)
    """Fraction of all steps in which the learning rate rises from zero."""


class TrainingConfig(Section):
    """Length, validation, checkpoints and precision."""

    epochs: int = Field(40, gt=0)
    batches_per_epoch: int = Field(1200, gt=0)
    """Batches between validations, over all processes."""
    select: Literal["dev-loss", "worst-cer"] = "dev-loss"
    """The model to keep: lowest loss on the development set, or lowest CER of its worst language."""
    stop_after: int | None = Field(None, gt=0)
    """Stop after this many epochs in a row without improvement."""
    checkpoint_every: int | None = Field(None, gt=0)
    """Steps between checkpoints; by default one checkpoint per epoch."""
    keep_checkpoints: int = Field(2, ge=2)
    precision: Literal["fp32", "bf16"] = "fp32"
    """Precision of matrix products. bf16 is rejected on a CPU where bfloat16 does not work."""
    compile: bool = False
    trackers: tuple[Literal["tensorboard", "wandb", "mlflow", "comet_ml", "aim", "clearml", "dvclive"], ...] = (
        "tensorboard",
    )
    """Experiment trackers that receive the figures of the run folder."""
    track_every: int = Field(10, gt=0)
    """Steps between figures for trackers; the run folder has those of every step."""


class Config(Section):
    """A run."""

    dataset: Path
    """Folder with train.jsonl and dev.jsonl; a relative path is relative to the working directory."""
    seed: int = Field(0, ge=0)
    model: ModelConfig = ModelConfig()
    objective: ObjectiveConfig = ObjectiveConfig()
    batches: BatchConfig = BatchConfig()
    optimizer: OptimizerConfig = OptimizerConfig()
    training: TrainingConfig = TrainingConfig()

    @model_validator(mode="after")
    def _check(self) -> Config:
        num_batches = self.training.epochs * self.training.batches_per_epoch
        if num_batches < self.optimizer.accumulate:
            raise ValueError(
                f"training.epochs * training.batches_per_epoch are {num_batches} batches, fewer than one step needs "
                f"(optimizer.accumulate is {self.optimizer.accumulate})"
            )
        warmup_batches = self.objective.settings.get("warmup_batches", 0)
        if warmup_batches >= num_batches:
            raise ValueError(
                f"objective.warmup_batches is {warmup_batches}, but the run has only {num_batches} batches, so the "
                "group weights would never change; lower it"
            )
        return self


def read_config(path: PathLike, overrides: Iterable[str] = ()) -> Config:
    """Reads a YAML file; `overrides` change it, such as "objective.step_size=1e-3"."""
    return parse_config(read_values(path), overrides, source=str(path))


def parse_config(values: dict[str, Any], overrides: Iterable[str] = (), source: str = "configuration") -> Config:
    """Creates a configuration from keys and values, as `read_config` does from a file."""
    return parse_section(Config, values, overrides, source)
