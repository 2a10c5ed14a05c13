"""`ctcdro groups`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..runtime.extras import extra
from .options import DatasetArgument, DeviceOption, must_be_folder, out_folder
from .reader_commands import Overwrite

if TYPE_CHECKING:
    from ..grouping.description import FoundGroups


def groups(
    dataset: DatasetArgument,
    out: Annotated[Path, out_folder("Dataset folder to write, without audio.")],
    encoder: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Encoder of the features: a checkpoint of transformers, the folder of a run, or mel-small for log-mel "
            "energies.",
            show_default="that of --run",
        ),
    ] = None,
    run: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN",
            help="Finished run, such as a short baseline, whose losses are part of the features.",
            callback=must_be_folder("Create it with 'ctcdro train'."),
        ),
    ] = None,
    num_groups: Annotated[
        int | None,
        typer.Option(metavar="N", help="Number of groups.", show_default="2 to 12, with the highest silhouette"),
    ] = None,
    soft: Annotated[
        bool, typer.Option("--soft", help="Shares in several groups, by a Gaussian mixture instead of k-means.")
    ] = False,
    layers: Annotated[
        list[int] | None,
        typer.Option(
            "--layer",
            metavar="N",
            help="Layer of the encoder, e.g. -1 for the last. Repeatable.",
            show_default="the middle one",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of the clusters and the map.", min=0)] = 0,
    no_audio: Annotated[bool, typer.Option("--no-audio", help="Omit audio clips from the page.")] = False,
    overwrite: Overwrite = False,
    num_workers: Annotated[int, typer.Option(metavar="N", help="Processes that read audio.", min=0)] = 0,
    device: DeviceOption = "auto",
) -> None:
    """Find groups of utterances in a dataset whose groups are not labeled.

    Writes a dataset with the field `group`, for `data.group_by: [group]`, and a page with a map to look at and listen
    to. Groups are fitted on train; those of dev and test are predicted.

    Example: ctcdro groups data/fleurs --run runs/first --out data/grouped
    """
    with extra("groups", "`ctcdro groups`"):
        from ..grouping.find import find_groups
        from ..report.groups_page import write_groups_page
    from .console import progress

    found = find_groups(
        dataset,
        out,
        encoder=encoder,
        run=run,
        num_groups=num_groups,
        soft=soft,
        layers=layers,
        seed=seed,
        overwrite=overwrite,
        device=device,
        num_workers=num_workers,
        track=progress,
    )
    page = out / "groups.html"
    write_groups_page(found, page, audio=not no_audio)
    _print(found)
    typer.echo(f"Dataset: {out}")
    typer.echo(f"Page: {page}")


def _print(found: FoundGroups) -> None:
    from ..report.tables.groups import describe_found_groups, groups_table, labels_table
    from .console import print_table, results

    print_table(groups_table(found))
    if found.agreement:
        results.print()
        print_table(labels_table(found))
    results.print()
    for sentence in describe_found_groups(found):
        results.print(sentence, soft_wrap=True)
