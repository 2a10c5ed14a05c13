"""The commands of `ctcdro prepare`: how a function that reads a corpus becomes one, and the options of several."""

from __future__ import annotations

import inspect
import json
from collections import Counter
from collections.abc import Callable, Iterable
from math import inf, isinf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import typer

from .options import must_be_folder, must_exist, out_folder
from .registration import make_group, register

if TYPE_CHECKING:
    from ..prepare.entries import CorpusEntry, Dropped
    from ..prepare.prepare import PreparedDataset

prepare = make_group("""Convert a corpus to a dataset.

    A dataset is a folder with the manifests train.jsonl, dev.jsonl and test.jsonl.

    Example: ctcdro prepare fleurs /corpora/fleurs --languages ces,kor --out data/fleurs
""")

Entries: TypeAlias = "Iterable[CorpusEntry | Dropped]"

# Options of all readers.
Out = Annotated[Path, out_folder("Dataset folder to write.")]
TextNorm = Annotated[
    Literal["clean", "paper", "none"],
    typer.Option(
        help="Text normalization. clean: NFC, lower case, no punctuation. paper: that of the authors. none: only NFC."
    ),
]
MaxDuration = Annotated[
    float, typer.Option(metavar="SECONDS", help="Drop longer utterances from train and dev; inf: no limit.", min=0)
]
OnError = Annotated[
    Literal["skip", "fail"], typer.Option(help="Skip entries with problems and list them in dropped.jsonl, or fail.")
]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace an existing dataset that was made with other options.")
]

# Options of several readers.
Root = Annotated[Path, typer.Argument(metavar="CORPUS", help="Folder of the corpus.", callback=must_be_folder())]
Languages = Annotated[
    str | None, typer.Option(metavar="CODES", help="Languages to read, e.g. ces,cmn.", show_default="all")
]
LanguageOption = Annotated[
    str | None, typer.Option(metavar="CODE", help="Language of utterances that specify none, e.g. ces.")
]
Corpus = Annotated[str | None, typer.Option(metavar="NAME", help="Corpus name to store with each utterance.")]
Train = Annotated[
    list[Path], typer.Option("--train", metavar="PATH", help="Training data. Repeatable.", callback=must_exist)
]
Dev = Annotated[
    list[Path] | None, typer.Option("--dev", metavar="PATH", help="Development data. Repeatable.", callback=must_exist)
]
Test = Annotated[
    list[Path] | None, typer.Option("--test", metavar="PATH", help="Test data. Repeatable.", callback=must_exist)
]


def reader_command(name: str, max_duration: float = inf) -> Callable[[Callable[..., Entries]], Any]:
    """Registers a function that reads a corpus as a command, and adds the options of `_write_dataset`.

    The name and the options of the reader are written to `dataset.json`, with absolute paths.
    """

    def decorate(read: Callable[..., Entries]) -> Callable[..., None]:
        own = inspect.signature(read, eval_str=True).parameters
        shared = dict(inspect.signature(_write_dataset, eval_str=True).parameters)
        del shared["entries"], shared["about"]
        shared["max_duration"] = shared["max_duration"].replace(default=max_duration)

        def command(**options: Any) -> None:
            entries = read(**{option: options[option] for option in own})
            about = {"reader": name} | {option: options[option] for option in own if option != "out"}
            plain = json.loads(json.dumps(about, default=lambda path: str(path.absolute())))
            _write_dataset(entries, plain, **{option: options[option] for option in shared})

        parameters = {
            option: parameter.replace(kind=parameter.KEYWORD_ONLY) for option, parameter in (own | shared).items()
        }
        command.__doc__ = read.__doc__
        command.__signature__ = inspect.Signature(list(parameters.values()))  # type: ignore[attr-defined]
        register(prepare, command, name)
        return command

    return decorate


def _write_dataset(
    entries: Entries,
    about: dict[str, Any],
    out: Out,
    text_norm: TextNorm = "clean",
    max_duration: MaxDuration = inf,
    on_error: OnError = "skip",
    overwrite: Overwrite = False,
) -> None:
    from ..prepare.prepare import prepare
    from .console import progress

    limits = {} if isinf(max_duration) else {"train": max_duration, "dev": max_duration}
    about |= {"max_duration": limits}
    print_dataset(prepare(entries, out, about, text_norm, limits, on_error == "fail", overwrite, track=progress))


def print_dataset(done: PreparedDataset) -> None:
    """Prints the statistics of a prepared dataset, and the number of dropped utterances."""
    from ..report.tables.datasets import statistics_table
    from .console import print_table, results

    print_table(statistics_table(done.statistics))
    if done.num_dropped:
        reasons = Counter(done.num_dropped)
        listed = ", ".join(f"{number} {reason}" for reason, number in reasons.most_common())
        results.print(f"Dropped {reasons.total()}: {listed}. See {done.folder / 'dropped.jsonl'}")
    for split in ("dev", "test"):
        if split not in done.statistics:
            results.print(f"No {split}.jsonl was written: the corpus has no utterances for it.")
    results.print(f"Dataset: {done.folder}")


def split_codes(languages: str | None) -> list[str] | None:
    return None if languages is None else languages.replace(",", " ").split()
