"""Builds a corpus of recorded speech from public sources.

    .venv/bin/python benchmarks/recorded_speech.py SOURCES --out DIR

SOURCES is a folder with one folder per Debian package or git repository, named after it. To unpack a package:

    apt-get download festvox-ru && dpkg -x festvox-ru_*.deb SOURCES/festvox-ru

There are two corpora of six languages each (`--corpus`). Each corpus takes whole texts to test, dev and train, so that
no text is in two splits. Texts are drawn with the language as seed: the same sources give the same corpus.

    sentences   Czech, Mandarin Chinese, Iban, Dutch, Romanian, Russian: festvox-ru, fillets-ng-data,
                fillets-ng-data-cs, fillets-ng-data-nl, tuxpaint-stamps-default; github.com/sarahjuan/iban,
                github.com/hugolpz/audio-cmn
    prompts     Belarusian, Bulgarian, Catalan, English, French, Spanish: asterisk-core-sounds-en,
                asterisk-core-sounds-en-g722, asterisk-core-sounds-fr, asterisk-core-sounds-fr-g722,
                tuxpaint-stamps-default; needs PyAV (pip install av) to decode G.722

Audio becomes 16 kHz mono FLAC. Texts keep their case and punctuation; `ctcdro prepare nemo` normalizes them.
"""

from __future__ import annotations

import argparse
import random
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import recorded_sources as sources
import soundfile
from recorded_sources import Clip

from ctcdro import Manifest, Utterance
from ctcdro.speech.audio import SAMPLE_RATE, AudioError, header, read_audio

Samples = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Selected:
    """A usable clip of a language, and the split it was drawn for."""

    clip: Clip
    language: str
    text: str
    seconds: float
    split: str = ""


def one_line(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).split())


# Sentences: seconds of each split; the rest of a language, up to its limit, is additional training data.

TEST_SECONDS, DEV_SECONDS, TRAIN_SECONDS, ALL_TRAIN_SECONDS = 240, 180, 1000, 2400
SENTENCE_SECONDS = 0.5, 15.0
CHARACTERS_PER_SECOND = 2.0, 25.0

# Mandarin words consist of the 200 most frequent characters. Of the 22 characters that occur 17 times, these ten count.
NUM_MANDARIN_CHARACTERS = 200
MANDARIN_TIES = "半容程质美假步领病特"


def sentences(folder: Path) -> Iterator[Selected]:
    readers: dict[str, Iterable[Clip]] = {
        "ces": sources.fillets(folder / "fillets-ng-data-cs", folder / "fillets-ng-data", "cs"),
        "cmn": _frequent_words(list(sources.audio_cmn(folder / "audio-cmn"))),
        "iba": sources.iban(folder / "iban"),
        "nld": sources.fillets(folder / "fillets-ng-data-nl", folder / "fillets-ng-data", "nl"),
        "ron": sources.tuxpaint(folder / "tuxpaint-stamps-default", "ro"),
        "rus": sources.festvox_ru(folder / "festvox-ru"),
    }
    for language, clips in readers.items():
        by_text: dict[str, Selected] = {}
        for clip in clips:
            with suppress(AudioError):  # an empty file
                one = Selected(clip, language, one_line(clip.text), header(clip.path).duration)
                if one.text and _is_usable_sentence(one):
                    by_text.setdefault(one.text.casefold(), one)
        yield from draw_splits(language, by_text)


def _frequent_words(clips: list[Clip]) -> list[Clip]:
    counts = Counter(character for clip in clips for character in clip.text)
    ranked = sorted(counts, key=lambda character: (-counts[character], character not in MANDARIN_TIES))
    frequent = set(ranked[:NUM_MANDARIN_CHARACTERS])
    return [clip for clip in clips if set(clip.text) <= frequent]


def _is_usable_sentence(one: Selected) -> bool:
    shortest, longest = SENTENCE_SECONDS
    slowest, fastest = CHARACTERS_PER_SECOND
    is_debian = one.language not in ("cmn", "iba")
    is_unusual = not slowest <= len(one.clip.text) / one.seconds <= fastest or re.search(r"\d", one.text)
    return shortest <= one.seconds <= longest and not (is_debian and is_unusual)


def draw_splits(language: str, by_text: Mapping[str, Selected]) -> Iterator[Selected]:
    """Fills test, dev, train and the additional training data in this order; official test data stay test data."""
    texts = sorted(by_text)
    random.Random(language).shuffle(texts)
    has_official_test = any(one.clip.split == "test" for one in by_text.values())
    used: set[str] = set()
    seconds = dict.fromkeys(("test", "dev", "train"), 0.0)
    for split, limit in (
        ("test", TEST_SECONDS),
        ("dev", DEV_SECONDS),
        ("train", TRAIN_SECONDS),
        ("train-additional", ALL_TRAIN_SECONDS),
    ):
        counted = split.removesuffix("-additional")
        for text in texts:
            one = by_text[text]
            is_elsewhere = has_official_test and (one.clip.split == "test") != (split == "test")
            if text not in used and not is_elsewhere and seconds[counted] < limit:
                used.add(text)
                seconds[counted] += one.seconds
                yield replace(one, split=split)


# Prompts: shares of the seconds of each split where a source has less.

PROMPT_SPLITS = {"test": 225, "dev": 165, "train": 1000}
PROMPT_SECONDS = 0.4, 30.0
FRAMES_PER_SECOND = 25  # at most, of a CTC model that can still align the text
BAD_TEXT = re.compile(r"[\d\[\](){}<>*#@$€£%&+=/|_~^\\]")
LOST_ACCENTS = re.compile(
    r"\b(desole|ecouter|enleve|etait|ete|etes|etre|felicitation|numero|occupes|premieres?|presentement|problemes|quebec|"
    r"reessayer|re-enregistrer|simultane|telephoner|a (jour|nouveau))\b",
    re.IGNORECASE,
)
MAX_DEVIATIONS, MIN_FACTOR = 3.5, 1.6  # of the spoken length, from the length that the text makes likely


def prompts(folder: Path) -> Iterator[Selected]:
    stamps = folder / "tuxpaint-stamps-default"
    codes = {"bel": "be", "bul": "bg", "cat": "ca", "eng": "en", "fra": "fr", "spa": "es"}
    for language, code in codes.items():
        clips: list[Clip] = []
        if language in ("eng", "fra"):
            name = f"asterisk-core-sounds-{code}"
            clips += sources.asterisk(folder / name, folder / f"{name}-g722", code)
        if language != "eng":
            clips += sources.tuxpaint(stamps, code)
        usable = list(_usable_prompts(language, clips))
        kept = [one for corpus in sorted({one.clip.corpus for one, _ in usable}) for one in _plausible(usable, corpus)]
        yield from share_out(language, kept)


def _usable_prompts(language: str, clips: Iterable[Clip]) -> Iterator[tuple[Selected, float]]:
    """Clips without problems, and how long the speech in each takes."""
    heard: set[bytes] = set()
    for clip in clips:
        text = one_line(clip.text)
        if text.count('"') == 1:
            text = text.strip('"').strip()
        if "alphabets" in clip.path.parts or not _has_usable_text(language, text):
            continue
        samples = read_clip(clip.path)
        seconds = len(samples) / SAMPLE_RATE
        digest = (samples * 32767).astype(np.int16).tobytes()
        if digest in heard or np.abs(samples).max() < 0.01 or not _fits(text, seconds):
            continue
        heard.add(digest)
        yield Selected(clip, language, text, seconds), spoken_seconds(samples)


def _has_usable_text(language: str, text: str) -> bool:
    is_latin = language in ("bul", "bel") and re.search("[A-Za-z]", text)
    lost_accents = language == "fra" and LOST_ACCENTS.search(text)
    return len(letters_of(text)) >= 2 and not (BAD_TEXT.search(text) or is_latin or lost_accents)


def _fits(text: str, seconds: float) -> bool:
    shortest, longest = PROMPT_SECONDS
    slowest, fastest = CHARACTERS_PER_SECOND
    letters = letters_of(text)
    num_frames = len(letters) + sum(first == second for first, second in pairwise(letters))
    has_usual_rate = slowest <= len(text) / seconds <= fastest
    return shortest <= seconds <= longest and has_usual_rate and num_frames <= FRAMES_PER_SECOND * seconds - 2


def letters_of(text: str) -> str:
    """The words of a text without case and punctuation: texts that share them are the same text."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    kept = "".join(letter if unicodedata.category(letter)[0] in "LMN" else " " for letter in folded)
    return " ".join(kept.split())


def spoken_seconds(samples: Samples) -> float:
    """Seconds between the first and the last 20 ms that stand out from the background."""
    frames = samples[: len(samples) // 320 * 320].reshape(-1, 320)
    decibels = 10 * np.log10((frames**2).mean(1) + 1e-10)
    quiet, loud = np.percentile(decibels, (5, 95))
    speech = np.flatnonzero(decibels > loud - min(35, max(15, 0.7 * (loud - quiet))))
    return 0.02 * float(speech[-1] - speech[0] + 1)


def _plausible(clips: list[tuple[Selected, float]], corpus: str) -> list[Selected]:
    """The clips of a corpus whose speech is about as long as their text makes likely."""
    own = [(one, seconds) for one, seconds in clips if one.clip.corpus == corpus]
    is_likely = likely_lengths([len(letters_of(one.text)) for one, _ in own], [seconds for _, seconds in own])
    return [one for (one, _), is_kept in zip(own, is_likely, strict=True) if is_kept]


def likely_lengths(num_letters: list[int], seconds: list[float], num_rounds: int = 8) -> npt.NDArray[np.bool_]:
    """Fits seconds = a * (letters + b) robustly, in logarithms; true where the seconds are near the fit."""
    letters, lengths = np.array(num_letters, float), np.array(seconds)
    kept = np.ones(len(lengths), bool)
    for _ in range(num_rounds):
        fits = []
        for offset in np.arange(0.0, 40.5, 0.5):
            logarithms = np.log(lengths[kept]) - np.log(letters[kept] + offset)
            fits.append((np.abs(logarithms - np.median(logarithms)).mean(), offset, np.median(logarithms)))
        _, offset, middle = min(fits)
        errors = np.abs(np.log(lengths) - np.log(letters + offset) - middle)
        deviation = 1.4826 * np.median(errors[kept])
        kept = errors <= max(MAX_DEVIATIONS * deviation, np.log(MIN_FACTOR))
    return kept


def share_out(language: str, clips: list[Selected]) -> Iterator[Selected]:
    """Takes texts to test and dev, with one clip each, and to train, with all clips, from each source in turn."""
    by_text: dict[str, list[Selected]] = defaultdict(list)
    for one in clips:
        by_text[letters_of(one.text)].append(one)
    corpora = sorted({one.clip.corpus for one in clips})
    for corpus in corpora:
        texts = sorted(text for text, same in by_text.items() if same[0].clip.corpus == corpus)
        random.Random(language + corpus).shuffle(texts)
        available = sum(one.seconds for text in texts for one in by_text[text])
        share = min(1 / len(corpora), available / sum(PROMPT_SPLITS.values()))
        takes_all = share < 1 / len(corpora)
        remaining = iter(texts)
        for split, limit in PROMPT_SPLITS.items():
            seconds = 0.0
            while seconds < limit * share or (split == "train" and takes_all):
                if (text := next(remaining, None)) is None:
                    break
                same = by_text[text] if split == "train" else by_text[text][:1]
                seconds += sum(one.seconds for one in same)
                yield from (replace(one, split=split) for one in same)


# Files.


def read_clip(path: Path) -> Samples:
    if path.suffix != ".g722":  # libsndfile does not decode it
        return read_audio(path)
    import av

    with av.open(str(path), format="g722") as container:
        frames = [frame.to_ndarray().reshape(-1) for frame in container.decode(audio=0)]
    return np.concatenate(frames).astype(np.float32) / np.float32(32768)


def write_corpus(selected: Iterable[Selected], out: Path) -> dict[str, Manifest]:
    """Writes audio and one manifest per split."""
    utterances = defaultdict(list)
    for one in selected:
        id = f"{one.language}-{one.clip.name}"
        path = out / "audio" / one.language / f"{id}.flac"
        path.parent.mkdir(parents=True, exist_ok=True)
        samples = np.clip(read_clip(one.clip.path), -1.0, 1.0)
        soundfile.write(path, samples, SAMPLE_RATE)
        seconds = len(samples) / SAMPLE_RATE
        utterances[one.split].append(
            Utterance(str(path.absolute()), seconds, one.text, one.language, id, corpus=one.clip.corpus)
        )
    manifests = {split: Manifest(own) for split, own in utterances.items()}
    for split, manifest in manifests.items():
        manifest.write(out / f"{split}.jsonl")
    return manifests


CORPORA: dict[str, Callable[[Path], Iterator[Selected]]] = {"sentences": sentences, "prompts": prompts}


def main(folder: Path, out: Path, corpus: str = "sentences") -> None:
    for split, manifest in write_corpus(CORPORA[corpus](folder), out).items():
        for language in sorted({utterance.lang for utterance in manifest}):
            seconds = [utterance.duration for utterance in manifest if utterance.lang == language]
            print(f"{split}: {language} {len(seconds)} clips, {sum(seconds) / 60:.1f} min", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", type=Path, help="folder with the unpacked packages and repositories")
    parser.add_argument("--out", type=Path, required=True, help="folder to write")
    parser.add_argument("--corpus", choices=list(CORPORA), default="sentences", help="default: sentences")
    arguments = parser.parse_args()
    main(arguments.sources, arguments.out, arguments.corpus)
