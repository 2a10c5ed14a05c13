"""`ctcdro prepare synthetic`."""

from __future__ import annotations

from typing import Annotated

import typer

from .reader_commands import Out, Overwrite, print_dataset, split_codes


def synthetic(
    out: Out,
    languages: Annotated[
        str | None,
        typer.Option(metavar="CODES", help="Languages, e.g. ces,cmn,kor.", show_default="the six of the demo"),
    ] = None,
    code_switching: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CODES",
            help="Add utterances that switch between languages, e.g. cmn+eng. Repeatable.",
        ),
    ] = None,
    minutes: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[CODE=]TRAIN:DEV:TEST",
            help="Minutes of audio per language, e.g. 10:2:5, or cmn+eng=3:1:2 for code-switching. Repeatable.",
            show_default="10:2:5",
        ),
    ] = None,
    duration: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[CODE=]MEAN:SD", help="Durations of utterances in seconds, e.g. 4:1.5 or cmn=3.1:1.05. Repeatable."
        ),
    ] = None,
    rate: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[CODE=]MIN:MAX",
            help="Words per minute of the slowest and fastest speaker, e.g. 105:130. Repeatable.",
        ),
    ] = None,
    words: Annotated[
        list[str] | None, typer.Option(metavar="[CODE=]N", help="Number of different words, e.g. 500. Repeatable.")
    ] = None,
    speakers: Annotated[
        list[str] | None, typer.Option(metavar="[CODE=]N", help="Number of speakers, e.g. 4. Repeatable.")
    ] = None,
    noise: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[CODE=]MIN:MAX",
            help="Lowest and highest signal-to-noise ratio in dB, e.g. cmn=12:20, or none. Repeatable.",
        ),
    ] = None,
    room: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[CODE=]SECONDS", help="Reverberation time of the room, e.g. 0.4; 0: no room. Repeatable."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of words, speakers, rooms and noise.")] = 0,
    workers: Annotated[
        int | None, typer.Option(metavar="N", help="Processes that synthesize.", min=1, show_default="one per core")
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Speech synthesized by eSpeak NG, in 42 languages.

    Options that start with CODE= apply to that language or, without it, to all. Code-switching has the means of its
    languages, and its own options such as cmn+eng=. The same command gives the same bytes; run it again to resume.

    Example: ctcdro prepare synthetic --languages ces,kor --minutes 10:2:5 --noise kor=12:20 --out data/synthetic
    """
    from ..prepare.prepare import PreparedDataset
    from ..prepare.statistics import statistics_by_language
    from ..synthetic.corpus import make_corpus
    from ..synthetic.spec import DEMO_SPECS, SpeechSpec
    from .console import progress
    from .speech_specs import parse_speech_specs

    codes = split_codes(languages)
    specs = parse_speech_specs(
        DEMO_SPECS if codes is None else dict.fromkeys(codes, SpeechSpec()),
        code_switching or (),
        minutes=minutes,
        duration=duration,
        rate=rate,
        words=words,
        speakers=speakers,
        noise=noise,
        room=room,
    )
    try:
        manifests = make_corpus(out, specs, seed, workers, overwrite, track=progress)
    except RuntimeError as error:  # from eSpeak NG
        raise ValueError(str(error)) from error
    statistics = {split: statistics_by_language(manifest) for split, manifest in manifests.items()}
    print_dataset(PreparedDataset(out, statistics, {}, []))
