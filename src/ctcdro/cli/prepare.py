"""`ctcdro prepare`: one command per corpus layout. `prepare_synthetic.py` has the one for synthetic speech."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from .options import must_be_file, must_be_folder
from .reader_commands import (
    Corpus,
    Dev,
    Entries,
    LanguageOption,
    Languages,
    Out,
    Root,
    Test,
    Train,
    prepare,
    reader_command,
    split_codes,
)

__all__ = ["prepare"]


@reader_command("common-voice")
def common_voice(root: Root, languages: Languages = None) -> Entries:
    """Common Voice: an unpacked release, or one of its languages.

    Example: ctcdro prepare common-voice /corpora/cv-corpus-17.0 --languages ces,kor --out data/cv
    """
    from ..prepare.readers.common_voice import read_common_voice

    return read_common_voice(root, split_codes(languages))


@reader_command("fleurs")
def fleurs(root: Root, languages: Languages = None) -> Entries:
    """FLEURS: the folder of its languages, or of one of them.

    Example: ctcdro prepare fleurs /corpora/fleurs --languages ces,kor --out data/fleurs
    """
    from ..prepare.readers.fleurs import read_fleurs

    return read_fleurs(root, split_codes(languages))


@reader_command("ml-superb", max_duration=20.0)
def ml_superb(
    out: Out,
    root: Annotated[
        Path | None,
        typer.Argument(
            metavar="CORPUS", help="Folder of the corpora (commonvoice, fleurs, ...).", callback=must_be_folder()
        ),
    ] = None,
    from_hub: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Copy on the Hugging Face Hub to read instead, e.g. espnet/ml_superb_hf."),
    ] = None,
    language_set: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Set of the paper: set1 ... set5, set1-extra, set2-extra, scale18, scale18-extra."
        ),
    ] = None,
    pairs: Annotated[
        str | None,
        typer.Option(
            metavar="PAIRS", help="Languages and corpora instead of a set, e.g. ces:fleurs,cmn:fleurs; all: everything."
        ),
    ] = None,
    train_size: Annotated[Literal["1h", "10min"], typer.Option(help="Training set of the benchmark.")] = "1h",
    reserved: Annotated[
        Literal["few-shot", "all", "none"],
        typer.Option(help="Training data of the 20 reserved languages: five utterances each, all, or none."),
    ] = "few-shot",
    on_missing: Annotated[
        Literal["fail", "skip"], typer.Option(help="Fail if a pair is not on disk, or skip it.")
    ] = "fail",
) -> Entries:
    """ML-SUPERB 2.0, with the paper's language sets by name.

    Example: ctcdro prepare ml-superb /corpora/eighth_version --language-set set1 --out data/set1
    """
    from ..prepare.readers.ml_superb import find_pairs, read_ml_superb, read_ml_superb_copy
    from ..prepare.readers.ml_superb_sets import SETS, parse_pairs

    if (root is None) == (from_hub is None):
        raise ValueError("Specify either CORPUS, the folder of the corpora, or --from-hub.")
    if (language_set is None) == (pairs is None):
        raise ValueError("Specify either --language-set or --pairs; --pairs all reads everything.")
    if language_set is not None and language_set not in SETS:
        raise ValueError(f"--language-set must be one of {', '.join(SETS)}; got {language_set!r}.")
    chosen = SETS[language_set] if language_set is not None else None if pairs == "all" else parse_pairs(pairs or "")
    if root is None:
        return read_ml_superb_copy(from_hub or "", out, chosen, reserved, on_missing == "skip")
    return read_ml_superb(root, chosen or find_pairs(root), train_size, reserved, on_missing == "skip")


@reader_command("kaldi")
def kaldi(
    train: Train,
    dev: Dev = None,
    test: Test = None,
    language: LanguageOption = None,
    language_map: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="File with an utterance or speaker and its language on each line.",
            callback=must_be_file(),
        ),
    ] = None,
    corpus: Corpus = None,
) -> Entries:
    """Kaldi data folders with plain paths in wav.scp; commands in it are rejected.

    Example: ctcdro prepare kaldi --train data/train --dev data/dev --language ces --out data/ces
    """
    from ..prepare.readers.kaldi import read_kaldi

    return read_kaldi(_by_split(train, dev, test), language, language_map, corpus)


@reader_command("nemo")
def nemo(
    train: Train,
    dev: Dev = None,
    test: Test = None,
    language: LanguageOption = None,
    language_field: Annotated[str, typer.Option(metavar="NAME", help="Field with the language.")] = "lang",
    text_field: Annotated[str, typer.Option(metavar="NAME", help="Field with the text.")] = "text",
) -> Entries:
    """NeMo manifests: JSON lines with audio_filepath and text.

    Example: ctcdro prepare nemo --train train.json --dev dev.json --language ces --out data/ces
    """
    from ..prepare.readers.nemo import read_nemo

    return read_nemo(_by_split(train, dev, test), language, language_field, text_field)


@reader_command("lhotse")
def lhotse(
    train: Train, dev: Dev = None, test: Test = None, language: LanguageOption = None, corpus: Corpus = None
) -> Entries:
    """lhotse manifests: cuts, or recordings and supervisions.

    Example: ctcdro prepare lhotse --train cuts_train.jsonl.gz --dev cuts_dev.jsonl.gz --out data/cuts
    """
    from ..prepare.readers.lhotse import read_lhotse

    return read_lhotse(_by_split(train, dev, test), language, corpus)


@reader_command("huggingface")
def huggingface(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name on the Hugging Face Hub, or a folder.")],
    out: Out,
    config: Annotated[
        str | None, typer.Option(metavar="NAME", help="Configuration of the dataset, e.g. cs_cz.")
    ] = None,
    train_split: Annotated[
        str | None, typer.Option(metavar="NAME", help="Split for training.", show_default="train")
    ] = None,
    dev_split: Annotated[
        str | None, typer.Option(metavar="NAME", help="Split for development.", show_default="dev or validation")
    ] = None,
    test_split: Annotated[
        str | None, typer.Option(metavar="NAME", help="Split for testing.", show_default="test")
    ] = None,
    language: LanguageOption = None,
    corpus: Corpus = None,
    audio_column: Annotated[str, typer.Option(metavar="NAME", help="Column with the audio.")] = "audio",
    text_column: Annotated[str, typer.Option(metavar="NAME", help="Column with the text.")] = "text",
    language_column: Annotated[str, typer.Option(metavar="NAME", help="Column with the language.")] = "language",
    id_column: Annotated[
        str | None, typer.Option(metavar="NAME", help="Column with the id.", show_default="row numbers")
    ] = None,
    speaker_column: Annotated[str | None, typer.Option(metavar="NAME", help="Column with the speaker.")] = None,
) -> Entries:
    """Hugging Face datasets with columns for audio, text and language.

    Example: ctcdro prepare huggingface google/fleurs --config cs_cz --text-column transcription --language ces
    --out data/ces
    """
    from ..prepare.readers.huggingface import Columns, read_huggingface

    columns = Columns(audio_column, text_column, language_column, id_column, speaker_column)
    chosen = (("train", train_split), ("dev", dev_split), ("test", test_split))
    splits = {split: source for split, source in chosen if source}
    return read_huggingface(name, out, columns, config, splits or None, language, corpus)


def _by_split(train: list[Path], dev: list[Path] | None, test: list[Path] | None) -> dict[str, list[Path]]:
    return {"train": train, "dev": dev or [], "test": test or []}
