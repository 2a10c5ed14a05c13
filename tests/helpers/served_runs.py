"""Runs with a random recognizer, whose texts are gibberish, but always the same."""

import torch
from run_folders import write_run

from ctcdro.models.recognizer import build
from ctcdro.speech.vocabulary import Vocabulary

VOCABULARY = Vocabulary(["aaa", "bbb"], "abcdefgh<>&", {"aaa": "abcd<>&", "bbb": "efgh<>&"})


def write_model(folder, seed=0, vocabulary=VOCABULARY):
    """A recognizer that prefers another label in almost every frame."""
    model = build("mel-small", len(vocabulary), seed=seed).eval()
    with torch.no_grad():
        model.head.output.weight.mul_(10)
    model.save(folder, vocabulary)
    return folder


def write_served_run(path, dataset, seed=0):
    """A finished run, evaluated on the development set, with such a recognizer."""
    run = write_run(path, dataset, seed=seed, share_wrong=0.4, split="dev")
    run.model.rmdir()
    write_model(run.model, seed)
    VOCABULARY.save(run.vocabulary)
    return run
