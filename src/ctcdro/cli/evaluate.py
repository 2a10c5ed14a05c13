"""`ctcdro evaluate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from ..runtime.extras import extra
from .decoding_options import (
    BeamSizeOption,
    BlankPenaltyOption,
    LmOption,
    LmWeightOption,
    make_beam_search,
)
from .options import DeviceOption, JsonOption, RunArgument, ScoringOption
from .score import print_json, print_scores, scores_record


def evaluate(
    run: RunArgument,
    split: Annotated[str, typer.Option(metavar="NAME", help="Split of the dataset to decode.")] = "test",
    scoring: ScoringOption = "plain",
    dataset: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Dataset folder.", show_default="that of the run")
    ] = None,
    device: DeviceOption = "auto",
    batch_duration: Annotated[float, typer.Option(metavar="SECONDS", help="Seconds of audio per batch.", min=0)] = 50.0,
    workers: Annotated[int, typer.Option(metavar="N", help="Processes that read audio.", min=0)] = 0,
    on_error: Annotated[
        Literal["fail", "skip"],
        typer.Option(help="Fail at audio that cannot be read, or skip it and count an empty transcript."),
    ] = "fail",
    beam_size: BeamSizeOption = None,
    lm: LmOption = None,
    lm_weight: LmWeightOption = None,
    blank_penalty: BlankPenaltyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Decode and score a split with a trained model.

    Predictions and scores are written to the run folder. A beam search does not replace the results of greedy decoding:
    its files are named test-beam instead of test.

    Example: ctcdro evaluate runs/first --split dev
    """
    with extra("train", "`ctcdro evaluate`"):
        from ..decoding.evaluate import evaluate as run_evaluation
    from ..runs.folder import RunFolder
    from ..scoring.intervals import confidence_intervals
    from ..scoring.scores import count
    from ..scoring.transcripts import read_predictions
    from .console import progress

    result = run_evaluation(
        run,
        split,
        profile=scoring,
        dataset=dataset,
        beam=make_beam_search(RunFolder(run).model, beam_size, lm, lm_weight, blank_penalty),
        batch_duration=batch_duration,
        num_workers=workers,
        on_bad_audio=on_error,
        device=device,
        track=progress,
    )
    intervals = confidence_intervals(count(read_predictions(result.predictions_path), scoring))
    if as_json:
        print_json(scores_record(result.scores, intervals))
        return
    print_scores(result.scores, intervals)
    typer.echo(f"Predictions: {result.predictions_path}\nScores: {result.scores_path}")
