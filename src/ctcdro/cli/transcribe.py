"""`ctcdro transcribe`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from ..runtime.extras import extra
from .decoding_options import BeamSizeOption, LmOption, LmWeightOption, make_beam_search
from .options import DeviceOption, RunArgument, must_be_file


def transcribe(
    run: RunArgument,
    audio: Annotated[
        list[Path],
        typer.Argument(metavar="AUDIO", help="Audio files, e.g. recordings/*.wav.", callback=must_be_file()),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per file.")] = False,
    device: DeviceOption = "auto",
    beam_size: BeamSizeOption = None,
    lm: LmOption = None,
    lm_weight: LmWeightOption = None,
) -> None:
    """Transcribe audio files: print the language and the text of each.

    Files that cannot be transcribed are skipped and listed at the end. Exit status: 1 if there are any.

    Example: ctcdro transcribe runs/first hello.wav world.mp3
    """
    with extra("train", "`ctcdro transcribe`"):
        from ..decoding.transcribe import transcribe as run_transcription
    from ..runs.folder import find_model
    from ..speech.language_names import language_name
    from .console import escaped

    model_folder = find_model(run)
    beam = make_beam_search(model_folder, beam_size, lm, lm_weight)
    errors: list[ValueError] = []
    for transcript in run_transcription(model_folder, audio, beam, device=device, on_error=errors.append):
        if as_json:
            typer.echo(json.dumps(transcript._asdict(), ensure_ascii=False))
        else:
            language = language_name(transcript.language) if transcript.language else "unknown language"
            typer.echo(f"{transcript.path}\t{language}\t{transcript.text}")
    if errors:
        typer.echo(f"{len(errors)} of {len(audio)} files could not be transcribed:", err=True)
        for error in errors:
            typer.echo(f"  {escaped(str(error))}", err=True)
        raise typer.Exit(1)
