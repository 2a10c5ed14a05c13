"""Language models: tuning their weights, and one per language."""

import json

import numpy as np
import pytest
from in_process import run as run_command
from test_beam_search import bigrams_of
from tones import LETTERS

from ctcdro.decoding.beam_search import BeamSearch, BeamSearchByLanguage
from ctcdro.decoding.evaluate import evaluate
from ctcdro.decoding.tuning import by_worst_language, tune
from ctcdro.models.saving import load_vocabulary
from ctcdro.speech.vocabulary import Vocabulary

pytest.importorskip("flashlight.lib.text.decoder")


@pytest.fixture(scope="module")
def language_models(tmp_path_factory):
    """Uniform bigrams: of both languages, and of each."""
    folder = tmp_path_factory.mktemp("models")
    symbols = {name: [f"[{name}]", *LETTERS[name]] for name in ("aaa", "bbb")}
    both = bigrams_of([*symbols["aaa"], *symbols["bbb"]]).write(folder / "both.arpa")
    return both, {name: bigrams_of(symbols[name]).write(folder / f"{name}.arpa") for name in symbols}


def test_tuned_scores_are_those_of_evaluation(run, language_models):
    both, _ = language_models
    vocabulary = load_vocabulary(run.model)
    search = BeamSearch(vocabulary, language_model=both)
    settings = tune(run.path, search, lm_weights=[0.0, 3.0], blank_penalties=[0.0, -4.0])
    assert [setting[:2] for setting in settings] == [(None, None), (0.0, 0.0), (0.0, -4.0), (3.0, 0.0), (3.0, -4.0)]
    assert settings[0].scores == evaluate(run.path, "dev").scores
    for lm_weight, penalty, scores in settings[1:]:
        beam = BeamSearch(vocabulary, language_model=both, lm_weight=lm_weight, blank_penalty=penalty)
        assert scores == evaluate(run.path, "dev", beam=beam).scores
    best = min(settings, key=by_worst_language)
    assert best.worst_cer == min(setting.worst_cer for setting in settings)
    assert settings[-1].worst_cer > best.worst_cer  # otherwise the weights would have no effect


def test_the_command_prints_a_table_and_options_that_evaluate_accepts(run, language_models):
    both, own = language_models
    options = ["--lm", both, "--lm-weight", "0.1", "--blank-penalty", "0", "--blank-penalty", "0.1"]
    done = run_command("tune-lm", run.path, *options)
    assert done.returncode == 0, done.stderr
    assert len([line for line in done.stdout.splitlines() if line.split()[:1] == ["0.1"]]) == 2
    printed = done.stdout.splitlines()[-1]
    record = json.loads(run_command("tune-lm", run.path, *options, "--json").stdout)
    assert len(record["settings"]) == 3
    if record["best"]["lm_weight"] is None:
        assert printed == "Greedy decoding is best: use no language model."
    by_language = [part for name, path in own.items() for part in ("--lm", f"{name}={path}")]
    done = run_command("evaluate", run.path, *by_language, "--lm-weight", "0.1", "--blank-penalty", "0.1")
    assert done.returncode == 0, done.stderr
    settings = json.loads(run.scores("test-beam").read_text())["beam_search"]
    assert settings["language_model"] == {name: str(path) for name, path in own.items()}
    audio = next((run.path.parent / "data").glob("aaa-test-*.wav"))
    done = run_command("transcribe", run.path, audio, *by_language)
    assert done.returncode == 0, done.stderr


def test_the_model_of_the_identified_language_is_used(tmp_path):
    vocabulary = Vocabulary(["ces", "slk"], "ab")
    pairs = {"ces": ("[ces]", "a"), "slk": ("[slk]", "b")}
    models = {
        name: bigrams_of([f"[{name}]", "a", "b"], [pair, (pair[1], "</s>")]).write(tmp_path / name)
        for name, pair in pairs.items()
    }
    search = BeamSearchByLanguage(vocabulary, models, lm_weight=2.0)
    unsure = [0.04, 0.01, 0.01, 0.01, 0.01, 0.46, 0.46]
    for language, token in {"ces": [0.9, 0.05], "slk": [0.05, 0.9]}.items():
        frames = np.log([[0.01, 0.01, 0.01, *token, 0.01, 0.01], unsure])
        frames -= np.log(np.exp(frames).sum(1, keepdims=True))
        assert search(frames) == (language, pairs[language][1])
        assert vocabulary.decode_frames(search.best_path(frames)) == (language, pairs[language][1])
        assert len(search.best_path(frames)) == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--lm", "{both}", "--lm", "{both}"], "several language models need their languages, such as kor="),
        (["--lm", "ccc={both}"], "the recognizer has no language ccc. Its languages: aaa, bbb."),
        (["--lm", "aaa={both}", "--lm", "aaa={both}"], "aaa has two language models."),
        (["--blank-penalty", "1"], "--blank-penalty requires --beam-size or --lm"),
    ],
)
def test_wrong_language_models_are_one_line(run, language_models, options, message):
    done = run_command("evaluate", run.path, *[option.format(both=language_models[0]) for option in options])
    assert done.returncode == 2
    assert message in done.stderr
