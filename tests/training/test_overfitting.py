"""Every objective can overfit two minutes of each language. Takes minutes: `make test-slow`."""

import shutil
from dataclasses import replace

import pytest

from ctcdro.decoding.evaluate import evaluate
from ctcdro.runs.config import parse_config
from ctcdro.synthetic.corpus import make_corpus
from ctcdro.synthetic.spec import DEMO_SPECS
from ctcdro.training.loop import train

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_thread")]


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dataset")
    specs = {language: replace(spec, train_minutes=2.0, dev_minutes=0.1) for language, spec in DEMO_SPECS.items()}
    make_corpus(folder, specs, seed=0)
    shutil.copy(folder / "train.jsonl", folder / "dev.jsonl")  # the model that knows the training data best is kept
    return folder


@pytest.mark.parametrize(
    "objective",
    [
        {"name": "erm"},
        {"name": "group-dro", "step_size": 1e-4},
        {"name": "ctc-dro", "step_size": 1e-3, "smoothing": 0.5},
    ],
    ids=lambda objective: objective["name"],
)
def test_the_model_overfits_two_minutes_of_each_language(dataset, tmp_path, objective):
    values = {
        "dataset": str(dataset),
        "model": {"encoder": "mel-small", "head": "linear"},
        "objective": objective,
        "data": {"num_workers": 0},
        "sampling": {"batch_duration": 6.0},
        "optimizer": {
            **{
                "learning_rate": 4e-3,
                "betas": [0.9, 0.98],
                "name": "adamw",
                "max_grad_norm": None,
                "batches_per_step": 1,
            },
            **{"lr_schedule": "cosine", "warmup_fraction": 0.1},
        },
        "training": {"num_batches": 1_500, "validate_every_batches": 750, "trackers": []},
    }
    folder = train(parse_config(values), tmp_path / "run")
    scores = evaluate(folder.path, "train").scores
    print(objective["name"], scores.rates("cer"), scores.rates("lid"))
    assert max(scores.rates("cer").values()) < 0.1
    assert min(scores.rates("lid").values()) > 0.95
