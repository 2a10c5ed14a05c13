"""A run, described completely by one YAML file. Defaults are the paper's; where it is silent, the authors' code's.

    dataset: set1
    model: {encoder: facebook/wav2vec2-xls-r-300m}
    objective: {name: ctc-dro, step_size: 1e-4, smoothing: 0.1}

Unknown keys, wrong types and combinations that cannot be are refused, with the path of the key.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args

from ..runtime.extras import extra
from ..storage.atomic import atomic_write
from ..storage.json_files import parse_json
from ..storage.paths import PathLike

with extra("train", "A configuration file"):
    import yaml
    from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

# Of a configuration. The largest sweeps have some hundreds.
MOST_LEVELS = 100
MOST_VALUES = 10_000
MOST_CHARACTERS = 1_000_000


class Section(BaseModel):
    """What all sections share: no other keys than those there are, and no change once read."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, allow_inf_nan=False)

    def write(self, path: PathLike) -> None:
        """Writes it all, defaults too."""
        with atomic_write(path) as file:
            yaml.safe_dump(self.model_dump(mode="json"), file, sort_keys=False, allow_unicode=True)


AnySection = TypeVar("AnySection", bound=Section)


class Lora(Section):
    """Low-rank adapters instead of all weights of the encoder."""

    rank: int = Field(8, gt=0)
    alpha: float = Field(16.0, gt=0)
    """Scale of the adapters, over the rank."""
    dropout: float = Field(0.0, ge=0, lt=1)


class Model(Section):
    """Encoder and head."""

    encoder: str = "facebook/wav2vec2-xls-r-300m"
    """A folder or a name on the hub that transformers loads; or `mel-small`, which is trained from scratch."""
    head: Literal["transformer", "linear", "convolution"] = "transformer"
    """The paper's two Transformer layers over all layers of the encoder, one linear layer over the last, or
    convolutions over all layers, which are fast on a CPU. Default for `mel-small`, and its only head: linear."""
    freeze_encoder: bool = False
    feature_cache: Path | None = None
    """Folder in which what a frozen encoder gives for each utterance is kept, instead of computing it every epoch."""
    lora: Lora | None = None
    spec_augment: bool = True
    gradient_checkpointing: bool = False

    @model_validator(mode="before")
    @classmethod
    def _choose_head(cls, values: Any) -> Any:
        if isinstance(values, dict) and values.get("encoder") == "mel-small":
            return {"head": "linear"} | values
        return values

    @model_validator(mode="after")
    def _check(self) -> Model:
        if self.encoder == "mel-small" and self.head != "linear":
            raise ValueError(f"`encoder` mel-small has a linear head; remove `head: {self.head}`")
        if self.freeze_encoder and self.lora is not None:
            raise ValueError("`freeze_encoder` and `lora` cannot go together; adapters leave the encoder as it is")
        if self.encoder == "mel-small" and (self.freeze_encoder or self.lora is not None):
            raise ValueError("`encoder` mel-small is trained from scratch; it cannot be frozen or adapted")
        if self.feature_cache is not None and not self.freeze_encoder:
            raise ValueError("`feature_cache` needs `freeze_encoder`, or features would change in training")
        if self.gradient_checkpointing and (self.freeze_encoder or self.encoder == "mel-small"):
            raise ValueError("`gradient_checkpointing` has no use with a frozen encoder, nor with mel-small")
        return self


class Objective(Section):
    """What is minimized."""

    name: Literal["ctc-dro", "ctc-dro-unsmoothed", "group-dro", "erm"] = "ctc-dro"
    step_size: float = Field(1e-4, ge=0)
    """Of the group weights; not used by `erm`."""
    smoothing: float = Field(0.1, ge=0)
    """Of their update; used by `ctc-dro` only."""
    start_after: int = Field(0, ge=0)
    """Batches during which the weights of `ctc-dro` stay even. While a model says nothing but blanks, losses tell how
    much is said, and not how hard it is."""
    reduction: Literal["sum", "mean"] = "sum"
    """The losses of a batch are added up, as in the paper, or averaged, as in the authors' code."""
    compare_by: Literal["second", "label"] = "second"
    """The loss that the weights of `ctc-dro` see: of a second, as in the paper, or of a label, where languages differ
    in characters a second. The gradient is the same."""
    normalize: Literal["none", "frames", "labels"] = "none"
    """Divide the loss of an utterance by its frames or labels: the paper's study of why that does not help."""

    @model_validator(mode="after")
    def _check(self) -> Objective:
        if self.compare_by == "label" and not self.name.startswith("ctc-dro"):
            raise ValueError(f"`compare_by` label is of ctc-dro and ctc-dro-unsmoothed; `name` is {self.name}")
        if self.start_after and (not self.name.startswith("ctc-dro") or self.reduction != "sum"):
            raise ValueError(
                "`start_after` is of ctc-dro and ctc-dro-unsmoothed with reduction sum; "
                f"`name` is {self.name}, `reduction` {self.reduction}"
            )
        return self


class Batches(Section):
    """Which utterances come together."""

    sampler: Literal["length-matched", "similar-length", "group-uniform"] = "length-matched"
    batch_duration: float = Field(50.0, gt=0)
    """Seconds of a batch; for `length-matched`."""
    balance: float = Field(0.0, ge=0, le=1)
    """0: groups have equal shares; 1: shares in proportion to their audio, each utterance once an epoch."""
    batch_size: int = Field(4, gt=0)
    """Utterances of a batch; for the other samplers."""
    group_by: str = "lang"
    """The fields that tell groups apart, as `lang,corpus`."""
    on_fault: Literal["stop", "skip"] = "stop"
    """What to do about audio that cannot be read."""
    num_workers: int = Field(2, ge=0)
    """Processes that read audio."""


class Optimizer(Section):
    """Adam, and how its steps are made."""

    learning_rate: float = Field(1e-4, gt=0)
    betas: tuple[Annotated[float, Field(ge=0, lt=1)], Annotated[float, Field(ge=0, lt=1)]] = (0.9, 0.999)
    weight_decay: float = Field(1e-6, ge=0)
    decoupled: bool = False
    """AdamW instead of Adam."""
    clip_norm: float | None = Field(5.0, gt=0)
    """Limit on the norm of the gradient; null for none. It is scaled with the weight of a step's groups, so that it
    does not undo the group weights."""
    accumulate: int = Field(16, gt=0)
    """Batches of one step, over all processes."""
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    """After warm-up, the learning rate stays, or falls to zero."""
    warmup: float = Field(0.0, ge=0, lt=1)
    """Part of all steps in which the learning rate rises from zero."""


class Training(Section):
    """How long, how, and which model is kept."""

    epochs: int = Field(40, gt=0)
    batches_per_epoch: int = Field(1200, gt=0)
    """After as many batches, over all processes, the development data are looked at."""
    select: Literal["dev-loss", "worst-cer"] = "dev-loss"
    """The model to keep: lowest loss on the development data, or lowest CER of their worst language."""
    stop_after: int | None = Field(None, gt=0)
    """Stop when so many epochs in a row have brought nothing better."""
    checkpoint_every: int | None = Field(None, gt=0)
    """Steps between checkpoints; by default one an epoch."""
    keep_checkpoints: int = Field(2, ge=2)
    precision: Literal["fp32", "bf16"] = "fp32"
    """Precision of matrix products. bf16 is rejected on a CPU where bfloat16 does not work."""
    compile: bool = False
    trackers: tuple[Literal["tensorboard", "wandb", "mlflow", "comet_ml", "aim", "clearml", "dvclive"], ...] = (
        "tensorboard",
    )
    """Where figures go besides the run folder."""
    track_every: int = Field(10, gt=0)
    """Steps between figures for trackers; the run folder has those of every step."""


class Config(Section):
    """A run."""

    dataset: Path
    """Folder with train.jsonl and dev.jsonl."""
    seed: int = Field(0, ge=0)
    model: Model = Model()
    objective: Objective = Objective()
    batches: Batches = Batches()
    optimizer: Optimizer = Optimizer()
    training: Training = Training()

    @model_validator(mode="after")
    def _check(self) -> Config:
        num_batches = self.training.epochs * self.training.batches_per_epoch
        if num_batches < self.optimizer.accumulate:
            raise ValueError(
                f"training.epochs * training.batches_per_epoch are {num_batches} batches, fewer than one step takes "
                f"(optimizer.accumulate is {self.optimizer.accumulate})"
            )
        num_before_last_step = (num_batches // self.optimizer.accumulate - 1) * self.optimizer.accumulate
        if self.objective.start_after > num_before_last_step:
            raise ValueError(
                f"objective.start_after is {self.objective.start_after} batches, but the run has only {num_batches} "
                "(training.epochs * training.batches_per_epoch), so the group weights would never change; set it to "
                f"{num_before_last_step} or less"
            )
        return self


def read_config(path: PathLike, overrides: Iterable[str] = ()) -> Config:
    """Reads a configuration.

    Args:
        path: the YAML file. Its `dataset`, if relative, is relative to the working directory.
        overrides: as "objective.step_size=1e-3", applied after the file.

    Raises:
        ValueError: naming the file and the key.
    """
    return parse_config(read_values(path), overrides, source=str(path))


def read_values(path: PathLike) -> dict[str, Any]:
    """Keys and values of a YAML file, not looked at yet.

    Raises:
        ValueError: if it has none, naming the file.
    """
    try:
        values = _parse_yaml(Path(path).read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path}: not a YAML file: {' '.join(str(error).split())}") from error
    if not isinstance(values, dict):
        raise ValueError(f"{path}: expected keys and values, as `dataset: folder`; got {values!r:.60}.")
    return values


def parse_config(values: dict[str, Any], overrides: Iterable[str] = (), source: str = "configuration") -> Config:
    """The configuration of keys and values.

    Example:
        >>> config = parse_config({"dataset": "set1", "objective": {"step_size": "1e-3"}}, ["model.head=linear"])
        >>> config.objective.step_size, config.model.head, config.training.epochs
        (0.001, 'linear', 40)
        >>> parse_config({"dataset": "set1", "objective": {"stepsize": 1}})
        Traceback (most recent call last):
        ValueError: configuration: objective.stepsize: unknown key; there are name, step_size, smoothing, ...
    """
    return parse_section(Config, values, overrides, source)


def parse_section(kind: type[AnySection], values: dict[str, Any], overrides: Iterable[str], source: str) -> AnySection:
    """Keys and values as a configuration of some kind; errors have the path of the key."""
    try:
        values = _plain(values)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{source}: {error}") from error
    for override in overrides:
        _override(values, override)
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        faults = [f"{source}: {_fault(fault, kind)}" for fault in error.errors(include_url=False)]
        raise ValueError("\n".join(faults)) from error


def _parse_yaml(text: str) -> Any:
    """The value of a text in YAML, by the safe loader; None if there is none.

    Raises:
        ValueError: if it has no value, or one that takes more memory than a text so short should: names for values,
            as `&name` and `*name`, can make a value hold another nine times, which holds another nine times.
    """
    try:
        if len(text) > MOST_CHARACTERS:
            raise ValueError(f"more than {MOST_CHARACTERS:,} characters")
        loader = _Loader(text)
        node = loader.get_single_node()
        if node is None:
            return None
        _num_values(node, {})
        return loader.construct_document(node)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error


class _Loader(yaml.SafeLoader):
    """The safe loader; it stops where a text is deeper, or has more values, than a configuration."""

    num_levels = num_values = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        self.num_levels += 1
        self.num_values += 1
        if self.num_levels > MOST_LEVELS or self.num_values > MOST_VALUES:
            raise yaml.YAMLError(f"more than {MOST_LEVELS} levels or {MOST_VALUES:,} values")
        node = super().compose_node(parent, index)
        self.num_levels -= 1
        return node


def _num_values(node: yaml.Node, known: dict[int, int]) -> int:
    """Values of a node with all that is in it, each as often as it is named."""
    if id(node) not in known:
        known[id(node)] = MOST_VALUES  # if it holds itself
        inner = node.value if isinstance(node, yaml.CollectionNode) else []
        parts = [part for one in inner for part in (one if isinstance(one, tuple) else (one,))]
        known[id(node)] = 1 + sum(_num_values(part, known) for part in parts)
        if known[id(node)] > MOST_VALUES:
            raise ValueError(f"more than {MOST_VALUES:,} values")
    return known[id(node)]


def _plain(values: Any) -> Any:
    """The values as JSON has them: dates are text, and keys are, too."""
    return parse_json(json.dumps(values, default=str))


def schema() -> str:
    """The JSON schema, with a description of every key."""
    return json.dumps(Config.model_json_schema(), indent=2)


def by_key(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Nested values by dotted keys.

    Example:
        >>> dict(by_key({"seed": 1, "model.lora": {"rank": 4}}))
        {'seed': 1, 'model.lora.rank': 4}
    """
    for key, value in values.items():
        if isinstance(value, dict):
            yield from by_key(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def differences(there: Section, here: Section) -> str:
    """What differs between two configurations, in words; empty if nothing does."""
    before, now = (dict(by_key(one.model_dump(mode="json"))) for one in (there, here))
    return "; ".join(
        f"{key} was {before.get(key)}, now it is {now.get(key)}"
        for key in before | now
        if before.get(key) != now.get(key)
    )


def _override(values: dict[str, Any], override: str) -> None:
    key, sign, value = override.partition("=")
    *sections, name = key.split(".")
    if not sign or not name:
        raise ValueError(f"--set must be as objective.step_size=1e-3; got {override!r:.60}.")
    for section in sections:
        values = values.setdefault(section, {})
        if not isinstance(values, dict):
            raise ValueError(f"--set {override:.200}: {section:.60} is a value, and has no keys.")
    try:
        values[name] = _plain(_parse_yaml(value))
    except ValueError as error:
        raise ValueError(f"--set {override:.200}: not a value: {' '.join(str(error).split())}") from error


def _fault(fault: Any, kind: type[Section]) -> str:
    path: Sequence[Any] = fault["loc"]
    key = f"{'.'.join(map(str, path)):.200}"
    if fault["type"] == "extra_forbidden":
        return f"{key}: unknown key; there are {', '.join(_keys(path[:-1], kind))}."
    if fault["type"] == "missing":
        return f"{key}: missing."
    message = fault["msg"].removeprefix("Value error, ")
    shown = "" if fault["type"] == "value_error" else f"; got {fault['input']!r:.60}"
    return f"{key + ': ' if key else ''}{message[:1].lower()}{message[1:]}{shown}."


def _keys(path: Sequence[Any], kind: type[Section]) -> list[str]:
    section: Any = kind
    for name in path:
        if isinstance(name, str):  # and not a place in a list
            section = _section_in(section.model_fields[name].annotation)
    return list(section.model_fields)


def _section_in(annotation: Any) -> Any:
    """The section that an annotation such as `Lora | None` speaks of."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return annotation
    return next(filter(None, map(_section_in, get_args(annotation))), None)
