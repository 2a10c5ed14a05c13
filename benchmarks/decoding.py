"""How fast is decoding? .venv/bin/python benchmarks/decoding.py

Made-up texts like those of the paper's set 1, with one thread. Contenders take turns and produce the same texts. Ratios
compare utterances per second (ours over the other): medians of all rounds, with a 95% bootstrap interval.

- Greedy decoding: from log probabilities of padded batches of 10 utterances of similar length, at 50 frames per second,
  to texts. Compared with a plain loop (arg-max, `groupby`, `join`), and with arg-max and `batch_decode` of the
  `Wav2Vec2CTCTokenizer` of transformers.
- A split: the code of `ctcdro evaluate`, from WAV files of 1 to 4 s to texts and losses, with `mel-small` and random
  weights. Compared with a plain loop over the same files, one at a time, without losses. Batches change rounding
  errors, which may change labels of equal probability, so the table includes the share of identical texts.
- Beam search: one utterance at a time, 16 hypotheses. Compared with direct calls of flashlight-text.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import soundfile
import torch
from corpora import LETTERS, SET_1, texts_like_set_1
from measuring import ResultTable, seconds_in_turns, shown

from ctcdro import Manifest, Utterance
from ctcdro.decoding.beam_search import BeamSearch
from ctcdro.decoding.decode import best_texts, decode
from ctcdro.models.recognizer import Recognizer, RecognizerOutput, build
from ctcdro.speech.audio import SAMPLE_RATE
from ctcdro.speech.vocabulary import Vocabulary

BATCH_SIZE = 10
CORPORA = {"Czech": ("ces",), "the six languages of set 1": tuple(SET_1)}


def vocabulary_of(languages: Sequence[str]) -> Vocabulary:
    return Vocabulary.of((LETTERS[language] for language in languages), languages)


def frames_of(labels: Sequence[int], rng: np.random.Generator) -> list[int]:
    """The best label of each frame: each label lasts one or two frames, after one to six blanks."""
    frames = []
    for label in labels:
        frames += [0] * int(rng.integers(1, 7)) + [label] * int(rng.integers(1, 3))
    return frames


def make_batches(texts: list[str], languages: list[str], vocabulary: Vocabulary) -> list[RecognizerOutput]:
    """Log probabilities whose best labels spell these texts; other labels have a seventh of the probability."""
    rng = np.random.default_rng(0)
    paths = [frames_of(vocabulary.encode(*one), rng) for one in zip(texts, languages, strict=True)]
    batches = []
    for start in range(0, len(paths), BATCH_SIZE):
        chosen = paths[start : start + BATCH_SIZE]
        num_frames = torch.tensor([len(path) for path in chosen])
        best = torch.zeros(len(chosen), int(num_frames.max()), dtype=torch.int64)
        for row, path in zip(best, chosen, strict=True):
            row[: len(path)] = torch.tensor(path)
        logits = torch.rand(*best.shape, len(vocabulary), generator=torch.Generator().manual_seed(start))
        logits.scatter_(2, best[..., None], float(np.log(10 * len(vocabulary))))
        batches.append(RecognizerOutput(logits.log_softmax(-1), num_frames))
    return batches


# Greedy decoding. Each contender returns texts that start with a language token.


def ours(batches: list[RecognizerOutput], vocabulary: Vocabulary) -> list[str]:
    return [f"[{language}]{text}" for output in batches for language, text in best_texts(output, vocabulary)]


def plain(batches: list[RecognizerOutput], tokens: list[str]) -> list[str]:
    texts = []
    for output in batches:
        for log_probs, number in zip(output.logits, output.num_frames.tolist(), strict=True):
            labels = log_probs[:number].argmax(-1).tolist()
            merged = [label for label, _ in groupby(labels)]
            texts.append("".join(tokens[label] for label in merged if label != 0).replace("|", " "))
    return texts


def by_transformers(batches: list[RecognizerOutput], tokenizer: Any) -> list[str]:
    return [text for output in batches for text in tokenizer.batch_decode(output.logits.argmax(-1))]


def make_tokenizer(vocabulary: Vocabulary) -> Any:
    from transformers import Wav2Vec2CTCTokenizer

    with tempfile.TemporaryDirectory() as folder:
        vocabulary.save_tokenizer(folder)
        return Wav2Vec2CTCTokenizer.from_pretrained(folder)


def greedy_table(num_utterances: int, num_rounds: int) -> ResultTable:
    table = ResultTable(
        "texts", "labels", "utterances per second", "relative to a plain loop", "relative to transformers"
    )
    for name, chosen in CORPORA.items():
        by_length = sorted(zip(*texts_like_set_1(num_utterances, chosen), strict=True), key=lambda one: len(one[0]))
        texts, languages = map(list, zip(*by_length, strict=True))
        vocabulary = vocabulary_of(chosen)
        batches = make_batches(texts, languages, vocabulary)
        contenders = [
            partial(ours, batches, vocabulary),
            partial(plain, batches, vocabulary.tokens),
            partial(by_transformers, batches, make_tokenizer(vocabulary)),
        ]
        said = [f"[{language}]{text}" for language, text in zip(languages, texts, strict=True)]
        assert all(contender() == said for contender in contenders)
        seconds = seconds_in_turns(contenders, num_rounds)
        rate = num_utterances / np.median(seconds[:, 0])
        over = [shown(seconds[:, which] / seconds[:, 0]) for which in (1, 2)]
        table.add(name, f"{len(vocabulary):,}", f"{rate:,.0f}", *over)
    return table


# A split.


def write_split(folder: Path, num_utterances: int) -> Manifest:
    """Noise, with made-up texts."""
    rng = np.random.default_rng(0)
    utterances = []
    for number, (text, language) in enumerate(zip(*texts_like_set_1(num_utterances), strict=True)):
        num_samples = int(rng.uniform(1, 4) * SAMPLE_RATE)
        path = folder / f"{number}.wav"
        soundfile.write(path, 0.1 * rng.standard_normal(num_samples), SAMPLE_RATE)
        utterances.append(Utterance(str(path), num_samples / SAMPLE_RATE, text, language))
    return Manifest(utterances)


def one_at_a_time(model: Recognizer, vocabulary: Vocabulary, manifest: Manifest) -> list[str]:
    texts = []
    with torch.inference_mode():
        for utterance in manifest:
            audio, _ = soundfile.read(utterance.audio_filepath, dtype="float32")
            logits, _ = model(torch.from_numpy(audio)[None], torch.tensor([len(audio)]))
            _, text = vocabulary.decode_frames(logits[0].argmax(-1).tolist())
            texts.append(text)
    return texts


def split_table(num_utterances: int, num_rounds: int) -> ResultTable:
    table = ResultTable("split", "audio seconds per second", "relative to one utterance at a time", "identical texts")
    with tempfile.TemporaryDirectory() as folder:
        manifest = write_split(Path(folder), num_utterances)
        vocabulary = vocabulary_of(tuple(SET_1))
        model = build("mel-small", len(vocabulary), seed=0).eval()
        found = [one.hyp_text for one in decode(model, vocabulary, manifest).predictions]
        is_same = np.array(found) == np.array(one_at_a_time(model, vocabulary, manifest))
        seconds = seconds_in_turns(
            [partial(decode, model, vocabulary, manifest), partial(one_at_a_time, model, vocabulary, manifest)],
            num_rounds,
        )
    rate = manifest.durations.sum() / np.median(seconds[:, 0])
    over = shown(seconds[:, 1] / seconds[:, 0])
    same = f"{is_same.mean():.1%}"
    table.add(f"{num_utterances:,} utterances of 1 to 4 s", f"{rate:,.0f}", over, same)
    return table


# Beam search.


def by_flashlight(utterances: list[npt.NDArray[np.float32]], vocabulary: Vocabulary) -> list[tuple[str | None, str]]:
    """With the defaults of `BeamSearch`."""
    from flashlight.lib.text import decoder

    options = decoder.LexiconFreeDecoderOptions(
        beam_size=16,
        beam_size_token=40,
        beam_threshold=20.0,
        lm_weight=0.0,
        sil_score=0.0,
        log_add=True,
        criterion_type=decoder.CriterionType.CTC,
    )
    search = decoder.LexiconFreeDecoder(options, decoder.ZeroLM(), 0, 0, [])
    return [vocabulary.decode_frames(search.decode(one.ctypes.data, *one.shape)[0].tokens) for one in utterances]


def by_beam_search(utterances: list[npt.NDArray[np.float32]], vocabulary: Vocabulary) -> list[tuple[str | None, str]]:
    search = BeamSearch(vocabulary)
    return [search(one) for one in utterances]


def beam_table(num_utterances: int, num_rounds: int) -> ResultTable:
    table = ResultTable("texts", "labels", "utterances per second", "relative to flashlight-text")
    for name, chosen in CORPORA.items():
        texts, languages = texts_like_set_1(num_utterances, chosen)
        vocabulary = vocabulary_of(chosen)
        utterances = [
            log_probs[:number].numpy().copy()
            for output in make_batches(texts, languages, vocabulary)
            for log_probs, number in zip(output.logits, output.num_frames.tolist(), strict=True)
        ]
        contenders = [partial(by_beam_search, utterances, vocabulary), partial(by_flashlight, utterances, vocabulary)]
        assert contenders[0]() == contenders[1]()
        seconds = seconds_in_turns(contenders, num_rounds)
        rate = num_utterances / np.median(seconds[:, 0])
        table.add(name, f"{len(vocabulary):,}", f"{rate:,.0f}", shown(seconds[:, 1] / seconds[:, 0]))
    return table


def main(num_utterances: int = 200, num_rounds: int = 15) -> dict[str, ResultTable]:
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        tables = {"greedy-decoding": greedy_table(num_utterances, num_rounds)}
        tables["split-decoding"] = split_table(num_utterances // 2, num_rounds)
        if find_spec("flashlight"):
            tables["beam-search"] = beam_table(num_utterances // 10, num_rounds // 2)
    finally:
        torch.set_num_threads(num_threads)
    return tables


if __name__ == "__main__":
    main()
