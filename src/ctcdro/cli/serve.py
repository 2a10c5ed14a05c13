"""`ctcdro serve`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..runtime.extras import extra
from .options import DeviceOption, must_be_folder


def serve(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN",
            help="Folders of finished runs. Several are compared on the same recording.",
            callback=must_be_folder("Create it with 'ctcdro train'."),
        ),
    ],
    host: Annotated[
        str,
        typer.Option(metavar="ADDRESS", help="Address to listen on. 0.0.0.0 opens the page to the network."),
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="N", help="Port to listen on.", min=1, max=65_535)] = 7860,
    max_minutes: Annotated[
        float, typer.Option(metavar="MINUTES", help="Maximum length of a recording.", min=0.1)
    ] = 10.0,
    max_megabytes: Annotated[int, typer.Option(metavar="MB", help="Maximum size of an uploaded file.", min=1)] = 100,
    num_worst: Annotated[
        int,
        typer.Option(metavar="N", help="Worst utterances of the development set to offer, per language.", min=0),
    ] = 2,
    device: DeviceOption = "auto",
) -> None:
    """Try models on a local web page.

    Record or upload speech and compare the transcripts of several models. Stop the server with Ctrl-C.

    Example: ctcdro serve runs/erm runs/ctc-dro
    """
    with extra("serve", "`ctcdro serve`"):
        from ..serve.page import Limits, wait_until_stopped
        from ..serve.page import serve as run_server
    from .console import progress

    limits = Limits(max_minutes, max_megabytes)
    served = run_server(
        runs, host=host, port=port, limits=limits, num_examples=num_worst, device=device, track=progress
    )
    with served as address:
        typer.echo(f"Page: {address}")
        wait_until_stopped()
