"""`ctcdro prepare`: a command for each reader."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from ..prepare.entries import CorpusEntry, Dropped

prepare = typer.Typer(
    no_args_is_help=True,
    help="Any corpus -> a dataset: a folder with train.jsonl, dev.jsonl, test.jsonl.",
)


class Profile(StrEnum):
    """The text profiles of `ctcdro.speech.vocabulary`."""

    clean = "clean"
    paper = "paper"
    none = "none"


Root = Annotated[Path, typer.Argument(help="Folder of the corpus.", exists=True, file_okay=False)]
Out = Annotated[Path, typer.Option("--out", "-o", help="Folder to write the dataset to.", file_okay=False)]
TextProfile = Annotated[
    Profile, typer.Option(help="clean: NFC, lower case, no punctuation. paper: what the authors do. none: NFC only.")
]
MaxDuration = Annotated[
    float | None, typer.Option(help="Seconds; longer utterances of train and dev are left out. inf: none.")
]
Strict = Annotated[bool, typer.Option("--strict", help="Stop at the first fault, instead of leaving it out.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace a dataset made otherwise.")]
Languages = Annotated[str | None, typer.Option(help="Those to take, as ces,cmn; by default all there are.")]
Lang = Annotated[str | None, typer.Option(help="The language of all that tell none.")]
Corpus = Annotated[str | None, typer.Option(help="Name to note of each utterance.")]
_TRAIN, _DEV, _TEST = "For training; may be given several times.", "For development.", "For testing."
TrainFiles = Annotated[list[Path], typer.Option("--train", help=_TRAIN, exists=True, dir_okay=False)]
DevFiles = Annotated[list[Path] | None, typer.Option("--dev", help=_DEV, exists=True, dir_okay=False)]
TestFiles = Annotated[list[Path] | None, typer.Option("--test", help=_TEST, exists=True, dir_okay=False)]
TrainFolders = Annotated[list[Path], typer.Option("--train", help=_TRAIN, exists=True, file_okay=False)]
DevFolders = Annotated[list[Path] | None, typer.Option("--dev", help=_DEV, exists=True, file_okay=False)]
TestFolders = Annotated[list[Path] | None, typer.Option("--test", help=_TEST, exists=True, file_okay=False)]


def _write(
    listed: Iterable[CorpusEntry | Dropped],
    out: Path,
    about: Mapping[str, Any],
    profile: Profile,
    max_duration: float | None,
    strict: bool,
    overwrite: bool,
) -> None:
    from ..prepare.prepare import prepare
    from .console import dataset_shown, progress

    if max_duration is not None and not max_duration > 0:
        raise typer.BadParameter(f"--max-duration must be positive; got {max_duration}.")
    limits = {split: max_duration for split in ("train", "dev") if max_duration is not None and isfinite(max_duration)}
    done = prepare(
        listed, out, {**about, "max_duration": limits}, profile.value, limits, strict, overwrite, track=progress
    )
    dataset_shown(done)


class TrainingData(StrEnum):
    """The two training sets of ML-SUPERB 2.0."""

    one_hour = "1h"
    ten_minutes = "10min"


class Reserved(StrEnum):
    """What to take of the languages that ML-SUPERB 2.0 reserves."""

    few_shot = "few-shot"
    all = "all"
    none = "none"


@prepare.command("ml-superb")
def ml_superb(
    out: Out,
    root: Annotated[
        Path | None,
        typer.Argument(help="Folder of the corpora, as commonvoice and fleurs.", exists=True, file_okay=False),
    ] = None,
    copy: Annotated[str | None, typer.Option(help="Instead: the copy for `datasets`, as espnet/ml_superb_hf.")] = None,
    set_name: Annotated[
        str | None,
        typer.Option("--set", help="The paper's set1 … set5, set1-extra, set2-extra, scale18 or scale18-extra."),
    ] = None,
    pairs: Annotated[
        str | None, typer.Option(help="Or: languages and corpora, as ces:fleurs,cmn:fleurs; or all.")
    ] = None,
    train: Annotated[TrainingData, typer.Option(help="Which of the two training sets.")] = TrainingData.one_hour,
    reserved: Annotated[
        Reserved, typer.Option(help="Training data of the 20 reserved languages: five utterances each, all, or none.")
    ] = Reserved.few_shot,
    skip_missing: Annotated[bool, typer.Option("--skip-missing", help="Leave out pairs that are not on disk.")] = False,
    profile: TextProfile = Profile.clean,
    max_duration: MaxDuration = 20.0,
    strict: Strict = False,
    overwrite: Overwrite = False,
) -> None:
    """ML-SUPERB 2.0, with the paper's language sets by name."""
    from ..prepare.readers.ml_superb import find_pairs, read_ml_superb, read_ml_superb_copy
    from ..prepare.readers.ml_superb_sets import SETS, parse_pairs

    if (root is None) == (copy is None):
        raise typer.BadParameter("give the folder of the corpora, or --copy.")
    if (set_name is None) == (pairs is None):
        raise typer.BadParameter("give one of --set and --pairs; --pairs all takes everything.")
    if set_name is not None and set_name not in SETS:
        raise typer.BadParameter(f"--set must be one of {', '.join(SETS)}; got {set_name!r}.")
    chosen = SETS[set_name] if set_name is not None else None if pairs == "all" else parse_pairs(pairs or "")
    if root is not None:
        chosen = find_pairs(root) if chosen is None else chosen
        if not chosen:
            raise ValueError(f"{root}: no corpora in it; expected folders such as commonvoice/ces, with transcripts.")
        listed = read_ml_superb(root, chosen, train.value, reserved.value, skip_missing)
    else:
        listed = read_ml_superb_copy(copy or "", out, chosen, reserved.value, skip_missing)
    about = {
        "reader": "ml-superb",
        "source": copy or str(Path(root or "").absolute()),
        "set": set_name,
        "pairs": "all" if chosen is None else [":".join(pair) for pair in chosen],
        "train": train.value,
        "reserved": reserved.value,
        "skip_missing": skip_missing,
    }
    _write(listed, out, about, profile, max_duration, strict, overwrite)


@prepare.command("common-voice")
def common_voice(
    root: Root,
    out: Out,
    languages: Languages = None,
    profile: TextProfile = Profile.clean,
    max_duration: MaxDuration = None,
    strict: Strict = False,
    overwrite: Overwrite = False,
) -> None:
    """Common Voice: the folder of a release, or of one of its languages."""
    from ..prepare.readers.common_voice import read_common_voice

    about = {"reader": "common-voice", "root": str(root.absolute()), "languages": languages}
    _write(read_common_voice(root, _split(languages)), out, about, profile, max_duration, strict, overwrite)


@prepare.command("fleurs")
def fleurs(
    root: Root,
    out: Out,
    languages: Languages = None,
    raw: Annotated[bool, typer.Option("--raw", help="Raw sentences instead of the corpus's normalized ones.")] = False,
    profile: TextProfile = Profile.clean,
    max_duration: MaxDuration = None,
    strict: Strict = False,
    overwrite: Overwrite = False,
) -> None:
    """FLEURS: tables and folders of audio."""
    from ..prepare.readers.fleurs import read_fleurs

    about = {"reader": "fleurs", "root": str(root.absolute()), "languages": languages, "raw": raw}
    _write(read_fleurs(root, _split(languages), raw), out, about, profile, max_duration, strict, overwrite)


@prepare.command("kaldi")
def kaldi(
    train: TrainFolders,
    out: Out,
    dev: DevFolders = None,
    test: TestFolders = None,
    lang: Lang = None,
    corpus: Corpus = None,
    lang_map: Annotated[
        Path | None, typer.Option(help="File of utterance or speaker, and language, on each line.", exists=True)
    ] = None,
    profile: TextProfile = Profile.clean,
    max_duration: MaxDuration = None,
    strict: Strict = False,
    overwrite: Overwrite = False,
) -> None:
    """Kaldi data folders, with plain paths in wav.scp; commands in it are refused."""
    from ..prepare.readers.kaldi import read_kaldi

    folders = _by_split(train, dev, test)
    named = str(lang_map.absolute()) if lang_map else None
    about = {"reader": "kaldi", **_named(folders), "lang": lang, "lang_map": named, "corpus": corpus}
    _write(read_kaldi(folders, lang, lang_map, corpus), out, about, profile, max_duration, strict, overwrite)


@prepare.command("nemo")
def nemo(
    train: TrainFiles,
    out: Out,
    dev: DevFiles = None,
    test: TestFiles = None,
    lang: Lang = None,
    lang_field: Annotated[str, typer.Option(help="Field of the language.")] = "lang",
    text_field: Annotated[str, typer.Option(help="Field of the text.")] = "text",
    profile: TextProfile = Profile.clean,
    max_duration: MaxDuration = None,
    strict: Strict = False,
    overwrite: Overwrite = False,
) -> None:
    """NeMo manifests."""
    from ..prepare.readers.nemo import read_nemo

    files = _by_split(train, dev, test)
    about = {"reader": "nemo", **_named(files), "lang": lang, "lang_field": lang_field, "text_field": text_field}
    _write(read_nemo(files, lang, lang_field, text_field), out, about, profile, max_duration, strict, overwrite)


@prepare.command("lhotse")
def lhotse(
    train: TrainFiles,
    out: Out,
    dev: DevFiles = None,
    test: TestFiles = None,
    lang: Lang = None,
    corpus: Corpus = None,
    profile: TextProfile = Profile.clean,
    max_duration: MaxDuration = None,
    strict: Strict = False,
    overwrite: Overwrite = False,
) -> None:
    """lhotse manifests: files of cuts, or of recordings and of supervisions."""
    from ..prepare.readers.lhotse import read_lhotse

    files = _by_split(train, dev, test)
    about = {"reader": "lhotse", **_named(files), "lang": lang, "corpus": corpus}
    _write(read_lhotse(files, lang, corpus), out, about, profile, max_duration, strict, overwrite)


@prepare.command("huggingface")
def huggingface(
    name: Annotated[str, typer.Argument(help="On the hub, or a folder.")],
    out: Out,
    config: Annotated[str | None, typer.Option(help="Of the dataset, as cs_cz.")] = None,
    train: Annotated[str | None, typer.Option(help="Its split for training.")] = None,
    dev: Annotated[str | None, typer.Option(help="Its split for development.")] = None,
    test: Annotated[str | None, typer.Option(help="Its split for testing.")] = None,
    lang: Lang = None,
    corpus: Corpus = None,
    audio_column: Annotated[str, typer.Option(help="Column of the audio.")] = "audio",
    text_column: Annotated[str, typer.Option(help="Column of the text.")] = "text",
    language_column: Annotated[str, typer.Option(help="Column of the language.")] = "language",
    id_column: Annotated[str | None, typer.Option(help="Column of the id; by default rows are numbered.")] = None,
    speaker_column: Annotated[str | None, typer.Option(help="Column of the speaker.")] = None,
    profile: TextProfile = Profile.clean,
    max_duration: MaxDuration = None,
    strict: Strict = False,
    overwrite: Overwrite = False,
) -> None:
    """Any dataset of the library `datasets` with audio, text and language."""
    from ..prepare.readers.huggingface import Columns, read_huggingface

    columns = Columns(audio_column, text_column, language_column, id_column, speaker_column)
    splits = {ours: theirs for ours, theirs in (("train", train), ("dev", dev), ("test", test)) if theirs}
    about = {"reader": "huggingface", "name": name, "config": config, "splits": splits, "lang": lang, "corpus": corpus}
    listed = read_huggingface(name, out, columns, config, splits or None, lang, corpus)
    _write(listed, out, {**about, "columns": vars(columns)}, profile, max_duration, strict, overwrite)


@prepare.command("synthetic")
def synthetic(
    out: Out,
    languages: Annotated[
        str | None, typer.Option(help="As ces,cmn,kor; by default the six of the demonstration, with its settings.")
    ] = None,
    minutes: Annotated[str | None, typer.Option(help="Of train, dev and test for each language, as 10:2:5.")] = None,
    duration: Annotated[
        list[str] | None,
        typer.Option(help="Mean and deviation of utterances in seconds: 4:1.5 for all, cmn=3.1:1.05 for one language."),
    ] = None,
    rate: Annotated[list[str] | None, typer.Option(help="Words a minute, slowest and fastest: 105:130.")] = None,
    words: Annotated[list[str] | None, typer.Option(help="How many of the most frequent words: 500.")] = None,
    speakers: Annotated[list[str] | None, typer.Option(help="How many speakers: 4.")] = None,
    noise: Annotated[
        list[str] | None, typer.Option(help="Speech over noise in decibels, least and most: cmn=12:20; or none.")
    ] = None,
    room: Annotated[list[str] | None, typer.Option(help="Seconds of echo: 0.4; 0 for no room.")] = None,
    seed: Annotated[int, typer.Option(help="Of words, speakers, rooms and noise.")] = 0,
    num_workers: Annotated[int | None, typer.Option(help="Processes; by default one for each core.", min=1)] = None,
    overwrite: Overwrite = False,
) -> None:
    """Speech made on the spot by eSpeak NG, in 42 languages. Options by language may be given several times.

    The same command gives the same bytes. Stopped, it goes on where it was.
    """
    from ..prepare.prepare import PreparedDataset
    from ..prepare.statistics import statistics_by_language
    from ..synthetic.corpus import make_corpus
    from ..synthetic.spec import DEMO_SPECS, SpeechSpec
    from .console import dataset_shown, progress
    from .speech_specs import parse_speech_specs

    chosen = _split(languages)
    start = DEMO_SPECS if chosen is None else dict.fromkeys(chosen, SpeechSpec())
    specs = parse_speech_specs(
        start, minutes, duration or [], rate or [], words or [], speakers or [], noise or [], room or []
    )
    try:
        manifests = make_corpus(out, specs, seed, num_workers, overwrite, track=progress)
    except RuntimeError as error:  # of eSpeak NG
        raise ValueError(str(error)) from error
    statistics = {split: statistics_by_language(manifest) for split, manifest in manifests.items()}
    dataset_shown(PreparedDataset(out, statistics, {}, []))


def _split(languages: str | None) -> list[str] | None:
    return None if languages is None else languages.replace(",", " ").split()


def _by_split(train: list[Path], dev: list[Path] | None, test: list[Path] | None) -> dict[str, list[Path]]:
    return {"train": train, "dev": dev or [], "test": test or []}


def _named(files: Mapping[str, list[Path]]) -> dict[str, list[str]]:
    return {split: [str(path.absolute()) for path in paths] for split, paths in files.items()}
