"""The configuration of a run: one YAML file. Defaults are the paper's; where it is silent, those of the authors' code.

Unknown keys, wrong types and impossible combinations are rejected, all at once, with the path of each key. The text
below each key is its description in the reference.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Literal

from ..objectives.methods import METHODS, all_settings
from ..runtime.extras import extra
from ..storage.paths import PathLike

with extra("train", "A configuration file"):
    from pydantic import BeforeValidator, Field

    from .model_config import ModelConfig
    from .objective_config import ObjectiveConfig
    from .parsing import FolderPath, Section, by_key, parse_section, read_values

# The keys of `sampling` that each sampler uses.
SAMPLER_KEYS = {
    "auto": ("batch_duration", "exponent"),
    "length-matched": ("batch_duration", "exponent"),
    "adaptive": ("batch_duration", "exponent"),
    "similar-length": ("batch_size",),
    "group-uniform": ("batch_size",),
}


# The keys of `data` that change the audio of training utterances.
AUGMENTATION_KEYS = ("speed_perturbation", "edge_silence_seconds", "noise_snr_db")


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
    speed_perturbation: tuple[Annotated[float, Field(ge=0.5, le=2)], ...] = ()
    """Speeds such as `[0.9, 1.0, 1.1]`. In every epoch, each training utterance is played at one of them, chosen at
    random. []: no change."""
    edge_silence_seconds: float = Field(0.0, ge=0, le=10)
    """Maximum length of the silence that is added before and after each training utterance, at random lengths, such as
    0.5. Silence is noise like that of the quietest part of the utterance. 0: none."""
    noise_snr_db: tuple[Annotated[float, Field(ge=-20)], Annotated[float, Field(le=100)]] | None = None
    """Range of signal-to-noise ratios in decibels, such as `[10, 40]`. Pink noise is added to each training utterance,
    at a random ratio. null: no noise."""

    def problems(self) -> Iterator[str]:
        if self.noise_snr_db is not None and self.noise_snr_db[0] > self.noise_snr_db[1]:
            yield f"noise_snr_db: the minimum comes first; got {list(self.noise_snr_db)}"


class SamplingConfig(Section):
    """How utterances are combined into batches."""

    sampler: Literal["auto", "length-matched", "adaptive", "similar-length", "group-uniform"] = "auto"
    """`length-matched`: batches of one group, all with about the same total duration, as in the paper. `adaptive`: the
    same, but the group weights become shares of the batches instead of factors on the losses. `auto`: `adaptive` for
    `error-weighted` and `static`, `length-matched` for other objectives. `similar-length`: batches of utterances of
    similar length, from all groups. `group-uniform`: utterances of groups drawn uniformly, as in group DRO."""
    batch_duration: float = Field(50.0, gt=0)
    """Seconds of audio per batch, without padding. Only for `length-matched` and `adaptive`."""
    exponent: float = Field(0.0, ge=0, le=1)
    """Exponent of a group's share of the batches. 0: the same share for every group. 1: in proportion to its audio,
    with every utterance once per epoch. With `adaptive`, shares are also multiplied by the group weights. Only for
    `length-matched` and `adaptive`."""
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
    """Learning rate at the end of warm-up, its highest value. With `encoder_learning_rate`, only of the head."""
    encoder_learning_rate: float | None = Field(None, gt=0)
    """Learning rate of the encoder, including LoRA adapters. null: the same as `learning_rate`."""
    freeze_encoder_batches: int = Field(0, ge=0)
    """Batches at the start of training in which only the head is trained, in total over all processes, rounded up to
    whole steps. 0: none."""
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
    average_last_fraction: float | None = Field(None, gt=0, le=1)
    """Fraction of the steps, at the end of training, whose weights are averaged. Validation then scores the averaged
    model, and the best model may be an averaged one. null: no averaging."""
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
    sharding: Literal["none", "full"] = "none"
    """How several processes hold the model. `none`: each holds a copy (DDP). `full`: each holds a part of the weights,
    gradients and optimizer state (FSDP), for models that do not fit one device."""
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
    def sampler(self) -> str:
        """The sampler, with the objective's own in place of `auto`."""
        sampler = self.sampling.sampler
        return METHODS[self.objective.name].sampler if sampler == "auto" else sampler

    @property
    def method(self) -> str:
        """Name of the method in tables and figures."""
        return self.label or METHODS[self.objective.name].title

    def effective_values(self) -> dict[str, Any]:
        """All values by key, such as `objective.step_size`; None for those that the method or sampler does not use."""
        values = dict(by_key(self.model_dump(mode="json")))
        tuned = {name for method in METHODS.values() for name in method.tuned}  # others have their defaults if unused
        values |= {f"objective.{name}": None for name in tuned - self.objective.settings.keys()}
        if values["objective.baseline"] is None:
            values["objective.max_relative_loss"] = None
        unused = [key for key in SamplingConfig.model_fields if key not in self.sampling.used_keys]
        return values | {f"sampling.{key}": None for key in unused} | {"sampling.sampler": self.sampler}

    def check_num_processes(self, num_processes: int) -> None:
        """Raises a ValueError if the batches of a step cannot be divided among so many processes."""
        if self.optimizer.batches_per_step % num_processes:
            raise ValueError(
                f"optimizer.batches_per_step must be a multiple of the number of processes, {num_processes}; got "
                f"{self.optimizer.batches_per_step}."
            )

    def problems(self) -> Iterator[str]:
        num_batches, batches_per_step = self.training.num_batches, self.optimizer.batches_per_step
        if num_batches < batches_per_step:
            yield (
                f"training.num_batches: {num_batches} batches are fewer than one optimizer step needs, "
                f"{batches_per_step}; raise it, or lower `optimizer.batches_per_step`"
            )
        if self.sampler == "adaptive" and self.objective.name == "group-dro":
            yield "sampling.sampler: adaptive does not work with group-dro; use length-matched or group-uniform"
        if self.objective.settings.get("baseline") is not None and self.data.group_by != ("lang",):
            yield (
                "objective.baseline: needs groups that are languages; remove it, or `data.group_by`, which is "
                f"{', '.join(self.data.group_by)}"
            )
        yield from self._encoder_problems()
        if self.training.sharding == "full":
            if self.training.compile:
                yield "training.compile: does not work with `training.sharding: full`; remove one of them"
            if self.model.feature_cache_dir is not None:
                yield (
                    "model.feature_cache_dir: does not work with `training.sharding: full`; remove one of them (with "
                    "cached features, only the head is trained)"
                )
        for key in AUGMENTATION_KEYS:
            if self.model.feature_cache_dir is not None and getattr(self.data, key):
                yield f"data.{key}: cached features cannot be augmented; remove it, or `model.feature_cache_dir`"
        warmup_batches = self.objective.settings.get("warmup_batches", 0)
        if warmup_batches >= num_batches:
            yield (
                f"objective.warmup_batches: {warmup_batches} is not less than `training.num_batches`, {num_batches}, "
                "so the group weights would never change; lower it"
            )

    def notes(self) -> Iterator[str]:
        num_batches, batches_per_step = self.training.num_batches, self.optimizer.batches_per_step
        if rest := num_batches % batches_per_step:
            yield (
                f"training.num_batches: {num_batches} is rounded down to {num_batches - rest}, a multiple of "
                f"`optimizer.batches_per_step`, {batches_per_step}"
            )
        settings, default = self.objective.settings, all_settings()["max_relative_loss"].default
        if settings.get("baseline") is None and settings.get("max_relative_loss", default) != default:
            yield "objective.max_relative_loss: has no effect without `objective.baseline`"

    def _encoder_problems(self) -> Iterator[str]:
        num_batches, batches_per_step = self.training.num_batches, self.optimizer.batches_per_step
        frozen_batches = self.optimizer.freeze_encoder_batches
        for key in ("encoder_learning_rate", "freeze_encoder_batches"):
            if self.model.freeze_encoder and getattr(self.optimizer, key):
                yield f"optimizer.{key}: has no effect with `model.freeze_encoder`; remove one of them"
        if self.model.encoder == "mel-small" and frozen_batches:
            yield "optimizer.freeze_encoder_batches: mel-small is trained from scratch; remove it"
        elif frozen_batches and -(-frozen_batches // batches_per_step) >= num_batches // batches_per_step:
            yield (
                f"optimizer.freeze_encoder_batches: {frozen_batches} of {num_batches} batches leave no step to train "
                "the encoder; lower it, or set `model.freeze_encoder`"
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
