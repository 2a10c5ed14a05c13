"""`ctcdro prepare`: one command per reader."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import typer

if TYPE_CHECKING:
    from ..prepare.entries import CorpusEntry, Dropped

prepare = typer.Typer(
    no_args_is_help=True,
    help="Convert a corpus to a dataset: a folder with train.jsonl, dev.jsonl and test.jsonl.",
)

Entries: TypeAlias = "Iterable[CorpusEntry | Dropped]"

# Options of all readers.
Out = Annotated[Path, typer.Option("--out", "-o", help="Dataset folder to write.", file_okay=False)]
Profile = Annotated[
    Literal["clean", "paper", "none"],
    typer.Option(help="Text profile. clean: NFC, lower case, no punctuation. paper: the authors'. none: NFC only."),
]
MaxDuration = Annotated[
    float | None, typer.Option(help="Drop longer utterances from train and dev, in seconds. inf: no limit.", min=0)
]
Strict = Annotated[bool, typer.Option("--strict", help="Stop at the first problem, instead of dropping the entry.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace a dataset made with other options.")]

# Options of several readers.
Root = Annotated[Path, typer.Argument(help="Folder of the corpus.", exists=True, file_okay=False)]
Languages = Annotated[str | None, typer.Option(help="Languages to read, such as ces,cmn. Default: all.")]
Lang = Annotated[str | None, typer.Option(help="Language of entries without one, such as ces.")]
Corpus = Annotated[str | None, typer.Option(help="Name of the corpus, stored with each utterance.")]
Train = Annotated[list[Path], typer.Option("--train", help="Training data. May be repeated.", exists=True)]
Dev = Annotated[list[Path] | None, typer.Option("--dev", help="Development data.", exists=True)]
Test = Annotated[list[Path] | None, typer.Option("--test", help="Test data.", exists=True)]


def _write_dataset(
    entries: Entries,
    about: dict[str, Any],
    out: Out,
    profile: Profile = "clean",
    max_duration: MaxDuration = None,
    strict: Strict = False,
    overwrite: Overwrite = False,
) -> None:
    from ..prepare.prepare import prepare
    from .console import print_dataset, progress

    limits = {split: max_duration for split in ("train", "dev") if max_duration is not None and isfinite(max_duration)}
    about |= {"max_duration": limits}
    print_dataset(prepare(entries, out, about, profile, limits, strict, overwrite, track=progress))


def _reader_command(name: str, max_duration: float | None = None) -> Callable[[Callable[..., Entries]], Any]:
    """Registers a function that reads a corpus as a command, and adds the options of `_write_dataset`.

    The name and the options of the reader are written to `dataset.json`, with absolute paths.
    """

    def register(read: Callable[..., Entries]) -> Callable[..., None]:
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
        command.__annotations__ = {option: parameter.annotation for option, parameter in parameters.items()}
        command.__signature__ = inspect.Signature(list(parameters.values()))  # type: ignore[attr-defined]
        prepare.command(name)(command)
        return command

    return register


@_reader_command("ml-superb", max_duration=20.0)
def ml_superb(
    out: Out,
    root: Annotated[
        Path | None,
        typer.Argument(help="Folder of the corpora (commonvoice, fleurs, ...).", exists=True, file_okay=False),
    ] = None,
    copy: Annotated[str | None, typer.Option(help="Copy for `datasets` to read instead: espnet/ml_superb_hf.")] = None,
    set_name: Annotated[
        str | None,
        typer.Option("--set", help="Set of the paper: set1 ... set5, set1-extra, set2-extra, scale18, scale18-extra."),
    ] = None,
    pairs: Annotated[
        str | None, typer.Option(help="Languages and corpora instead of a set: ces:fleurs,cmn:fleurs, or all.")
    ] = None,
    train: Annotated[Literal["1h", "10min"], typer.Option(help="Training set of the benchmark.")] = "1h",
    reserved: Annotated[
        Literal["few-shot", "all", "none"],
        typer.Option(help="Training data of the 20 reserved languages: five utterances each, all, or none."),
    ] = "few-shot",
    skip_missing: Annotated[bool, typer.Option("--skip-missing", help="Skip pairs that are not on disk.")] = False,
) -> Entries:
    """ML-SUPERB 2.0, with the paper's language sets by name."""
    from ..prepare.readers.ml_superb import find_pairs, read_ml_superb, read_ml_superb_copy
    from ..prepare.readers.ml_superb_sets import SETS, parse_pairs

    if (root is None) == (copy is None):
        raise typer.BadParameter("specify either the folder of the corpora, or --copy.")
    if (set_name is None) == (pairs is None):
        raise typer.BadParameter("specify either --set or --pairs; --pairs all reads everything.")
    if set_name is not None and set_name not in SETS:
        raise typer.BadParameter(f"--set must be one of {', '.join(SETS)}; got {set_name!r}.")
    chosen = SETS[set_name] if set_name is not None else None if pairs == "all" else parse_pairs(pairs or "")
    if root is None:
        return read_ml_superb_copy(copy or "", out, chosen, reserved, skip_missing)
    return read_ml_superb(root, chosen or find_pairs(root), train, reserved, skip_missing)


@_reader_command("common-voice")
def common_voice(root: Root, languages: Languages = None) -> Entries:
    """Common Voice: the folder of a release, or of one of its languages."""
    from ..prepare.readers.common_voice import read_common_voice

    return read_common_voice(root, _split(languages))


@_reader_command("fleurs")
def fleurs(root: Root, languages: Languages = None) -> Entries:
    """FLEURS: the folder of its languages, or of one of them."""
    from ..prepare.readers.fleurs import read_fleurs

    return read_fleurs(root, _split(languages))


@_reader_command("kaldi")
def kaldi(
    train: Train,
    dev: Dev = None,
    test: Test = None,
    lang: Lang = None,
    corpus: Corpus = None,
    lang_map: Annotated[
        Path | None, typer.Option(help="File with an utterance or speaker and its language on each line.", exists=True)
    ] = None,
) -> Entries:
    """Kaldi data folders, with plain paths in wav.scp; commands in it are rejected."""
    from ..prepare.readers.kaldi import read_kaldi

    return read_kaldi(_by_split(train, dev, test), lang, lang_map, corpus)


@_reader_command("nemo")
def nemo(
    train: Train,
    dev: Dev = None,
    test: Test = None,
    lang: Lang = None,
    lang_field: Annotated[str, typer.Option(help="Field with the language.")] = "lang",
    text_field: Annotated[str, typer.Option(help="Field with the text.")] = "text",
) -> Entries:
    """NeMo manifests."""
    from ..prepare.readers.nemo import read_nemo

    return read_nemo(_by_split(train, dev, test), lang, lang_field, text_field)


@_reader_command("lhotse")
def lhotse(train: Train, dev: Dev = None, test: Test = None, lang: Lang = None, corpus: Corpus = None) -> Entries:
    """lhotse manifests: files of cuts, or of recordings and of supervisions."""
    from ..prepare.readers.lhotse import read_lhotse

    return read_lhotse(_by_split(train, dev, test), lang, corpus)


@_reader_command("huggingface")
def huggingface(
    name: Annotated[str, typer.Argument(help="Name on the hub, or a folder.")],
    out: Out,
    config: Annotated[str | None, typer.Option(help="Configuration of the dataset, such as cs_cz.")] = None,
    train: Annotated[str | None, typer.Option(help="Split for training.")] = None,
    dev: Annotated[str | None, typer.Option(help="Split for development.")] = None,
    test: Annotated[str | None, typer.Option(help="Split for testing.")] = None,
    lang: Lang = None,
    corpus: Corpus = None,
    audio_column: Annotated[str, typer.Option(help="Column with the audio.")] = "audio",
    text_column: Annotated[str, typer.Option(help="Column with the text.")] = "text",
    language_column: Annotated[str, typer.Option(help="Column with the language.")] = "language",
    id_column: Annotated[str | None, typer.Option(help="Column with the id. Default: row numbers.")] = None,
    speaker_column: Annotated[str | None, typer.Option(help="Column with the speaker.")] = None,
) -> Entries:
    """A dataset of the library `datasets` with audio, text and language."""
    from ..prepare.readers.huggingface import Columns, read_huggingface

    columns = Columns(audio_column, text_column, language_column, id_column, speaker_column)
    splits = {split: source for split, source in (("train", train), ("dev", dev), ("test", test)) if source}
    return read_huggingface(name, out, columns, config, splits or None, lang, corpus)


@prepare.command("synthetic")
def synthetic(
    out: Out,
    languages: Annotated[
        str | None, typer.Option(help="Languages, such as ces,cmn,kor. Default: the six of the demonstration.")
    ] = None,
    minutes: Annotated[
        str | None, typer.Option(help="Minutes of train, dev and test per language, such as 10:2:5.")
    ] = None,
    duration: Annotated[
        list[str] | None,
        typer.Option(help="Mean and deviation of the durations in seconds: 4:1.5, or cmn=3.1:1.05 for one language."),
    ] = None,
    rate: Annotated[
        list[str] | None, typer.Option(help="Words per minute of the slowest and fastest speaker: 105:130.")
    ] = None,
    words: Annotated[list[str] | None, typer.Option(help="Number of different words: 500.")] = None,
    speakers: Annotated[list[str] | None, typer.Option(help="Number of speakers: 4.")] = None,
    noise: Annotated[
        list[str] | None, typer.Option(help="Lowest and highest signal-to-noise ratio in dB: cmn=12:20, or none.")
    ] = None,
    room: Annotated[list[str] | None, typer.Option(help="Reverberation time in seconds: 0.4. 0: no room.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of words, speakers, rooms and noise.")] = 0,
    num_workers: Annotated[int | None, typer.Option(help="Number of processes. Default: one per core.", min=1)] = None,
    overwrite: Overwrite = False,
) -> None:
    """Speech synthesized by eSpeak NG, in 42 languages. Repeat an option to set it for several languages.

    The same command gives the same bytes. Run it again to resume.
    """
    from ..prepare.prepare import PreparedDataset
    from ..prepare.statistics import statistics_by_language
    from ..synthetic.corpus import make_corpus
    from ..synthetic.spec import DEMO_SPECS, SpeechSpec
    from .console import print_dataset, progress
    from .speech_specs import parse_speech_specs

    chosen = _split(languages)
    specs = parse_speech_specs(
        DEMO_SPECS if chosen is None else dict.fromkeys(chosen, SpeechSpec()),
        minutes=[minutes] if minutes else None,
        duration=duration,
        rate=rate,
        words=words,
        speakers=speakers,
        noise=noise,
        room=room,
    )
    try:
        manifests = make_corpus(out, specs, seed, num_workers, overwrite, track=progress)
    except RuntimeError as error:  # from eSpeak NG
        raise ValueError(str(error)) from error
    statistics = {split: statistics_by_language(manifest) for split, manifest in manifests.items()}
    print_dataset(PreparedDataset(out, statistics, {}, []))


def _split(languages: str | None) -> list[str] | None:
    return None if languages is None else languages.replace(",", " ").split()


def _by_split(train: list[Path], dev: list[Path] | None, test: list[Path] | None) -> dict[str, list[Path]]:
    return {"train": train, "dev": dev or [], "test": test or []}
