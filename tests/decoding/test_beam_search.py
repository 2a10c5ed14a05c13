"""Beam search compared with an enumeration of all alignments, and with handwritten n-gram models."""

import itertools
import json
import logging
import math
import sys

import in_process
import numpy as np
import pytest
import torch
from cases import case
from tones import LETTERS, write_dataset
from typer.testing import CliRunner

from ctcdro.cli.main import app
from ctcdro.decoding.beam_search import BeamSearch, lm_line, write_lm_text
from ctcdro.decoding.decode import best_texts, decode
from ctcdro.decoding.evaluate import evaluate
from ctcdro.decoding.transcribe import Transcriber
from ctcdro.models.recognizer import RecognizerOutput, build
from ctcdro.runs.folder import RunFolder
from ctcdro.scoring.scores import Scores
from ctcdro.scoring.transcripts import read_predictions
from ctcdro.speech.manifest import Manifest
from ctcdro.speech.utterance import Utterance
from ctcdro.speech.vocabulary import Vocabulary

pytest.importorskip("flashlight.lib.text.decoder")

EXHAUSTIVE = {"beam_size": 10_000, "labels_per_frame": 100, "beam_threshold": 1000.0}


def log_softmax(scores):
    return scores - np.log(np.exp(scores).sum(-1, keepdims=True))


def merged(alignment):
    return tuple(label for label, _ in itertools.groupby(alignment) if label)


def log_probs_of_labels(log_probs):
    """ln P(labels | audio) of all possible labels, by definition: the sum over alignments."""
    total = {}
    for alignment in itertools.product(range(log_probs.shape[1]), repeat=len(log_probs)):
        probability = math.exp(sum(frame[label] for frame, label in zip(log_probs, alignment, strict=True)))
        total[merged(alignment)] = total.get(merged(alignment), 0.0) + probability
    return {labels: math.log(probability) for labels, probability in total.items()}


class Bigrams:
    """A bigram model with base-10 logarithms, as in ARPA files."""

    def __init__(self, unigrams, bigrams):
        self.unigrams = unigrams
        """Of each symbol, its logarithm and that of its backing off."""
        self.bigrams = bigrams

    def log_prob(self, symbols):
        """Natural log probability of a whole line."""
        known = ["<s>", *(one if one in self.unigrams else "<unk>" for one in symbols), "</s>"]
        pairs = itertools.pairwise(known)
        backed_off = ((pair, self.unigrams[pair[0]][1] + self.unigrams[pair[1]][0]) for pair in pairs)
        return math.log(10) * sum(self.bigrams.get(pair, value) for pair, value in backed_off)

    def write(self, path):
        unigrams = "\n".join(f"{value}\t{one}\t{backoff}" for one, (value, backoff) in self.unigrams.items())
        bigrams = "\n".join(f"{value}\t{first} {second}" for (first, second), value in self.bigrams.items())
        counts = f"ngram 1={len(self.unigrams)}\nngram 2={len(self.bigrams)}"
        path.write_text(f"\\data\\\n{counts}\n\n\\1-grams:\n{unigrams}\n\n\\2-grams:\n{bigrams}\n\n\\end\\\n")
        return path


def bigrams_of(symbols, likely=()):
    """Uniform, except that the second symbol of each likely pair follows the first with probability 0.9."""
    even = {one: (-1.2 - 0.01 * place, -0.3) for place, one in enumerate(("<unk>", "</s>", *symbols))}
    return Bigrams({"<s>": (-99, -0.3), **even}, {pair: math.log10(0.9) for pair in likely})


@pytest.fixture
def czech_and_slovak(tmp_path):
    """In Czech a letter is `a`, in Slovak it is `b`."""
    pairs = [("[ces]", "a"), ("[slk]", "b"), ("a", "</s>"), ("b", "</s>")]
    return bigrams_of(["[ces]", "[slk]", "a", "b"], pairs).write(tmp_path / "lm.arpa")


@pytest.fixture(scope="module")
def run(one_thread, tmp_path_factory):
    """A run with an untrained model, whose output is therefore ambiguous, and its dataset."""
    folder = tmp_path_factory.mktemp("run")
    write_dataset(folder / "data", num_train=1)
    vocabulary = Vocabulary(["aaa", "bbb"], LETTERS["aaa"] + LETTERS["bbb"])
    build("mel-small", len(vocabulary), seed=1).save(folder / "model", vocabulary)
    return RunFolder(folder)


def test_the_best_of_all_labels_is_found():
    vocabulary = Vocabulary(["ces"], "a")
    search = BeamSearch(vocabulary, **EXHAUSTIVE)
    rng = np.random.default_rng(0)
    differ = 0
    for num_frames in (1, 2, 3, 4, 5, 5, 5, 5) * 3:
        log_probs = log_softmax(rng.normal(size=(num_frames, len(vocabulary))))
        all_labels = log_probs_of_labels(log_probs)
        best = max(all_labels, key=all_labels.__getitem__)
        assert merged(search.best_path(log_probs)) == best
        differ += merged(log_probs.argmax(-1).tolist()) != best
    assert differ > 5  # otherwise greedy decoding would pass


@pytest.mark.parametrize("lm_weight", [0.0, 0.3, 2.0])
def test_with_an_ngram_model_the_best_of_all_labels_is_found(tmp_path, lm_weight):
    vocabulary = Vocabulary(["ces"], "a")
    bigrams = bigrams_of(["[ces]", "a", "|"], [("<s>", "[ces]"), ("[ces]", "a"), ("a", "|"), ("|", "a")])
    path = bigrams.write(tmp_path / "lm.arpa")
    search = BeamSearch(vocabulary, language_model=path, lm_weight=lm_weight, **EXHAUSTIVE)
    rng = np.random.default_rng(1)
    for _ in range(15):
        log_probs = log_softmax(rng.normal(size=(5, len(vocabulary))))
        both = {
            labels: value + lm_weight * bigrams.log_prob([vocabulary.tokens[label] for label in labels])
            for labels, value in log_probs_of_labels(log_probs).items()
        }
        assert merged(search.best_path(log_probs)) == max(both, key=both.__getitem__)


def test_one_hypothesis_is_greedy_decoding():
    vocabulary = Vocabulary(["ces", "slk"], "abc")
    log_probs = log_softmax(2 * np.random.default_rng(2).normal(size=(20, 30, len(vocabulary))))
    search = BeamSearch(vocabulary, beam_size=1)
    assert [search(one) for one in log_probs] == [vocabulary.decode_frames(one.argmax(-1)) for one in log_probs]


def test_the_ngram_model_decides_what_the_audio_leaves_open(czech_and_slovak):
    vocabulary = Vocabulary(["ces", "slk"], "ab")
    audio = {"ces": [0.01, 0.01, 0.01, 0.95, 0.02], "slk": [0.01, 0.01, 0.01, 0.02, 0.95]}
    alone = BeamSearch(vocabulary)
    with_model = BeamSearch(vocabulary, language_model=czech_and_slovak, lm_weight=0.5)
    for language, letter, other in (("ces", "a", "b"), ("slk", "b", "a")):
        unsure = {"a": 0.47, "b": 0.47} | {other: 0.48}
        frames = np.log([[*audio[language], 0.0001, 0.0001], [0.03, 0.01, 0.01, 0.01, 0.01, *unsure.values()]])
        frames = log_softmax(frames)
        assert alone(frames) == (language, other)
        assert with_model(frames) == (language, letter)


def test_labels_are_kept_at_the_beginning():
    vocabulary = Vocabulary(["ces"], "a")
    for label in range(1, len(vocabulary)):
        frames = np.full((2, len(vocabulary)), 0.01)
        frames[:, label] = 1 - 0.01 * (len(vocabulary) - 1)
        assert merged(BeamSearch(vocabulary).best_path(np.log(frames))) == (label,)


def test_a_penalty_of_the_blank_brings_back_characters():
    vocabulary = Vocabulary([], "a")
    frames = np.log([[0.9, 0.01, 0.01, 0.08]])
    assert BeamSearch(vocabulary)(frames) == (None, "")
    assert BeamSearch(vocabulary, blank_penalty=3.0)(frames) == (None, "a")


def test_frames_after_the_end_are_not_looked_at():
    vocabulary = Vocabulary(["ces"], "abc")
    logits = torch.randn(3, 12, len(vocabulary), generator=torch.Generator().manual_seed(0))
    num_frames = torch.tensor([12, 7, 0])
    search = BeamSearch(vocabulary)
    said = best_texts(RecognizerOutput(logits, num_frames), vocabulary, search)
    logits[1, 7:], logits[2] = float("nan"), float("nan")
    assert best_texts(RecognizerOutput(logits, num_frames), vocabulary, search) == said
    assert said[2] == (None, "")
    assert said[1] == search(logits[1, :7].log_softmax(-1))


def test_an_utterance_does_not_change_the_next(czech_and_slovak):
    vocabulary = Vocabulary(["ces", "slk"], "ab")
    search = BeamSearch(vocabulary, language_model=czech_and_slovak)
    several = log_softmax(np.random.default_rng(3).normal(size=(6, 20, len(vocabulary))))
    alone = [BeamSearch(vocabulary, language_model=czech_and_slovak)(one) for one in several]
    assert [search(one) for one in several] == alone


def test_decoding_takes_a_beam_search(run):
    vocabulary = Vocabulary.load(run.model / "vocab.json")
    model = build("mel-small", len(vocabulary), seed=1)
    manifest = Manifest.read(run.path / "data" / "dev.jsonl")
    greedy = decode(model, vocabulary, manifest)
    narrow = decode(model, vocabulary, manifest, beam=BeamSearch(vocabulary, beam_size=1), batch_duration=2.0)
    wide = decode(model, vocabulary, manifest, beam=BeamSearch(vocabulary, blank_penalty=1.0))
    assert narrow.predictions == greedy.predictions
    assert [one.hyp_text for one in wide.predictions] != [one.hyp_text for one in greedy.predictions]
    assert wide.losses == pytest.approx(greedy.losses)


def test_beam_search_leaves_the_files_of_greedy_decoding_alone(run):
    evaluate(run.path, "dev", dataset=run.path / "data")
    before = [run.predictions("dev").read_bytes(), run.scores("dev").read_bytes()]
    search = BeamSearch(Vocabulary.load(run.model / "vocab.json"), blank_penalty=1.0)
    scores = evaluate(run.path, "dev", dataset=run.path / "data", beam=search).scores
    assert [run.predictions("dev").read_bytes(), run.scores("dev").read_bytes()] == before
    record = json.loads(run.scores("dev-beam").read_text())
    assert record["beam_search"] == search.settings
    assert Scores.from_record(record) == scores
    found = {one.id: (one.hyp_lang, one.hyp_text) for one in read_predictions(run.predictions("dev-beam"))}
    [first, *_] = Manifest.read(run.path / "data" / "dev.jsonl")
    [said] = Transcriber(run.model, beam=search).files([first.audio_filepath])
    assert (said.language, said.text) == found[first.id]


def test_commands_search_with_an_ngram_model(run, tmp_path):
    symbols = ["[aaa]", "[bbb]", *LETTERS["aaa"], *LETTERS["bbb"]]
    path = bigrams_of(symbols, [("<s>", "[bbb]"), ("[bbb]", "h"), ("h", "</s>")]).write(tmp_path / "lm.arpa")
    options = ["--lm", str(path), "--lm-weight", "50"]  # the language model alone decides
    done = CliRunner().invoke(app, ["evaluate", str(run.path), "--dataset", str(run.path / "data"), *options])
    assert done.exit_code == 0, done.output
    assert f"Scores: {run.scores('test-beam')}" in done.output
    assert {(one.hyp_lang, one.hyp_text) for one in read_predictions(run.predictions("test-beam"))} == {("bbb", "h")}
    audio = run.path / "data" / "aaa-test-0.wav"
    done = CliRunner().invoke(app, ["transcribe", str(run.path), str(audio), *options])
    assert f"{audio}\tBarai (bbb)\th" in done.output
    done = in_process.run("transcribe", run.path, audio, "--beam-size", "4", "--lm-weight", "1")
    assert done.returncode == 2
    assert "--lm-weight requires --lm" in done.stderr


def test_lines_for_an_ngram_model_are_the_labels_of_the_vocabulary(tmp_path):
    utterances = [Utterance("a.wav", 1.0, "dobrý den", "ces"), Utterance("b.wav", 1.0, "你好", "cmn")]
    vocabulary = Vocabulary.of([one.text for one in utterances], [one.lang for one in utterances])
    write_lm_text(Manifest(utterances), tmp_path / "lm.txt")
    lines = (tmp_path / "lm.txt").read_text(encoding="utf-8").splitlines()
    assert [[vocabulary.tokens.index(symbol) for symbol in line.split(" ")] for line in lines] == [
        vocabulary.encode(one.text, one.lang) for one in utterances
    ]


def test_lines_for_an_ngram_model_refuse_what_cannot_be_a_label():
    for text in ("a|b", "a\tb", "a\u3000b"):
        with case(text), pytest.raises(ValueError, match=r"which cannot be a label\. Normalize it"):
            lm_line(text, "ces")


def test_an_ngram_model_must_know_all_languages(czech_and_slovak):
    with pytest.raises(ValueError, match=r"lm\.arpa: the n-gram model lacks \[cmn\], \[kor\], so these languages"):
        BeamSearch(Vocabulary(["ces", "cmn", "kor"], "ab"), language_model=czech_and_slovak)


def test_characters_that_an_ngram_model_does_not_know_are_reported(czech_and_slovak, caplog):
    with caplog.at_level(logging.WARNING):
        BeamSearch(Vocabulary(["ces", "slk"], "ab"), language_model=czech_and_slovak)
        assert not caplog.messages
        BeamSearch(Vocabulary(["ces", "slk"], "abcd"), language_model=czech_and_slovak)
    assert caplog.messages == [
        f"{czech_and_slovak}: the n-gram model lacks these characters, which makes them improbable: c d"
    ]


def test_a_file_that_is_missing_or_no_ngram_model_is_named(tmp_path):
    vocabulary = Vocabulary(["ces"], "a")
    with pytest.raises(ValueError, match=r"lm\.arpa is not a file"):
        BeamSearch(vocabulary, language_model=tmp_path / "lm.arpa")
    for content in ("", "no model", "\\data\\\nngram 1=2\n\n\\1-grams:\n-1 a\n"):
        (tmp_path / "lm.arpa").write_text(content)
        with pytest.raises(ValueError, match=r"lm\.arpa: not an n-gram model that KenLM can read: "):
            BeamSearch(vocabulary, language_model=tmp_path / "lm.arpa")


def test_arguments_out_of_range_are_refused():
    for wrong in (
        {"beam_size": 0},
        {"lm_weight": -1.0},
        {"lm_weight": math.nan},
        {"labels_per_frame": 1},
        {"beam_threshold": math.inf},
        {"blank_penalty": math.inf},
    ):
        with case(wrong):
            [name] = wrong
            with pytest.raises(ValueError, match=f"`{name}` must be"):
                BeamSearch(Vocabulary(["ces"], "a"), **wrong)


def test_frames_must_have_probabilities_of_all_labels():
    search = BeamSearch(Vocabulary(["ces"], "a"))
    with pytest.raises(ValueError, match=r"shape \(frames, 5\).*got \(2, 4\)"):
        search(np.log(np.full((2, 4), 0.25)))
    for wrong in (np.zeros((2, 5)), np.full((2, 5), np.nan), np.full((2, 5), 1000.0)):
        with pytest.raises(ValueError, match="do not sum to 1"):
            search(wrong)


def test_a_beam_search_must_be_of_the_labels_of_the_model(run):
    search = BeamSearch(Vocabulary(["ces"], "a"))
    with pytest.raises(ValueError, match=r"`beam` has other labels \(<Vocabulary of 1 lang"):
        evaluate(run.path, "dev", dataset=run.path / "data", beam=search)


def test_the_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "flashlight.lib.text.decoder", None)
    with pytest.raises(ImportError, match=r"Beam search needs the extra `beam`: pip install 'ctcdro\[beam\]'"):
        BeamSearch(Vocabulary(["ces"], "a"))
