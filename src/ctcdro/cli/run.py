"""`ctcdro train`, `evaluate`, `transcribe` and `export`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from ..runtime.extras import extra
from ..runtime.ranks import is_first_process
from ..scoring.formatting import format_percent
from .score import ProfileOption, print_scores

if TYPE_CHECKING:
    from ..decoding.beam_search import BeamSearch
    from ..runs.config import Config

Item = TypeVar("Item")

RunArgument = Annotated[Path, typer.Argument(help="Folder of a run.", exists=True, file_okay=False)]
BeamOption = Annotated[
    int | None, typer.Option("--beam-size", min=1, help="Hypotheses of a beam search, e.g. 16. Default: greedy.")
]
LanguageModelOption = Annotated[
    Path | None, typer.Option("--language-model", help="n-gram model for the beam search, in ARPA or KenLM format.")
]
LmWeightOption = Annotated[
    float | None, typer.Option("--lm-weight", min=0, help="Weight of the n-gram model. Default: 0.5.")
]


def train(
    config: Annotated[Path | None, typer.Argument(help="YAML file that describes the run.")] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Folder of the run.")] = None,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", help="Override a key, e.g. objective.step_size=1e-3. Repeatable.")
    ] = None,
    show_schema: Annotated[bool, typer.Option("--schema", help="Print all configuration keys and exit.")] = False,
) -> None:
    """Train a recognizer.

    Run the same command again to resume an unfinished run exactly. A finished run is never overwritten.
    """
    with extra("train", "`ctcdro train`"):
        from ..runs.config import Config, read_config

    if show_schema:
        typer.echo(json.dumps(Config.model_json_schema(), indent=2))
        return
    if config is None or out is None:
        raise typer.BadParameter("specify a configuration and --out.")
    settings = read_config(config, overrides or [])
    with extra("train", "`ctcdro train`"):
        from ..training.loop import train as run_training

    with _TrainingProgress(settings) as progress:
        folder = run_training(settings, out, callback=progress, track=progress.track)
    if is_first_process():
        typer.echo(f"Model: {folder.model}")


def evaluate(
    run: RunArgument,
    split: Annotated[str, typer.Option(help="Split of the dataset.")] = "test",
    profile: ProfileOption = "plain",
    dataset: Annotated[Path | None, typer.Option(help="Folder of the dataset. Default: that of the run.")] = None,
    batch_duration: Annotated[float, typer.Option(help="Seconds of audio per batch.")] = 50.0,
    num_workers: Annotated[int, typer.Option(help="Processes that read audio.")] = 0,
    skip_faults: Annotated[bool, typer.Option("--skip-faults", help="Skip audio that cannot be read.")] = False,
    beam_size: BeamOption = None,
    language_model: LanguageModelOption = None,
    lm_weight: LmWeightOption = None,
) -> None:
    """Decode and score a split with the model of a run.

    Results of a beam search do not replace those of greedy decoding: they are named test-beam instead of test.
    """
    from .console import progress

    with extra("train", "`ctcdro evaluate`"):
        from ..decoding.evaluate import evaluate as run_evaluation

    result = run_evaluation(
        run,
        split,
        profile=profile,
        dataset=dataset,
        beam=_beam_search(run, beam_size, language_model, lm_weight),
        batch_duration=batch_duration,
        num_workers=num_workers,
        on_bad_audio="skip" if skip_faults else "fail",
        track=progress,
    )
    print_scores(result.scores)
    typer.echo(f"Predictions: {result.predictions_path}\nScores: {result.scores_path}")


def transcribe(
    run: RunArgument,
    audio: Annotated[list[Path], typer.Argument(help="Audio files.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")] = False,
    beam_size: BeamOption = None,
    language_model: LanguageModelOption = None,
    lm_weight: LmWeightOption = None,
) -> None:
    """Print language and text of audio files.

    Files that cannot be transcribed are skipped and listed at the end; the exit status is then 1.
    """
    with extra("train", "`ctcdro transcribe`"):
        from ..decoding.transcribe import transcribe as run_transcription

    beam = _beam_search(run, beam_size, language_model, lm_weight)
    errors: list[ValueError] = []
    for transcript in run_transcription(_model_folder(run), audio, beam, on_error=errors.append):
        if as_json:
            typer.echo(json.dumps(transcript._asdict(), ensure_ascii=False))
        else:
            typer.echo(f"{transcript.path}\t{transcript.language or '?'}\t{transcript.text}")
    if errors:
        from .console import escaped

        typer.echo(f"{len(errors)} of {len(audio)} files could not be transcribed:", err=True)
        for error in errors:
            typer.echo(f"  {escaped(str(error))}", err=True)
        raise typer.Exit(1)


def _beam_search(
    run: Path, beam_size: int | None, language_model: Path | None, lm_weight: float | None
) -> BeamSearch | None:
    if lm_weight is not None and language_model is None:
        raise typer.BadParameter("--lm-weight needs --language-model.")
    if beam_size is None and language_model is None:
        return None
    from ..decoding.beam_search import BeamSearch
    from ..speech.vocabulary import Vocabulary

    options = {"beam_size": beam_size, "language_model": language_model, "lm_weight": lm_weight}
    specified: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    return BeamSearch(Vocabulary.load(_model_folder(run) / "vocab.json"), **specified)


def _model_folder(path: Path) -> Path:
    """The model of a run; or the folder itself, if it is not a run."""
    from ..runs.folder import RunFolder

    folder = RunFolder(path)
    return folder.require_model() if folder.config.exists() or folder.is_finished else path


def export(
    run: RunArgument,
    out: Annotated[Path, typer.Argument(help="Folder to write.", file_okay=False)],
) -> None:
    """Write a folder that transformers loads, with a model card. Supports models with a linear head."""
    from ..models.export import export as write_export
    from ..models.recognizer import load
    from ..runs.folder import RunFolder
    from ..storage.atomic import atomic_write

    with extra("train", "`ctcdro export`"):
        from ..report.model_card import model_card

    folder = RunFolder(run)
    model_folder = folder.require_model()
    card = model_card(folder)
    model, vocabulary = load(model_folder)
    write_export(model, vocabulary, out)
    with atomic_write(out / "README.md") as file:
        file.write(card)
    typer.echo(f"Model: {out}")


class _TrainingProgress:
    """A progress bar of steps with loss, throughput and the largest group weight; a line per validation."""

    def __init__(self, config: Config) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        from ..training.setup import num_steps
        from .console import messages

        columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.fields[figures]}"))
        self._bar = Progress(*columns, console=messages, disable=not is_first_process(), transient=True)
        self._task = self._bar.add_task("", total=num_steps(config), figures="")
        self._last: float | None = None

    def __enter__(self) -> _TrainingProgress:
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.live.stop()  # `Progress.stop` would print an empty line into a file

    def track(self, sequence: Iterable[Item], description: str, total: float | None = None) -> Iterator[Item]:
        """Shows work before the first step in a separate bar."""
        task = self._bar.add_task("", total=total, figures=description)
        for item in sequence:
            yield item
            self._bar.advance(task)
        self._bar.remove_task(task)

    def __call__(self, record: dict[str, Any]) -> None:
        if "validation" in record:
            best = ", the best so far" if record["is_best"] else ""
            worst = f"worst {record['worst_language']} {format_percent(record['worst_cer'])} % CER"
            line = f"validation {record['validation']}: dev loss {record['dev_loss']:.2f}, {worst}{best}"
            self._bar.console.print(line, highlight=False, markup=False)
            return
        name, weight = max(record["weights"].items(), key=lambda item: item[1])
        before, self._last = self._last, record["seconds"]
        speed = "" if before is None else f", {record['audio_seconds'] / (record['seconds'] - before):.0f} s of audio/s"
        figures = f"loss {record['loss']:.2f}{speed}, largest weight {name} {weight:.2f}"
        self._bar.update(self._task, completed=record["step"], figures=figures)
