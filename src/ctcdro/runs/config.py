"""The configuration of a run: one YAML file. Defaults are the paper's; where it is silent, those of the authors' code.

Unknown keys, wrong types and impossible combinations are rejected, all at once, with the path of each key. The text
below each key is its description in the reference.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal

from ..objectives.methods import METHODS, Setting, all_settings
from ..runtime.extras import extra
from ..storage.paths import PathLike

with extra("train", "A configuration file"):
    from pydantic import AfterValidator, BeforeValidator, Field, model_validator

    from .parsing import FolderPath, ModelName, Section, add_fields, by_key, parse_section, read_values

# The keys of `sampling` that each sampler uses.
SAMPLER_KEYS = {
    "length-matched": ("batch_duration", "exponent"),
    "similar-length": ("batch_size",),
    "group-uniform": ("batch_size",),
}


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
    """Checkpoint of a `transformers` encoder: a name on the Hugging Face Hub, or a folder. `mel-small` is a small
    encoder that is trained from scratch."""
    head: Literal["transformer", "linear", "convolution"] = "transformer"
    """`transformer`: the paper's two layers, over all layers of the encoder. `linear`: one layer, over the last.
    `convolution`: over all layers, fast on a CPU. `mel-small` always has a linear head."""
    freeze_encoder: bool = False
    """Train only the head."""
    feature_cache_dir: FolderPath | None = None
    """Folder that keeps the features of a frozen encoder, so that they are computed only once. Several runs can share
    it."""
    lora: LoraConfig | None = None
    """Low-rank adapters (LoRA). null: train all weights of the encoder."""
    spec_augment: bool = True
    """Mask features in training (SpecAugment). No effect with a linear head."""
    gradient_checkpointing: bool = False
    """Save memory by recomputing the activations of the encoder. Training takes about a third longer."""

    @model_validator(mode="before")
    @classmethod
    def _choose_head(cls, values: Any) -> Any:
        if isinstance(values, dict) and values.get("encoder") == "mel-small":
            return {"head": "linear"} | values
        return values

    def problems(self) -> Iterator[str]:
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
        if self.feature_cache_dir is not None and not self.freeze_encoder:
            yield "feature_cache_dir: features change while the encoder is trained; add `freeze_encoder: true`"


def join_words(names: Iterable[str], word: str) -> str:
    """A list in a sentence, such as "a, b or c"."""
    *first, last = names
    return f"{', '.join(first)} {word} {last}" if first else last


def _known_method(name: str) -> str:
    if name not in METHODS:
        raise ValueError(f"must be one of {', '.join(METHODS)}; got {name!r}")
    return name


MethodName = Annotated[str, AfterValidator(_known_method), Field(json_schema_extra={"enum": list(METHODS)})]


def _setting_field(setting: Setting) -> Any:
    takers = [f"`{name}`" for name, method in METHODS.items() if method.takes(setting.name)]
    description = f"{setting.description} Only for {join_words(takers, 'and')}."
    return setting.kind, Field(setting.default, ge=setting.at_least, description=description)


@add_fields(
    **{name: _setting_field(setting) for name, setting in all_settings().items()},
    loss_normalization=(
        Literal["none", "frame", "label"],
        Field(
            "none",
            description="`none`: the CTC loss of each utterance. `frame` or `label`: divided by its number of frames "
            "or labels, as in the paper's normalization study.",
        ),
    ),
)
class ObjectiveConfig(Section):
    """The objective: how the losses of the groups become one number to minimize."""

    name: MethodName = "ctc-dro"
    """`erm`: the baseline, all utterances alike. `group-dro`: group DRO. `ctc-dro`: the paper's method.
    `ctc-dro-unsmoothed`: its ablation without smoothing."""
    if TYPE_CHECKING:
        loss_normalization: Literal["none", "frame", "label"] = "none"

    @property
    def settings(self) -> dict[str, Any]:
        return {setting.name: getattr(self, setting.name) for setting in METHODS[self.name].settings}

    def problems(self) -> Iterator[str]:
        # Settings that have to be tuned may stay in a configuration when only the method is changed.
        tuned = {name for method in METHODS.values() for name in method.tuned}
        for key, setting in all_settings().items():
            value = getattr(self, key)
            if not METHODS[self.name].takes(key) and value != setting.default and key not in tuned:
                takers = join_words([name for name, method in METHODS.items() if method.takes(key)], "or")
                yield f"{key}: {value} has no effect with {self.name}; remove it, or set `name` to {takers}"


def _split_fields(value: Any) -> Any:
    return [name.strip() for name in value.split(",")] if isinstance(value, str) else value


class DataConfig(Section):
    """Groups, and how audio is read."""

    group_by: Annotated[tuple[Annotated[str, Field(min_length=1)], ...], BeforeValidator(_split_fields)] = Field(
        ("lang",), min_length=1
    )
    """Fields of the manifest that define the groups, such as `[lang]` or `[lang, corpus]`."""
    on_bad_audio: Literal["fail", "skip"] = "fail"
    """`fail`: stop at audio that cannot be read. `skip`: skip it and log the error."""
    num_workers: int = Field(2, ge=0)
    """Processes that read audio, per training process. 0: the training process reads it."""


class SamplingConfig(Section):
    """How utterances are combined into batches."""

    sampler: Literal["length-matched", "similar-length", "group-uniform"] = "length-matched"
    """`length-matched`: batches of one group, all with about the same total duration, as in the paper.
    `similar-length`: batches of utterances of similar length, from all groups. `group-uniform`: utterances of groups
    drawn uniformly, as in group DRO."""
    batch_duration: float = Field(50.0, gt=0)
    """Seconds of audio per batch, without padding. Only for `length-matched`."""
    exponent: float = Field(0.0, ge=0, le=1)
    """Exponent of a group's share of the batches. 0: the same share for every group. 1: in proportion to its audio,
    with every utterance once per epoch. Only for `length-matched`."""
    batch_size: int = Field(4, gt=0)
    """Utterances per batch. Only for `similar-length` and `group-uniform`."""

    @property
    def used_keys(self) -> tuple[str, ...]:
        """The keys that have an effect."""
        return ("sampler", *SAMPLER_KEYS[self.sampler])

    def problems(self) -> Iterator[str]:
        for key, field in type(self).model_fields.items():
            value = getattr(self, key)
            if key not in self.used_keys and value != field.default:
                used = " and ".join(SAMPLER_KEYS[self.sampler])
                yield (
                    f"{key}: {value} has no effect with sampler {self.sampler}, which uses {used}; remove it (or set "
                    f"it to its default, {field.default})"
                )


class OptimizerConfig(Section):
    """The optimizer and its learning rate. A step of the optimizer is `batches_per_step` batches."""

    name: Literal["adam", "adamw"] = "adam"
    """`adam`: weight decay is added to the gradient. `adamw`: weight decay is applied to the weights."""
    learning_rate: float = Field(1e-4, gt=0)
    """Learning rate at the end of warm-up, its highest value."""
    betas: tuple[Annotated[float, Field(ge=0, lt=1)], Annotated[float, Field(ge=0, lt=1)]] = (0.9, 0.999)
    """Decay rates of Adam's averages of the gradient and of its square."""
    weight_decay: float = Field(1e-6, ge=0)
    """Strength of weight decay."""
    max_grad_norm: float | None = Field(5.0, gt=0)
    """Limit on the norm of the gradient. null: no limit. It is scaled with the group weights of the step, because a
    fixed limit would cancel them."""
    batches_per_step: int = Field(16, gt=0)
    """Batches per optimizer step, in total over all processes (gradient accumulation). Must be a multiple of the number
    of processes."""
    lr_schedule: Literal["constant", "linear", "cosine"] = "constant"
    """Learning rate after warm-up. `constant`: unchanged. `linear`, `cosine`: falls to zero at the end of training."""
    warmup_fraction: float = Field(0.0, ge=0, lt=1)
    """Fraction of all steps in which the learning rate rises linearly to `learning_rate`."""


class TrainingConfig(Section):
    """Length of training, validation, checkpoints, precision and logs."""

    num_batches: int = Field(48_000, gt=0)
    """Length of training in batches, in total over all processes, rounded down to whole steps of
    `optimizer.batches_per_step`. The paper trains for 40 intervals of 1,200."""
    validate_every_batches: int = Field(1200, gt=0)
    """Batches between validations, in total over all processes. The end of training is always validated."""
    best_model_by: Literal["dev-loss", "worst-cer"] = "dev-loss"
    """Which model to keep. `dev-loss`: the one with the lowest mean loss on the development set. `worst-cer`: the one
    with the lowest CER of its worst language."""
    early_stopping_patience: int | None = Field(None, gt=0)
    """Stop after this many validations in a row without a better model. null: never."""
    checkpoint_every_steps: int | None = Field(None, gt=0)
    """Optimizer steps between checkpoints, in addition to one after every validation. null: no additional ones."""
    keep_checkpoints: int = Field(2, ge=2)
    """Number of checkpoints to keep. At least 2, so that training can resume from the previous one if the newest is
    damaged."""
    precision: Literal["fp32", "bf16"] = "fp32"
    """Precision of matrix products: `fp32`, or `bf16` on a GPU or CPU that supports bfloat16."""
    compile: bool = False
    """Compile the model with `torch.compile`."""
    trackers: tuple[Literal["tensorboard", "wandb", "mlflow", "comet_ml", "aim", "clearml", "dvclive"], ...] = (
        "tensorboard",
    )
    """Experiment trackers to log to, in addition to the files of the run folder. []: none."""
    log_every_steps: int = Field(10, gt=0)
    """Optimizer steps between logs to trackers. The run folder has a record of every step."""


class Config(Section):
    """The configuration of a run."""

    dataset: FolderPath = Field(examples=["data"])
    """Folder with train.jsonl and dev.jsonl, such as `ctcdro prepare` writes. A relative path is relative to the
    file that names it; in `--set`, to the working directory."""
    seed: int = Field(0, ge=0)
    """Seed of initial weights, batches and dropout."""
    label: str | None = Field(None, min_length=1)
    """Name of the method in tables and figures. null: the title of the objective."""
    model: ModelConfig = ModelConfig()
    objective: ObjectiveConfig = ObjectiveConfig()
    data: DataConfig = DataConfig()
    sampling: SamplingConfig = SamplingConfig()
    optimizer: OptimizerConfig = OptimizerConfig()
    training: TrainingConfig = TrainingConfig()

    @property
    def method(self) -> str:
        """Name of the method in tables and figures."""
        return self.label or METHODS[self.objective.name].title

    def effective_values(self) -> dict[str, Any]:
        """All values by key, such as `objective.step_size`; None for those that the method or sampler does not use."""
        values = dict(by_key(self.model_dump(mode="json")))
        tuned = {name for method in METHODS.values() for name in method.tuned}  # others have their defaults if unused
        values |= {f"objective.{name}": None for name in tuned - self.objective.settings.keys()}
        unused = [key for key in SamplingConfig.model_fields if key not in self.sampling.used_keys]
        return values | {f"sampling.{key}": None for key in unused}

    def problems(self) -> Iterator[str]:
        num_batches, batches_per_step = self.training.num_batches, self.optimizer.batches_per_step
        if num_batches < batches_per_step:
            yield (
                f"training.num_batches: {num_batches} batches are fewer than one optimizer step needs, "
                f"{batches_per_step}; raise it, or lower `optimizer.batches_per_step`"
            )
        warmup_batches = self.objective.settings.get("warmup_batches", 0)
        if warmup_batches >= num_batches:
            yield (
                f"objective.warmup_batches: {warmup_batches} is not less than `training.num_batches`, {num_batches}, "
                "so the group weights would never change; lower it"
            )


def read_config(path: PathLike, overrides: Iterable[str] = ()) -> Config:
    """Reads a YAML file; `overrides` change it, such as "objective.step_size=1e-3".

    Relative paths in the file are relative to its folder; those in `overrides`, to the working directory.
    """
    return parse_config(read_values(path), overrides, source=str(path))


def parse_config(values: dict[str, Any], overrides: Iterable[str] = (), source: str = "configuration") -> Config:
    """Creates a configuration from keys and values. Relative paths are relative to the working directory."""
    if "dataset" not in values and isinstance(values.get("run"), dict):
        raise ValueError(f"{source}: this file describes a sweep; use it with `ctcdro sweep`.")
    return parse_section(Config, values, overrides, source)
