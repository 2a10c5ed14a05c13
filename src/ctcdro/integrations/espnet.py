"""CTC-DRO in ESPnet2's ASR task: the loss as a `ctc_type`, the length-matched batches as a `batch_type`.

Run `python -m ctcdro.integrations.espnet` in the place of `python -m espnet2.bin.asr_train`, with the same arguments;
put a file `utt2category` (lines of "utterance group", one for each utterance) beside the training data; and add to the
configuration:

    ctc_conf:
        ctc_type: ctcdro
        dro_step_size: 1.0e-4
        dro_smoothing: 0.1
    batch_type: ctcdro
    batch_duration: 50.0        # seconds

Either of the two works without the other. What one can rely on:

* the weights are part of the model, hence of `checkpoint.pth`, and a resumed run continues exactly;
* `config.yaml` and all models that a run leaves behind load in plain ESPnet too, which needs no ctcdro to decode;
* validation and plots of attention see the plain loss, and move nothing;
* each rank gets batches of its own, all ranks hold the same weights, and each batch counts the same.

ESPnet itself is left as it is: a subclass of its task overrides what builds the model and the batches.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ..objectives.ctc import ctc_losses
from ..objectives.ctc_dro import ctc_dro
from ..objectives.objective import Objective, Reduction
from ..runtime.extras import extra
from ..sampling.samplers import LengthMatchedBatchSampler
from ..speech.manifest import Groups, Manifest
from ..speech.utterance import Utterance
from .clipping import warn_of_clipping

with extra("espnet", "In addition to ESPnet itself (pip install espnet), the ESPnet integration"):
    from espnet2.asr.ctc import CTC
    from espnet2.asr.espnet_model import ESPnetASRModel
    from espnet2.fileio.read_text import load_num_sequence_text, read_2columns_text
    from espnet2.iterators.abs_iter_factory import AbsIterFactory
    from espnet2.iterators.sequence_iter_factory import SequenceIterFactory
    from espnet2.samplers.abs_sampler import AbsSampler
    from espnet2.tasks.abs_task import IteratorOptions
    from espnet2.tasks.asr import ASRTask
    from espnet2.train.distributed_utils import DistributedOption
    from espnet2.utils.types import float_or_none, humanfriendly_parse_size_or_none, str_or_none

NAME = "ctcdro"
"""What `ctc_type` and `batch_type` are called, and where `config.yaml` keeps the settings of the loss."""

OPTION_PREFIX = "dro_"


class CTCDROTask(ASRTask):
    """ESPnet2's ASR task, with one more `ctc_type` and one more `batch_type`.

    Example:
        >>> CTCDROTask.main(cmd=["--config", "train.yaml", "--output_dir", "exp"])  # doctest: +SKIP
    """

    @classmethod
    def get_parser(cls) -> argparse.ArgumentParser:
        parser = super().get_parser()
        (batch_type,) = (action for action in parser._actions if action.dest == "batch_type")
        batch_type.choices = [*batch_type.choices, NAME]
        group = parser.add_argument_group(f"Length-matched batches (batch_type={NAME})")
        group.add_argument("--batch_duration", type=float, default=50.0, help="Seconds of speech in a batch")
        group.add_argument(
            "--batch_balance",
            type=float,
            default=0.0,
            help="Share of each group: 0, the same for all; 1, as much as it has, every utterance once an epoch",
        )
        group.add_argument(
            "--batch_rate",
            type=float_or_none,
            default=None,
            help="How much of the lengths in the first shape file is a second; by default `fs` of frontend_conf",
        )
        group.add_argument(
            "--utt2category",
            type=str_or_none,
            default=None,
            help="The group of each training utterance; by default the file of that name beside the training data",
        )
        return parser

    @classmethod
    def main_worker(cls, args: argparse.Namespace) -> None:
        _check(args)
        super().main_worker(args)

    @classmethod
    def build_model(cls, args: argparse.Namespace) -> ESPnetASRModel:
        settings = _take_settings(args)
        model = super().build_model(args)
        if settings is not None:
            make_robust(model, settings)
            _warn_of_clipping(args, settings)
        return model

    @classmethod
    def build_iter_options(
        cls, args: argparse.Namespace, distributed_option: DistributedOption, mode: str
    ) -> IteratorOptions:
        options = super().build_iter_options(args, distributed_option, mode)
        if mode == "valid" and options.batch_type == NAME:
            # The development data need no groups, and no two evaluations should differ in their batches.
            options.batch_type, options.batch_bins = "length", max(1, round(args.batch_duration * _rate(args)))
        return options

    @classmethod
    def build_sequence_iter_factory(
        cls, args: argparse.Namespace, iter_options: IteratorOptions, mode: str
    ) -> AbsIterFactory:
        if iter_options.batch_type != NAME:
            return super().build_sequence_iter_factory(args, iter_options, mode)
        corpus = read_corpus(_shape_file(args), _utt2category(args), _rate(args))
        is_distributed = iter_options.distributed
        sampler = LengthMatchedBatchSampler(
            corpus.durations,
            corpus.groups.numbers,
            args.batch_duration,
            args.batch_balance,
            args.seed,
            rank=torch.distributed.get_rank() if is_distributed else 0,
            world_size=torch.distributed.get_world_size() if is_distributed else 1,
            group_names=corpus.groups.names,
        )
        logging.info(f"[{mode}] {sampler.num_batches:,} batches of {sampler.num_groups} groups: {sampler.report()}")
        return SequenceIterFactory(
            dataset=cls.build_dataset(args, iter_options, set(corpus.ids)),
            batches=KeySampler(corpus.ids, sampler, longest_first=args.sort_in_batch == "descending"),
            num_iters_per_epoch=iter_options.num_iters_per_epoch,
            seed=args.seed,
            shuffle=False,  # the sampler has its own order, in which groups take turns
            num_workers=args.num_workers,
            collate_fn=iter_options.collate_fn,
            pin_memory=args.ngpu > 0,
        )


@dataclass(frozen=True)
class Settings:
    """Settings of the loss, as `config.yaml` keeps them."""

    step_size: float
    smoothing: float
    utt2category: str
    groups: list[str]
    reduction: Reduction = "sum"


def _warn_of_clipping(args: argparse.Namespace, settings: Settings) -> None:
    warn_of_clipping(
        logging.getLogger(),
        getattr(args, "grad_clip", None),  # absent for a loaded model
        getattr(args, "accum_grad", 1),
        len(settings.groups),
        limit_option="grad_clip",
        steps_option="accum_grad",
    )


def make_robust(model: ESPnetASRModel, settings: Settings) -> None:
    """Replaces the CTC loss of a model of ESPnet; all parameters stay as they are."""
    if type(model) is not ESPnetASRModel:
        raise ValueError(f"`model` must be espnet with ctc_type={NAME}; got {type(model).__name__}.")
    if model.ctc is None:
        raise ValueError(f"`ctc_weight` of model_conf must be above 0 with ctc_type={NAME}: there is no CTC loss.")
    if model.interctc_weight > 0:
        raise ValueError(
            f"`interctc_weight` of model_conf must be 0 with ctc_type={NAME}; got {model.interctc_weight}. "
            "The weights of the groups would move with the loss of every layer."
        )
    if model.ctc_weight < 1 and settings.reduction == "sum":
        logging.warning(
            f"`dro_reduction` is sum, and `ctc_weight` {model.ctc_weight}: the CTC loss is the sum over a batch, that "
            "of the decoder the mean. Set dro_reduction: mean to keep ESPnet's proportion."
        )
    objective = ctc_dro(
        len(settings.groups),
        step_size=settings.step_size,
        smoothing=settings.smoothing,
        reduction=settings.reduction,
        group_names=settings.groups,
    )
    model.ctc = RobustCTC(model.ctc, objective)
    categories = Categories(settings.utt2category, settings.groups)

    def tell_groups(model: ESPnetASRModel, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if model.training:
            model.ctc.groups = categories.of(kwargs["utt_id"])

    def report_weights(model: ESPnetASRModel, args: tuple[Any, ...], output: tuple[Any, ...]) -> tuple[Any, ...]:
        if not model.training:
            return output
        loss, stats, num_utterances = output
        # ESPnet averages over ranks in proportion to this number. Here each batch counts the same, as it would with
        # the batches of all ranks in turn.
        return loss, stats | model.ctc.stats(), torch.ones_like(num_utterances)

    model.register_forward_pre_hook(tell_groups, with_kwargs=True)
    model.register_forward_hook(report_weights)


class RobustCTC(CTC):
    """ESPnet's CTC module with the loss of CTC-DRO in training, and its own everywhere else.

    Args:
        plain: the module whose output layer and options are taken over.
        objective: weighs the losses of a batch.
    """

    def __init__(self, plain: CTC, objective: Objective) -> None:
        super().__init__(
            plain.ctc_lo.out_features,
            plain.ctc_lo.in_features,
            plain.dropout_rate,
            reduce=plain.reduce,
            zero_infinity=plain.ctc_loss.zero_infinity,
        )
        self.ctc_lo = plain.ctc_lo
        self.objective = objective
        self.groups: Tensor | None = None
        """The group of each utterance of the next batch."""
        self.register_state_dict_post_hook(_names_as_floats)
        self.register_load_state_dict_pre_hook(_names_as_bytes)

    def loss_fn(self, th_pred: Tensor, th_target: Tensor, th_ilen: Tensor, th_olen: Tensor) -> Tensor:
        if not (self.training and self.reduce):
            return super().loss_fn(th_pred, th_target, th_ilen, th_olen)
        groups, self.groups = self.groups, None
        assert groups is not None, "the model tells the groups of every batch"
        return self.objective(ctc_losses(th_pred.log_softmax(2).float(), th_target, th_ilen, th_olen), groups)

    def stats(self) -> dict[str, Tensor]:
        """For ESPnet's reporter: the weight of each group, and how many utterances CTC could not fit so far."""
        assert self.objective.group_names is not None
        weights = self.objective.weights.split(1)
        named = {f"weight_{name}": weight for name, weight in zip(self.objective.group_names, weights, strict=True)}
        return named | {"num_skipped": self.objective.num_skipped.sum().reshape(1).float()}


# ESPnet averages the best models entry by entry, and bytes come out of that as no text. Floating-point numbers do come
# out as they were, if they are the same in all models; so the names of the groups travel as these.
def _names_as_floats(module: torch.nn.Module, state: dict[str, Any], prefix: str, _: Any) -> None:
    state[f"{prefix}objective._extra_state"] = state[f"{prefix}objective._extra_state"].float()


def _names_as_bytes(module: torch.nn.Module, state: dict[str, Any], prefix: str, *_: Any) -> None:
    if (key := f"{prefix}objective._extra_state") in state:
        state[key] = state[key].to(torch.uint8)


class KeySampler(AbsSampler):
    """A sampler of this package as one of ESPnet: batches of utterance ids, those of an epoch by `generate`.

    Args:
        ids: of the utterances, in the sampler's order.
        longest_first: the order within a batch, by length; some of ESPnet's encoders ask for it.
    """

    def __init__(self, ids: Sequence[str], sampler: LengthMatchedBatchSampler, longest_first: bool = True) -> None:
        self.ids = ids
        self.sampler = sampler
        self.longest_first = longest_first

    def __len__(self) -> int:
        return len(self.sampler)

    def __iter__(self) -> Any:
        return iter(self.generate(self.sampler.seed))

    def generate(self, seed: int) -> list[tuple[str, ...]]:
        """The batches of this rank in an epoch; ESPnet asks for epoch n with `seed` + n."""
        self.sampler.set_epoch(seed - self.sampler.seed)
        length = self.sampler.durations.__getitem__
        return [
            tuple(self.ids[number] for number in sorted(batch, key=length, reverse=self.longest_first))
            for batch in self.sampler
        ]


@dataclass(frozen=True)
class Corpus:
    """What the samplers need to know of a data folder of ESPnet."""

    ids: list[str]
    durations: npt.NDArray[np.float64]
    groups: Groups


def read_corpus(shape_file: str | Path, utt2category: str | Path, rate: float) -> Corpus:
    """Reads the utterances of a shape file, as `speech_shape`, and their groups.

    Args:
        shape_file: lengths of the utterances, as "utterance 45120" or "utterance 282,80" on each line.
        utt2category: the group of each utterance, as "utterance group" on each line.
        rate: how much length is a second: the sampling rate, or frames a second.

    Example:
        >>> corpus = read_corpus("exp/stats/train/speech_shape", "data/train/utt2category", 16000)  # doctest: +SKIP
        >>> LengthMatchedBatchSampler(corpus.durations, corpus.groups.numbers, 50.0)  # doctest: +SKIP
    """
    lengths = load_num_sequence_text(shape_file, loader_type="csv_int")
    ids = list(lengths)
    names = _group_names(ids, utt2category)
    numbers = Categories(utt2category, names).of(ids)
    durations = np.array([lengths[id][0] for id in ids]) / rate
    return Corpus(ids, durations, Groups(names, numbers.numpy()))


def read_manifest(
    folder: str | Path, shape_file: str | Path, rate: float, utt2category: str | Path | None = None
) -> Manifest:
    """A data folder of ESPnet with wav.scp and text as a manifest; `lang` is the group.

    Args:
        folder: as `dump/raw/train`.
        shape_file, rate: as for `read_corpus`; utterances that it does not list are left out.
        utt2category: by default that of the folder.

    Raises:
        ValueError: where wav.scp has a command or an archive, since a manifest names files of audio.
    """
    folder = Path(folder)
    corpus = read_corpus(shape_file, utt2category or folder / "utt2category", rate)
    audio, texts = read_2columns_text(folder / "wav.scp"), read_2columns_text(folder / "text")
    utterances = []
    for id, duration, group in zip(corpus.ids, corpus.durations, corpus.groups.numbers, strict=True):
        for file, lines in (("wav.scp", audio), ("text", texts)):
            if id not in lines:
                raise ValueError(f"{folder / file} has no line for {id!r}, which is in {shape_file}.")
        if audio[id].endswith("|") or ".ark" in audio[id]:
            raise ValueError(
                f"{folder / 'wav.scp'}: {id!r} is {audio[id]!r}; expected the path of an audio file. "
                "Write the audio to files (feats_type=raw, audio_format=flac in asr.sh)."
            )
        lang = corpus.groups.names[group]
        utterances.append(Utterance(audio[id], duration=float(duration), text=texts[id], lang=lang, id=id))
    return Manifest(utterances)


class Categories:
    """The group number of each utterance, read from an utt2category file when first asked for."""

    def __init__(self, path: str | Path, names: Sequence[str]) -> None:
        self.path = path
        self._place = {name: number for number, name in enumerate(names)}

    @cached_property
    def _categories(self) -> dict[str, str]:
        return _read_categories(self.path)

    def of(self, ids: Iterable[str]) -> Tensor:
        """(n,) the group number of each utterance."""
        numbers = []
        for id in ids:
            group = _category(id, self._categories, self.path)
            if group not in self._place:
                raise ValueError(
                    f"{self.path}: {id!r} is of group {group!r}, which is none of those of this run "
                    f"({', '.join(self._place)}). Start a new run, or mend the file."
                )
            numbers.append(self._place[group])
        return torch.tensor(numbers)


def _group_names(ids: Iterable[str], utt2category: str | Path) -> list[str]:
    categories = _read_categories(utt2category)
    return sorted({_category(id, categories, utt2category) for id in ids})


def _read_categories(path: str | Path) -> dict[str, str]:
    if not Path(path).is_file():
        raise ValueError(
            f"{path} is not there; expected the group of each training utterance, as 'utterance group' on each line. "
            "Write it, or name another file with `utt2category`."
        )
    return read_2columns_text(path)


def _category(id: str, categories: dict[str, str], path: str | Path) -> str:
    group = categories.get(id)
    if not group or len(group.split()) > 1:
        found = "no line" if group is None else f"{group!r}"
        raise ValueError(f"{path}: expected one word, the group of utterance {id!r}; found {found}.")
    return group


def _utt2category(args: argparse.Namespace) -> str:
    if args.utt2category is not None:
        return args.utt2category
    return str(Path(args.train_data_path_and_name_and_type[0][0]).parent / "utt2category")


def _shape_file(args: argparse.Namespace) -> str:
    if not args.train_shape_file:
        raise ValueError(
            f"`train_shape_file` is missing; batch_type={NAME} and ctc_type={NAME} need the lengths of the training "
            "utterances. Collect them with --collect_stats true."
        )
    return args.train_shape_file[0]


def _rate(args: argparse.Namespace) -> float:
    """How much of the lengths in the shape file is a second."""
    if args.batch_rate is not None:
        return float(args.batch_rate)
    if args.input_size is not None:
        raise ValueError(
            f"`batch_rate` is missing; with `input_size` ({args.input_size}) the data are features. Set it to the "
            "number of frames in a second, so that `batch_duration` can be in seconds."
        )
    return float(humanfriendly_parse_size_or_none(str(args.frontend_conf.get("fs", 16000))))  # it may be "16k"


def _take_settings(args: argparse.Namespace) -> Settings | None:
    """Moves the settings of the loss from `ctc_conf` to an entry of their own.

    What is left of `ctc_conf` is ESPnet's own, so that the `config.yaml` that a run writes can be read without this
    package. Called with the arguments of such a file, it finds the entry.
    """
    if getattr(args, NAME, None) is not None:
        return Settings(**getattr(args, NAME))
    conf = dict(args.ctc_conf)
    own = {name.removeprefix(OPTION_PREFIX): conf.pop(name) for name in list(conf) if name.startswith(OPTION_PREFIX)}
    if conf.get("ctc_type") != NAME:
        if own:
            raise ValueError(
                f"`ctc_conf` has {', '.join(OPTION_PREFIX + name for name in own)}, but ctc_type "
                f"{conf.get('ctc_type', 'builtin')!r}. Set ctc_type: {NAME}, or take them out."
            )
        return None
    args.ctc_conf = conf | {"ctc_type": "builtin"}
    if args.collect_stats:
        return None
    required, known = {"step_size", "smoothing"}, {"step_size", "smoothing", "reduction"}
    if not required <= own.keys() <= known:
        raise ValueError(
            f"`ctc_conf` with ctc_type={NAME} takes dro_step_size, dro_smoothing and, if wanted, dro_reduction (sum or "
            f"mean); got {', '.join(OPTION_PREFIX + name for name in own) or 'none of them'}. The number of groups "
            "comes from utt2category."
        )
    for name in required:
        own[name] = _number(OPTION_PREFIX + name, own[name])
    utt2category = _utt2category(args)
    groups = _group_names(load_num_sequence_text(_shape_file(args), loader_type="csv_int"), utt2category)
    settings = Settings(utt2category=utt2category, groups=groups, **own)
    setattr(args, NAME, asdict(settings))
    if args.batch_type != NAME:
        logging.warning(
            f"`batch_type` is {args.batch_type}: the losses of groups are comparable on batches of one duration only. "
            f"Set batch_type: {NAME}."
        )
    return settings


def _number(name: str, value: Any) -> float:
    try:
        return float(value)  # YAML takes 1e-4, without a point, for text
    except (TypeError, ValueError):
        raise ValueError(f"`{name}` of ctc_conf must be a number; got {value!r}.") from None


def _check(args: argparse.Namespace) -> None:
    """Refuses settings of ESPnet that would undo the batches, or lose the weights."""
    if args.ctc_conf.get("ctc_type") == NAME and args.ngpu > 1 and not args.distributed:
        raise ValueError(
            f"`multiprocessing_distributed` must be true with ngpu={args.ngpu} and ctc_type={NAME}: the copies of "
            "DataParallel would each move weights of their own, and lose them."
        )
    if args.batch_type != NAME:
        return
    expected = {"iterator_type": "sequence", "multiple_iterator": False, "shuffle_within_batch": False}
    for option, value in expected.items():
        if getattr(args, option) != value:
            raise ValueError(
                f"`{option}` must be {str(value).lower()} with batch_type={NAME}; got {getattr(args, option)}. "
                "Batches would no longer be of one group and of one duration."
            )


def main(cmd: Sequence[str] | None = None) -> None:
    """What `python -m ctcdro.integrations.espnet` runs."""
    CTCDROTask.main(cmd=cmd)


if __name__ == "__main__":
    main()
