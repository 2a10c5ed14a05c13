"""`ctcdro tune-lm`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..runs.folder import find_model
from ..runtime.extras import extra
from .decoding_options import BeamSizeOption, make_beam_search
from .options import DeviceOption, JsonOption, RunArgument, ScoringOption

if TYPE_CHECKING:
    from ..decoding.tuning import TunedSetting
    from ..report.table import Table


def tune_lm(
    run: RunArgument,
    lm: Annotated[
        list[str],
        typer.Option(
            "--lm",
            metavar="[CODE=]FILE",
            help="n-gram language model, in ARPA or KenLM format. Repeat it with a language each, e.g. kor=ko.arpa.",
        ),
    ],
    split: Annotated[str, typer.Option(metavar="NAME", help="Split of the dataset to tune on.")] = "dev",
    scoring: ScoringOption = "plain",
    dataset: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Dataset folder.", show_default="that of the run")
    ] = None,
    beam_size: BeamSizeOption = 16,
    lm_weights: Annotated[
        list[float] | None,
        typer.Option(
            "--lm-weight", metavar="X", min=0, help="Weight to try. Repeatable.", show_default="0.1 0.2 0.4 0.6 0.9"
        ),
    ] = None,
    blank_penalties: Annotated[
        list[float] | None,
        typer.Option(
            "--blank-penalty", metavar="X", help="Blank penalty to try. Repeatable.", show_default="0 0.5 1 2"
        ),
    ] = None,
    device: DeviceOption = "auto",
    as_json: JsonOption = False,
) -> None:
    """Tune the weight of a language model on dev.

    Decodes dev once, and scores every pair of weight and blank penalty. Prints the options with the lowest error rate
    in the worst language, for `ctcdro evaluate` and `ctcdro transcribe`.

    Example: ctcdro tune-lm runs/first --lm lm.arpa
    """
    with extra("train", "`ctcdro tune-lm`"):
        from ..decoding.tuning import BLANK_PENALTIES, LM_WEIGHTS, by_worst_language, tune
    from .console import print_table, progress
    from .score import print_json

    beam = make_beam_search(find_model(run), beam_size, lm, None, None)
    assert beam is not None  # there is a language model
    settings = tune(
        run,
        beam,
        split,
        lm_weights=lm_weights or LM_WEIGHTS,
        blank_penalties=blank_penalties or BLANK_PENALTIES,
        dataset=dataset,
        profile=scoring,
        device=device,
        track=progress,
    )
    best = min(settings, key=by_worst_language)
    if as_json:
        fields = ("lm_weight", "blank_penalty", "worst_cer", "mean_cer")
        records = [{name: getattr(setting, name) for name in fields} for setting in settings]
        print_json({"best": records[settings.index(best)], "settings": records})
        return
    print_table(_table(settings))
    if best.lm_weight is None:
        typer.echo("Greedy decoding is best: use no language model.")
        return
    files = " ".join(f"--lm {value}" for value in lm)
    weights = f"--lm-weight {best.lm_weight:g} --blank-penalty {best.blank_penalty:g}"
    typer.echo(f"Options with the lowest worst CER: {files} --beam-size {beam_size} {weights}")


def _table(settings: list[TunedSetting]) -> Table:
    from ..report.table import Column, Table, percent

    columns: list[Column[TunedSetting]] = [
        Column("lm weight", lambda one: "greedy" if one.lm_weight is None else f"{one.lm_weight:g}"),
        Column("blank penalty", lambda one: None if one.lm_weight is None else f"{one.blank_penalty:g}"),
        Column("worst CER", lambda one: percent(one.worst_cer), "lower"),
        Column("mean CER", lambda one: percent(one.mean_cer), "lower"),
    ]
    return Table.of("tuning", "", columns, settings)
