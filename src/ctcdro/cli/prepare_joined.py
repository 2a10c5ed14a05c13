"""`ctcdro prepare joined`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .options import must_be_folder
from .reader_commands import Out, Overwrite, print_dataset


def joined(
    dataset: Annotated[
        Path,
        typer.Argument(metavar="DATASET", help="Folder of a dataset. Keep it afterwards.", callback=must_be_folder()),
    ],
    out: Out,
    max_duration: Annotated[
        float, typer.Option(metavar="SECONDS", help="Omit longer pairs. Whisper encoders accept 30 s.", min=0)
    ] = 30.0,
    group_by: Annotated[
        str,
        typer.Option(metavar="FIELDS", help="Fields in which both utterances of a pair agree, e.g. lang,corpus."),
    ] = "lang",
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of pairs and pauses.", min=0)] = 0,
    overwrite: Overwrite = False,
) -> None:
    """A dataset with pairs of its training utterances added, to train models for long recordings.

    Each training utterance occurs alone and, if a pair is short enough, in front of another one. Half of the pairs have
    a pause. Dev and test do not change.

    Example: ctcdro prepare joined data/fleurs --out data/fleurs-joined
    """
    from ..prepare.joined import join_pairs
    from .console import progress

    print_dataset(
        join_pairs(
            dataset,
            out,
            max_duration=max_duration,
            group_by=group_by,
            seed=seed,
            overwrite=overwrite,
            track=progress,
        )
    )
