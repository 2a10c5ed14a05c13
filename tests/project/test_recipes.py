"""The recipes: all load, and those of the paper take a step of every objective, on a small corpus and encoder."""

import math
import re
import shlex
from itertools import pairwise
from pathlib import Path

import pytest
import tiny_encoders
import torch
from layouts import SPLITS, MLSuperb, Spoken

from ctcdro import Manifest
from ctcdro.cli.main import app
from ctcdro.prepare.readers.ml_superb_sets import SETS, parse_pairs
from ctcdro.runs.folder import RunFolder
from ctcdro.sweeps.config import read_sweep
from ctcdro.training.loop import train_step
from ctcdro.training.setup import start

pytestmark = pytest.mark.usefixtures("one_thread")

ROOT = Path(__file__).parents[2]
RECIPES = sorted((ROOT / "recipes").rglob("*.yaml"))
PAPER = {path.stem: path for path in RECIPES if path.parent.name == "paper"}

# From here to STUDY, as printed in the paper.
ENCODERS = {"xls-r": "facebook/wav2vec2-xls-r-300m", "mms": "facebook/mms-300m"}
BATCH_DURATIONS = {"set1": 50.2, "set2": 48.6, "set3": 54.8, "set4": 47.9, "set5": 46.0}  # Table 13
CHOSEN = {  # Table 1: step size and smoothing of CTC-DRO
    **{"set1-mms": (1e-4, 1.0), "set1-xls-r": (1e-4, 0.1), "set3-mms": (1e-4, 0.1), "set3-xls-r": (1e-4, 0.1)},
    **{"set5-mms": (1e-3, 1.0), "set5-xls-r": (1e-4, 0.1)},
}
GRID = [(step_size, smoothing) for step_size in (1e-3, 1e-4) for smoothing in (0.1, 0.5, 1.0)]

STUDY = [f"set{number}" for number in (1, 2, 3, 4, 5)] + ["set1-extra", "set2-extra", "scale18", "scale18-extra"]
STUDY += ["set1-normalize-frames", "set1-normalize-labels", "set1-seeds", "set3-seeds"]
STUDY += ["set5-no-length-matching", "set5-no-smoothing", "set5-half-duration"]


def split_name(name):
    """`set5-no-smoothing-mms` -> set5-no-smoothing, mms."""
    model = next(model for model in ENCODERS if name.endswith(f"-{model}"))
    return name.removesuffix(f"-{model}"), model


def commands(path):
    """The commands that the head of a recipe tells, as lists of words."""
    head = "\n".join(re.findall("^#(.*)", path.read_text(encoding="utf-8"), re.MULTILINE))
    told = re.findall(r"^   (ctcdro .*(?:\n     .*)*)", head, re.MULTILINE)
    return [shlex.split(command.replace("\\\n", "")) for command in told]


def pairs_of(prepare):
    options = dict(pairwise(prepare))
    return SETS[options["--set"]] if "--set" in options else parse_pairs(options["--pairs"])


def configs(path):
    sweep = read_sweep(path)
    return [sweep.config(setting, seed) for setting in sweep.grid() for seed in sweep.seeds]


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_every_recipe_describes_runs(path):
    assert configs(path)


def test_the_whole_study_is_there_for_both_models():
    assert {split_name(name) for name in PAPER} == {(part, model) for part in STUDY for model in ENCODERS}
    for name, path in PAPER.items():
        assert {config.model.encoder for config in configs(path)} == {ENCODERS[split_name(name)[1]]}


@pytest.mark.parametrize("name", PAPER)
def test_the_head_of_a_recipe_has_the_commands_that_run_it(name):
    prepare, sweep = commands(PAPER[name])
    assert sweep == ["ctcdro", "sweep", f"recipes/paper/{name}.yaml", "--out", f"runs/{name}"]
    assert prepare[:3] == ["ctcdro", "prepare", "ml-superb"]
    assert Path(prepare[prepare.index("--out") + 1]) == read_sweep(PAPER[name]).run.dataset


@pytest.mark.parametrize("name", PAPER)
def test_a_recipe_has_the_languages_of_the_papers_set(name):
    dataset = read_sweep(PAPER[name]).run.dataset.name
    assert {lang for lang, _ in pairs_of(commands(PAPER[name])[0])} == {lang for lang, _ in SETS[dataset]}
    assert name.startswith(dataset)


def test_the_pairs_of_set_2_with_additional_data_are_the_printed_ones_with_two_rows_exchanged():
    exchanged = {"eng": "ita", "ita": "eng"}
    printed = {(exchanged.get(lang, lang), corpus) for lang, corpus in SETS["set2-extra"]}
    for model in ENCODERS:
        assert set(pairs_of(commands(PAPER[f"set2-extra-{model}"])[0])) == printed


@pytest.mark.parametrize("name", PAPER)
def test_all_runs_share_what_the_paper_fixes(name):
    for config in configs(PAPER[name]):
        assert config.optimizer.learning_rate == 1e-4
        assert config.optimizer.accumulate == 16
        assert config.training.epochs == 40
        assert config.training.select == "dev-loss"
        assert config.model.head == "transformer"
        assert not config.model.freeze_encoder
        assert config.model.lora is None
        assert config.objective.reduction == "sum"
        assert config.batches.group_by == "lang"
    assert read_sweep(PAPER[name]).profile == "paper"


@pytest.mark.parametrize("name", PAPER)
def test_batches_are_the_papers(name):
    part, _ = split_name(name)
    without_matching = {"set5-no-length-matching", "set1-normalize-frames", "set1-normalize-labels"}
    for config in configs(PAPER[name]):
        if config.objective.name == "group-dro" or part in without_matching:
            assert (config.batches.sampler, config.batches.batch_size) == ("group-uniform", 4)
        else:
            duration = BATCH_DURATIONS.get(config.dataset.name, 50.0)
            assert config.batches.sampler == "length-matched"
            assert config.batches.batch_duration == (duration / 2 if part == "set5-half-duration" else duration)
        normalize = {"set1-normalize-frames": "frames", "set1-normalize-labels": "labels"}.get(part, "none")
        assert config.objective.normalize == normalize
        assert config.training.batches_per_epoch == (4000 if "extra" in part else 1200)


@pytest.mark.parametrize("name", PAPER)
def test_step_sizes_and_smoothings_are_searched_or_those_that_the_paper_chose(name):
    part, model = split_name(name)
    tried = [(one.objective.name, one.objective.step_size, one.objective.smoothing) for one in configs(PAPER[name])]
    base = part.split("-")[0]
    if part == "set5-no-smoothing":
        assert {(kind, step_size) for kind, step_size, _ in tried} == {
            ("ctc-dro-unsmoothed", CHOSEN[f"{base}-{model}"][0])
        }
        return
    is_search = part in BATCH_DURATIONS or "extra" in part or part.startswith(("scale18", "set1-normalize"))
    expected = GRID if is_search else [CHOSEN[f"{base}-{model}"]]
    num_seeds = 4 if "seeds" in part else 1
    of_ctc_dro = [(step_size, smoothing) for kind, step_size, smoothing in tried if kind == "ctc-dro"]
    assert sorted(of_ctc_dro) == sorted(expected * num_seeds)
    assert sorted(step_size for kind, step_size, _ in tried if kind == "group-dro") in ([], [1e-4, 1e-3])


def test_the_main_experiments_are_as_many_models_as_the_paper_counts():
    main = [*BATCH_DURATIONS, "set1-extra", "set2-extra", "set5-no-length-matching", "set5-no-smoothing"]
    assert sum(len(configs(PAPER[f"{part}-{model}"])) for part in main for model in ENCODERS) == 130


@pytest.mark.parametrize("model", ENCODERS)
def test_four_seeds_give_eight_runs(model):
    for part in ("set1-seeds", "set3-seeds"):
        runs = configs(PAPER[f"{part}-{model}"])
        assert sorted((run.objective.name, run.seed) for run in runs) == [
            (kind, seed) for kind in ("ctc-dro", "erm") for seed in range(4)
        ]


GUIDE = (ROOT / "docs/reproducing.md").read_text(encoding="utf-8")


def test_the_guide_has_a_row_for_every_recipe_and_no_other():
    table = GUIDE[GUIDE.index("## Recipes and tables") : GUIDE.index("## What it takes")]
    rows = re.findall(r"^\| `([a-z0-9-]+)` .* (\d+) \|$", table, re.MULTILINE)
    assert sorted(name for name, _ in rows) == sorted(STUDY)
    for name, num_runs in rows:
        assert [len(configs(PAPER[f"{name}-{model}"])) for model in ENCODERS] == [int(num_runs)] * 2


def test_what_the_guide_says_to_override_can_be_overridden():
    told = [shlex.split(one) for one in re.findall("`(--set [^`]+)`", GUIDE)]
    assert len(told) == 4
    for words in told:
        assert words[::2] == ["--set"] * (len(words) // 2)
        assert any(read_sweep(path, words[1::2]) != read_sweep(path) for path in PAPER.values())


@pytest.fixture(scope="module")
def corpora(tmp_path_factory):
    """All corpora of the study in ML-SUPERB's layout: tones, three short utterances for training."""
    root = tmp_path_factory.mktemp("ml_superb")
    pairs = {pair for path in PAPER.values() for pair in pairs_of(commands(path)[0])}
    for lang, corpus in sorted(pairs):
        folder = {"googlei18n": "googlei18n_tts"}.get(corpus, corpus)
        spoken = [
            Spoken(split, lang, f"{folder}_{lang}_{split}{number}", f"Ah{lang[0]}, {lang[1:]}", 0.4 + 0.05 * number)
            for split in SPLITS
            for number in range(3 if split == "train" else 1)
        ]
        MLSuperb().write(root, spoken, corpus=folder)
    return root


@pytest.fixture(scope="module")
def prepared(corpora, tmp_path_factory):
    """The datasets of the study, by the commands in the heads of the recipes."""
    out = tmp_path_factory.mktemp("data")
    found = {}
    for path in PAPER.values():
        _, _, *words = commands(path)[0]
        place = words.index("--out") + 1
        name = Path(words[place]).name
        if name not in found:
            found[name] = words[place] = str(out / name)
            words[words.index("/data/ml_superb")] = str(corpora)
            app(["prepare", *words], standalone_mode=False)
    return found


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    """A stand-in for XLS-R and MMS, which are built alike."""
    return tiny_encoders.write("wav2vec2", tmp_path_factory.mktemp("encoder"))


OBJECTIVES = [
    (name, objective)
    for name, path in PAPER.items()
    for objective in dict.fromkeys(setting.objective for setting in read_sweep(path).grid())
]


@pytest.mark.parametrize(("name", "objective"), OBJECTIVES)
def test_a_step_of_every_objective_of_a_recipe(name, objective, prepared, encoder, tmp_path):
    dataset = prepared[read_sweep(PAPER[name]).run.dataset.name]
    groups = Manifest.read(Path(dataset) / "train.jsonl").groups("lang").names
    small = {
        **{"dataset": dataset, "model.encoder": encoder, "batches.batch_duration": 0.9, "batches.num_workers": 0},
        **{"optimizer.accumulate": len(groups), "training.trackers": "[]"},  # a batch of every group
    }
    sweep = read_sweep(PAPER[name], [f"run.{key}={value}" for key, value in small.items()])
    setting = next(one for one in sweep.grid() if one.objective == objective)
    run = start(sweep.config(setting, sweep.seeds[0]), RunFolder(tmp_path / "run"))
    before = {key: value.clone() for key, value in run.recognizer.state_dict().items()}
    record = train_step(run)

    assert sorted(record["weights"]) == sorted({lang for lang, _ in SETS[Path(dataset).name]})
    assert math.isfinite(record["loss"])
    changed = {key.split(".")[0] for key, value in run.recognizer.state_dict().items() if not value.equal(before[key])}
    assert changed == {key.split(".")[0] for key in before}  # encoder and head
    all_came = None not in record["losses"].values()
    assert all_came or run.config.batches.sampler == "group-uniform"
    moves = objective == "group-dro" or (objective != "erm" and all_came)
    assert (torch.tensor(list(record["weights"].values())).std() > 1e-7) == moves
