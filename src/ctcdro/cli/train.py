"""`ctcdro train`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..runtime.extras import extra
from ..runtime.ranks import is_first_process
from .options import ConfigArgument, DeviceOption, SetOption, out_folder


def train(
    config: ConfigArgument,
    out: Annotated[Path, out_folder("Run folder to write. An unfinished run in it is resumed.")],
    overrides: SetOption = None,
    device: DeviceOption = "auto",
) -> None:
    """Train one model from a YAML configuration; resume an unfinished run.

    Run the same command again to resume exactly where it stopped. A finished run is never overwritten. For several
    GPUs, start it with `torchrun -m ctcdro train …` or `accelerate launch -m ctcdro train …`.

    Example: ctcdro train mel-small.yaml --out runs/first --set dataset=data/fleurs
    """
    with extra("train", "`ctcdro train`"):
        from ..runs.config import read_config

    settings = read_config(config, overrides or [])
    with extra("train", "`ctcdro train`"):
        from ..training.loop import train as run_training
    from .console import print_notes
    from .diagnosis import print_before_after, print_budget, print_diagnosis
    from .run_progress import TrainingProgress

    if is_first_process():
        print_notes(settings)
    with TrainingProgress(settings) as progress:
        folder = run_training(settings, out, callback=progress, track=progress.track, device=device)
    if is_first_process():
        print_diagnosis(folder)
        print_budget(folder)
        print_before_after(folder)
        typer.echo(f"Model: {folder.model}")
