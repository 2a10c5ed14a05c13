"""`ctcdro train`, `evaluate` and `transcribe`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from ..runtime.extras import extra
from ..scoring.formatting import format_percent

if TYPE_CHECKING:
    from ..decoding.beam_search import BeamSearch
    from ..runs.config import Config

Item = TypeVar("Item")

RunArgument = Annotated[Path, typer.Argument(help="Folder of a run.", exists=True, file_okay=False)]
BeamOption = Annotated[
    int | None, typer.Option("--beam-size", min=1, help="Hypotheses of a beam search; greedy by default.")
]
LanguageModelOption = Annotated[
    Path | None, typer.Option("--language-model", help="n-gram model for the beam search: ARPA, or KenLM's binary.")
]
LmWeightOption = Annotated[float | None, typer.Option("--lm-weight", min=0, help="Of the n-gram model: 0.5.")]


def train(
    config: Annotated[Path | None, typer.Argument(help="YAML file that describes the run.")] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Folder of the run.")] = None,
    overrides: Annotated[list[str] | None, typer.Option("--set", help="As objective.step_size=1e-3.")] = None,
    show_schema: Annotated[bool, typer.Option("--schema", help="Print all keys of configurations, and end.")] = False,
) -> None:
    """Train a recognizer. Goes on with an unfinished run exactly; refuses to overwrite a finished one."""
    with extra("train", "`ctcdro train`"):
        from ..runs.config import read_config, schema

    if show_schema:
        typer.echo(schema())
        return
    if config is None or out is None:
        raise typer.BadParameter("give a configuration, and --out.")
    settings = read_config(config, overrides or [])
    with extra("train", "`ctcdro train`"):
        from ..training.loop import train as run_training

    with _TrainingShown(settings) as shown:
        folder = run_training(settings, out, watch=shown, track=shown.track)
    if _is_first():
        typer.echo(f"Model: {folder.model}")


def evaluate(
    run: RunArgument,
    split: Annotated[str, typer.Option(help="Manifest of the dataset.")] = "test",
    profile: Annotated[str, typer.Option(help="Of scoring: plain, ml-superb2 or paper.")] = "plain",
    dataset: Annotated[Path | None, typer.Option(help="By default that of the run.")] = None,
    batch_duration: Annotated[float, typer.Option(help="Seconds of audio at a time.")] = 50.0,
    num_workers: Annotated[int, typer.Option(help="Processes that read audio.")] = 0,
    skip_faults: Annotated[bool, typer.Option("--skip-faults", help="Leave out audio that cannot be read.")] = False,
    beam_size: BeamOption = None,
    language_model: LanguageModelOption = None,
    lm_weight: LmWeightOption = None,
) -> None:
    """Decode and score a split with the model of a run.

    What a beam search finds is written beside what greedy decoding found: as test-beam instead of test.
    """
    from .console import progress
    from .score import print_scores

    with extra("train", "`ctcdro evaluate`"):
        from ..decoding.evaluate import evaluate as run_evaluation

    beam = _beam_search(run, beam_size, language_model, lm_weight)
    done = run_evaluation(
        run,
        split,
        profile=profile,
        dataset=dataset,
        beam=beam,
        batch_duration=batch_duration,
        num_workers=num_workers,
        skip_faults=skip_faults,
        track=progress,
    )
    print_scores(done.scores)
    typer.echo(f"Predictions: {done.predictions_path}\nScores: {done.scores_path}")


def transcribe(
    run: RunArgument,
    audio: Annotated[list[Path], typer.Argument(help="Files of audio.")],
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
    beam_size: BeamOption = None,
    language_model: LanguageModelOption = None,
    lm_weight: LmWeightOption = None,
) -> None:
    """Language and text of audio files.

    Files that cannot be transcribed are skipped and listed at the end; the exit status is then 1.
    """
    with extra("train", "`ctcdro transcribe`"):
        from ..decoding.evaluate import transcribe as run_transcription

    beam = _beam_search(run, beam_size, language_model, lm_weight)
    faults: list[ValueError] = []
    for one in run_transcription(_model_folder(run), audio, beam, on_fault=faults.append):
        if as_json:
            typer.echo(json.dumps(one._asdict(), ensure_ascii=False))
        else:
            typer.echo(f"{one.path}\t{one.language or '?'}\t{one.text}")
    if faults:
        from .console import escaped

        typer.echo(f"{len(faults)} of {len(audio)} files could not be transcribed:", err=True)
        for fault in faults:
            typer.echo(f"  {escaped(str(fault))}", err=True)
        raise typer.Exit(1)


def _beam_search(
    run: Path, beam_size: int | None, language_model: Path | None, lm_weight: float | None
) -> BeamSearch | None:
    """What the options ask for; None for greedy decoding."""
    if lm_weight is not None and language_model is None:
        raise typer.BadParameter("--lm-weight goes with --language-model.")
    if beam_size is None and language_model is None:
        return None
    from ..decoding.beam_search import BeamSearch
    from ..speech.vocabulary import Vocabulary

    options = {"beam_size": beam_size, "language_model": language_model, "lm_weight": lm_weight}
    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    return BeamSearch(Vocabulary.load(_model_folder(run) / "vocab.json"), **given)


def _model_folder(run: Path) -> Path:
    """Of a run; or what is given, if it is the folder of a model."""
    from ..runs.folder import RunFolder

    folder = RunFolder(run)
    if folder.config.exists() and not folder.is_finished:
        raise ValueError(f"{run}: no model in it; finish the run first, with the command that started it.")
    return folder.model if folder.is_finished else run


def export(
    run: RunArgument,
    out: Annotated[Path, typer.Argument(help="Folder to write.", file_okay=False)],
) -> None:
    """A folder that transformers loads by itself, with a model card; for models with a linear head."""
    from ..models.export import export as write_export
    from ..models.recognizer import load
    from ..storage.atomic import atomic_write

    with extra("train", "`ctcdro export`"):
        from ..report.model_card import model_card
    from ..runs.folder import RunFolder

    folder = RunFolder(run)
    if not folder.is_finished:
        raise ValueError(f"{run}: no model in it; finish the run first, with the command that started it.")
    card = model_card(folder)
    model, vocabulary = load(folder.model)
    write_export(model, vocabulary, out)
    with atomic_write(out / "README.md") as file:
        file.write(card)
    typer.echo(f"Model: {out}")


class _TrainingShown:
    """A bar of steps with loss, throughput and the heaviest group; a line for each epoch. The first process shows."""

    def __init__(self, config: Config) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        from ..training.setup import num_steps
        from .console import messages

        columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.fields[figures]}"))
        self._bar = Progress(*columns, console=messages, disable=not _is_first())
        self._task = self._bar.add_task("", total=num_steps(config), figures="")
        self._last: float | None = None

    def __enter__(self) -> _TrainingShown:
        self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if error is None or self._last is not None:
            self._bar.stop()
        else:  # an empty bar says nothing about the error
            self._bar.live.transient = True
            self._bar.live.stop()

    def track(self, sequence: Iterable[Item], description: str, total: float | None = None) -> Iterator[Item]:
        """Shows work before the first step, as a bar of its own."""
        task = self._bar.add_task("", total=total, figures=description)
        for item in sequence:
            yield item
            self._bar.advance(task)
        self._bar.remove_task(task)

    def __call__(self, record: dict[str, Any]) -> None:
        if "epoch" in record:
            best = ", the best so far" if record["is_best"] else ""
            self._bar.console.print(
                f"epoch {record['epoch']}: dev loss {record['dev_loss']:.2f}, worst {record['worst_language']} "
                f"{format_percent(record['worst_cer'])} % CER{best}",
                highlight=False,
                markup=False,
            )
            return
        name, weight = max(record["weights"].items(), key=lambda item: item[1])
        before, self._last = self._last, record["seconds"]
        speed = "" if before is None else f", {record['audio_seconds'] / (record['seconds'] - before):.0f} s of audio/s"
        figures = f"loss {record['loss']:.2f}{speed}, heaviest {name} {weight:.2f}"
        self._bar.update(self._task, completed=record["step"], figures=figures)


def _is_first() -> bool:
    """Whether this is the process that speaks, of those that `torchrun` started."""
    return os.environ.get("RANK", "0") == "0"
