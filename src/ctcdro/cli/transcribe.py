"""`ctcdro transcribe`."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ..runtime.extras import extra
from .decoding_options import (
    BeamSizeOption,
    BlankPenaltyOption,
    LmOption,
    LmWeightOption,
    make_beam_search,
)
from .imports import keep_imports
from .options import DeviceOption, RunArgument, must_be_file, out_folder

if TYPE_CHECKING:
    from rich.progress import Progress

    from ..decoding.recordings import AudioInput
    from ..decoding.transcript import RecordingTranscript
    from ..speech.audio import AudioError


def transcribe(
    run: RunArgument,
    audio: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="AUDIO",
            help="Audio or video files, folders of them, manifests (.jsonl), or - for a list of paths on stdin.",
            show_default=False,
        ),
    ] = None,
    list_file: Annotated[
        Path | None,
        typer.Option("--list", metavar="FILE", help="File with one path per line.", callback=must_be_file()),
    ] = None,
    format: Annotated[
        Literal["text", "json", "srt", "vtt"],
        typer.Option(help="Text, JSON with times and probabilities, or subtitles (SubRip or WebVTT)."),
    ] = "text",
    out: Annotated[
        Path | None, out_folder("Folder to write, with one file per recording.", show_default="print to stdout")
    ] = None,
    language: Annotated[
        str | None,
        typer.Option(
            metavar="CODE", help="Language of all recordings, e.g. kor.", show_default="identified by the model"
        ),
    ] = None,
    window: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            help="Split longer recordings at pauses.",
            min=0.6,
            show_default="longest training utterance, 5 to 30",
        ),
    ] = None,
    device: DeviceOption = "auto",
    beam_size: BeamSizeOption = None,
    lm: LmOption = None,
    lm_weight: LmWeightOption = None,
    blank_penalty: BlankPenaltyOption = None,
) -> None:
    """Transcribe recordings of any length.

    Prints the path, the language and the text of each, or writes files. Recordings that cannot be transcribed are
    skipped and listed at the end. Exit status: 1 if there are any.

    Example: ctcdro transcribe runs/first talks/ --format srt --out subtitles
    """
    with keep_imports(), extra("train", "`ctcdro transcribe`"):
        from ..decoding.output_folder import OutputFolder
        from ..decoding.recordings import find_recordings
        from ..decoding.transcribe import Transcriber
    from ..runs.folder import find_model
    from .console import escaped

    recordings = list(find_recordings(_inputs(audio or [], list_file)))
    if not recordings:
        raise ValueError("Nothing to transcribe: name files or folders, or a list with --list.")
    if format in ("srt", "vtt") and out is None and len(recordings) > 1:
        raise ValueError(f"--format {format} with {len(recordings):,} recordings requires --out, a folder to write.")
    model_folder = find_model(run)
    with keep_imports():  # loading a model imports its code
        transcriber = Transcriber(
            model_folder,
            beam=make_beam_search(model_folder, beam_size, lm, lm_weight, blank_penalty),
            language=language,
            window=window,
            device=device,
        )
    folder = None if out is None else OutputFolder(out, format)
    errors: list[ValueError] = []
    bar, advance = _bar(recordings)
    with bar:
        for transcript in transcriber.files(recordings, on_error=errors.append, on_progress=advance):
            if folder is None:
                bar.stop()  # otherwise the text would begin on its line
                _print(transcript, format)
                bar.start()
            else:
                folder.write(transcript)
    if out is not None:
        typer.echo(f"Transcripts: {out}")
    if errors:
        typer.echo(f"{len(errors):,} of {len(recordings):,} recordings could not be transcribed:", err=True)
        for error in errors:
            typer.echo(f"  {escaped(str(error))}", err=True)
        raise typer.Exit(1)


def _bar(recordings: list[AudioInput | AudioError]) -> tuple[Progress, Callable[[float], None]]:
    """A bar of seconds of audio, shown on a terminal, and a function that advances it."""
    from rich.progress import Progress

    from ..decoding.recordings import total_seconds
    from .console import messages, shows_bars

    bar = Progress(console=messages, disable=not shows_bars(), transient=True)
    task = bar.add_task("transcribing", total=None if bar.disable else total_seconds(recordings))
    return bar, partial(bar.advance, task)


def _inputs(named: list[Path], list_file: Path | None) -> list[Path]:
    """The named paths, with `-` replaced by the paths on stdin, then those of the list."""
    paths: list[Path] = []
    for path in named:
        paths += _listed("standard input", sys.stdin.buffer.read()) if str(path) == "-" else [path]
    if list_file is not None:
        paths += _listed(list_file, list_file.read_bytes())
    return paths


def _listed(name: str | Path, content: bytes) -> list[Path]:
    paths = [Path(line) for line in os.fsdecode(content).splitlines() if line.strip()]
    if not paths:
        raise ValueError(f"{name} has no paths. List one per line.")
    return paths


def _print(transcript: RecordingTranscript, format: str) -> None:
    from ..decoding.subtitles import to_srt, to_vtt
    from ..speech.language_names import language_name

    if format == "json":
        typer.echo(json.dumps(transcript.to_record(), ensure_ascii=False))
    elif format == "text":
        language = language_name(transcript.language) if transcript.language else "unknown language"
        typer.echo(f"{transcript.path}\t{language}\t{transcript.text}")
    else:
        typer.echo(to_srt(transcript) if format == "srt" else to_vtt(transcript), nl=False)
