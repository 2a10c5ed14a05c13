"""ESPnet2's ASR task with the loss and the batches of ctcdro."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from espnet2.asr.espnet_model import ESPnetASRModel
from espnet2.iterators.abs_iter_factory import AbsIterFactory
from espnet2.iterators.sequence_iter_factory import SequenceIterFactory
from espnet2.tasks.abs_task import IteratorOptions
from espnet2.tasks.asr import ASRTask
from espnet2.train.distributed_utils import DistributedOption
from espnet2.utils.types import float_or_none, humanfriendly_parse_size_or_none, str_or_none

from ...objectives.methods import METHODS, all_settings
from ...objectives.objective import Objective
from ...sampling.adaptive import make_sampler
from ..checks import warn_of_clipping
from .ctc import make_robust
from .data import Categories, KeySampler, read_corpus

NAME = "ctcdro"  # value of `ctc_type` and `batch_type`, and key of the loss settings in `config.yaml`
OPTION_PREFIX = "dro_"
CTC_OPTIONS: dict[str, Any] = {"normalization": "none", "num_language_tokens": 0}
DEFAULTS = {"method": "ctc-dro", **{name: setting.default for name, setting in all_settings().items()}, **CTC_OPTIONS}


class CTCDROTask(ASRTask):
    """ESPnet2's ASR task with an additional `ctc_type` and `batch_type`."""

    objective: Objective | None = None
    """Of the model, for the sampler. ESPnet builds the model before the iterator, but does not pass it on."""

    @classmethod
    def get_parser(cls) -> argparse.ArgumentParser:
        parser = super().get_parser()
        (batch_type,) = (action for action in parser._actions if action.dest == "batch_type")
        batch_type.choices = [*batch_type.choices, NAME]
        group = parser.add_argument_group(f"Length-matched batches (batch_type={NAME})")
        for name, kind, default, meaning in (
            ("batch_duration", float, 50.0, "Seconds of speech per batch"),
            ("batch_exponent", float, 0.0, "Share of each group: 0, equal; 1, by audio, each utterance once per epoch"),
            ("batch_rate", float_or_none, None, "Length units per second in the first shape file [default: fs]"),
            ("utt2category", str_or_none, None, "Group of each utterance [default: utt2category of the data folder]"),
        ):
            group.add_argument(f"--{name}", type=kind, default=default, help=meaning)
        return parser

    @classmethod
    def main_worker(cls, args: argparse.Namespace) -> None:
        _check(args)
        super().main_worker(args)

    @classmethod
    def build_model(cls, args: argparse.Namespace) -> ESPnetASRModel:
        settings = _take_settings(args)
        model = super().build_model(args)
        cls.objective = None
        if settings is not None:
            groups, method = settings["groups"], METHODS[settings["method"]]
            cls.objective = objective = method.create(len(groups), settings, group_names=groups)
            options = {name: settings[name] for name in CTC_OPTIONS}
            make_robust(model, objective, Categories(settings["utt2category"]), **options)
            if model.ctc_weight < 1 and method.takes("reduction") and objective.reduction == "sum":
                logging.warning(
                    f"`dro_reduction` is sum and `ctc_weight` is {model.ctc_weight}: the CTC loss is summed over a "
                    "batch, but the decoder loss is averaged. Set dro_reduction: mean to keep ESPnet's balance."
                )
            if not (objective.prefers_shares and args.batch_type == NAME):
                warn_of_clipping(args, objective, limit="grad_clip", batches_per_step="accum_grad")
        return model

    @classmethod
    def build_iter_options(
        cls, args: argparse.Namespace, distributed_option: DistributedOption, mode: str
    ) -> IteratorOptions:
        options = super().build_iter_options(args, distributed_option, mode)
        if mode == "valid" and options.batch_type == NAME:
            # Validation needs no groups, and must have the same batches every time.
            options.batch_type, options.batch_bins = "length", max(1, round(args.batch_duration * _rate(args)))
        return options

    @classmethod
    def build_sequence_iter_factory(
        cls, args: argparse.Namespace, iter_options: IteratorOptions, mode: str
    ) -> AbsIterFactory:
        if iter_options.batch_type != NAME:
            return super().build_sequence_iter_factory(args, iter_options, mode)
        corpus = read_corpus(_shape_file(args), _utt2category(args), _rate(args))
        options = args.batch_duration, args.batch_exponent, args.seed
        sampler = make_sampler(
            corpus.durations,
            corpus.groups.numbers,
            cls.objective,
            *options,
            group_names=corpus.groups.names,
            where=corpus.ids.__getitem__,
        )
        logging.info(f"[{mode}] {sampler.num_batches:,} batches of {sampler.num_groups} groups: {sampler.report()}")
        return SequenceIterFactory(
            dataset=cls.build_dataset(args, iter_options, set(corpus.ids)),
            batches=KeySampler(corpus.ids, sampler, longest_first=args.sort_in_batch == "descending"),
            num_iters_per_epoch=iter_options.num_iters_per_epoch,
            seed=args.seed,
            shuffle=False,  # in the sampler's order, groups take turns
            num_workers=args.num_workers,
            collate_fn=iter_options.collate_fn,
            pin_memory=args.ngpu > 0,
        )


def _check(args: argparse.Namespace) -> None:
    """Rejects settings of ESPnet that would change the batches or lose the weights."""
    if args.ctc_conf.get("ctc_type") == NAME and args.ngpu > 1 and not args.distributed:
        raise ValueError(
            f"ctc_type={NAME} with ngpu={args.ngpu} requires multiprocessing_distributed: true. DataParallel would "
            "lose the changes of the group weights."
        )
    if args.batch_type != NAME:
        return
    expected = {"iterator_type": "sequence", "multiple_iterator": False, "shuffle_within_batch": False}
    for option, value in expected.items():
        if getattr(args, option) != value:
            raise ValueError(
                f"batch_type={NAME} requires {option}: {str(value).lower()}; got {getattr(args, option)}. Otherwise "
                "batches would not have one group and one duration."
            )


def _take_settings(args: argparse.Namespace) -> dict[str, Any] | None:
    """Moves the settings of the loss from `ctc_conf` to a separate entry, so that plain ESPnet reads `config.yaml`."""
    if getattr(args, NAME, None) is not None:
        return getattr(args, NAME)
    conf = dict(args.ctc_conf)
    if conf.get("ctc_type") != NAME:
        return None
    given = [name for name in conf if name.startswith(OPTION_PREFIX)]
    settings = {name.removeprefix(OPTION_PREFIX): conf.pop(name) for name in given}
    args.ctc_conf = conf | {"ctc_type": "builtin"}
    if args.collect_stats:
        return None
    method = METHODS.get(settings.get("method", DEFAULTS["method"]))
    if method is None:
        raise ValueError(f"`dro_method` of ctc_conf must be one of {', '.join(METHODS)}; got {settings['method']!r}.")
    required, taken = (*method.tuned, *method.required), (*method.arguments, *CTC_OPTIONS)
    if not set(required) <= settings.keys() <= {"method", *taken}:
        raise ValueError(
            f"`ctc_conf` with dro_method: {method.name} requires {_options(required)} and accepts "
            f"{_options(taken)}; got {', '.join(given)}. The number of groups comes from utt2category."
        )
    if settings.get("signal") == "error_rate":
        raise ValueError(
            "`dro_signal` of ctc_conf must not be error_rate, because ESPnet's validation does not compute the error "
            "rate of each group. Use loss_per_character."
        )
    for name in method.tuned:
        settings[name] = float(settings[name])  # YAML parses 1e-4, without a decimal point, as text
    settings["utt2category"] = _utt2category(args)
    settings["groups"] = read_corpus(_shape_file(args), settings["utt2category"], rate=1.0).groups.names
    setattr(args, NAME, DEFAULTS | settings)
    if args.batch_type != NAME:
        logging.warning(
            f"`batch_type` is {args.batch_type}, but losses of groups are comparable only for batches of equal "
            f"duration. Set batch_type: {NAME}."
        )
    return getattr(args, NAME)


def _options(settings: Iterable[str]) -> str:
    return ", ".join(f"{OPTION_PREFIX}{name}" for name in settings) or "nothing"


def _utt2category(args: argparse.Namespace) -> str:
    if args.utt2category is not None:
        return args.utt2category
    return str(Path(args.train_data_path_and_name_and_type[0][0]).parent / "utt2category")


def _shape_file(args: argparse.Namespace) -> str:
    if not args.train_shape_file:
        raise ValueError(
            f"`train_shape_file` is missing; batch_type={NAME} and ctc_type={NAME} require the lengths of the training "
            "utterances. Collect them with --collect_stats true."
        )
    return args.train_shape_file[0]


def _rate(args: argparse.Namespace) -> float:
    """Length units per second in the shape file."""
    if args.batch_rate is not None:
        return float(args.batch_rate)
    if args.input_size is not None:
        raise ValueError(
            f"`batch_rate` is missing. Inputs are features (`input_size` is {args.input_size}), but `batch_duration` "
            "is in seconds: set `batch_rate` to the number of frames per second."
        )
    return float(humanfriendly_parse_size_or_none(str(args.frontend_conf.get("fs", 16000))))  # it may be "16k"
