"""The recipes: their commands parse, and those of the paper have its settings and train on a small corpus."""

import math
import re
import shlex
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest
import tiny_encoders
import torch
import yaml
from layouts import SPLITS, MLSuperb, Spoken

from ctcdro import Manifest
from ctcdro.cli.main import app
from ctcdro.prepare.readers.ml_superb_sets import SETS, parse_pairs
from ctcdro.recipes import copy_recipe, list_recipes
from ctcdro.runs.config import read_config
from ctcdro.runs.folder import RunFolder
from ctcdro.sweeps.config import SweepConfig, read_sweep
from ctcdro.training.loop import train_step
from ctcdro.training.setup import set_up_run

pytestmark = pytest.mark.usefixtures("one_thread")

ROOT = Path(__file__).parents[2]
RECIPES = [recipe.path for recipe in list_recipes()]
PAPER = {path.stem: path for path in RECIPES if path.parent.name == "paper"}
PAGES = {path: path.read_text(encoding="utf-8") for path in [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]}

# From here to STUDY, as printed in the paper.
ENCODERS = {"xls-r": "facebook/wav2vec2-xls-r-300m", "mms": "facebook/mms-300m"}
BATCH_DURATIONS = {"set1": 50.2, "set2": 48.6, "set3": 54.8, "set4": 47.9, "set5": 46.0}  # Table 13
SELECTED = {  # Table 1: step size and smoothing of CTC-DRO
    **{("set1", "mms"): (1e-4, 1.0), ("set1", "xls-r"): (1e-4, 0.1)},
    **{("set3", "mms"): (1e-4, 0.1), ("set3", "xls-r"): (1e-4, 0.1)},
    **{("set5", "mms"): (1e-3, 1.0), ("set5", "xls-r"): (1e-4, 0.1)},
}
GRID = [(step_size, smoothing) for step_size in (1e-3, 1e-4) for smoothing in (0.1, 0.5, 1.0)]

STUDY = [f"set{number}" for number in (1, 2, 3, 4, 5)] + ["set1-extra", "set2-extra", "scale18", "scale18-extra"]
STUDY += ["set1-normalize-frames", "set1-normalize-labels", "set1-seeds", "set3-seeds"]
STUDY += ["set5-no-length-matching", "set5-no-smoothing", "set5-half-duration"]


def head_commands(path):
    """The commands in the first lines of a recipe, as lists of words after `ctcdro`."""
    head = "\n".join(re.findall("^#(.*)", path.read_text(encoding="utf-8"), re.MULTILINE))
    commands = re.findall(r"^   ctcdro (.*(?:\n     .*)*)", head, re.MULTILINE)
    return [shlex.split(command.replace("\\\n", "")) for command in commands]


def set_options(words):
    return [value for name, value in pairwise(words) if name == "--set"]


def option(words, name):
    return words[words.index(name) + 1]


@dataclass
class Experiment:
    """A recipe of the paper with one of the two encoders, as its command describes it."""

    name: str
    model: str
    prepare: list
    config: SweepConfig

    @property
    def runs(self):
        return [self.config.config(setting, seed) for setting in self.config.grid() for seed in self.config.seeds]

    @property
    def pairs(self):
        if "--language-set" in self.prepare:
            return SETS[option(self.prepare, "--language-set")]
        return parse_pairs(option(self.prepare, "--pairs"))


@pytest.fixture(scope="module")
def experiments():
    """All of them, by recipe and encoder; that the commands name the right files and folders is checked here."""
    found = {}
    for name, path in PAPER.items():
        prepare, *sweeps = head_commands(path)
        assert prepare[:2] == ["prepare", "ml-superb"], name
        for model, words in zip(ENCODERS, sweeps, strict=True):
            assert words[:4] == ["sweep", f"{name}.yaml", "--out", f"runs/{name}-{model}"]
            found[name, model] = Experiment(name, model, prepare, read_sweep(path, set_options(words)))
        assert path.parent / option(prepare, "--out") == found[name, "mms"].config.run.dataset, name
    return found


def test_the_commands_of_all_recipes_parse():
    for path in RECIPES:
        commands = head_commands(path)
        assert commands, path
        for command, given, *words in commands:
            if command in ("train", "sweep"):
                assert given == path.name
                (read_config if command == "train" else read_sweep)(path, set_options(words))


def test_the_commands_on_the_pages_that_name_a_recipe_parse():
    paths = {path.name: path for path in RECIPES}
    text = "\n".join(PAGES.values()).replace("\\\n", " ")
    lines = re.findall(r"^ctcdro ((?:train|sweep) [\w-]+\.yaml .*)$", text, re.M)
    commands = [shlex.split(line, comments=True) for line in lines]
    assert sum(name in paths for _, name, *_ in commands) > 3
    for command, name, *words in commands:
        if name in paths:
            (read_config if command == "train" else read_sweep)(paths[name], set_options(words))
    copied = set(re.findall(r"ctcdro recipes copy ([\w/-]+)", text))
    assert copied - {recipe.name for recipe in list_recipes()} <= {"NAME", "paper/NAME"}  # placeholders


def test_every_recipe_states_its_purpose_and_time_in_the_first_lines():
    for recipe in list_recipes():
        assert recipe.description.endswith("."), recipe.name
        assert "\n# Time: " in recipe.path.read_text(encoding="utf-8"), recipe.name


def test_recipes_are_copied_and_never_overwrite(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert copy_recipe("paper/set1") == Path("set1.yaml")
    assert read_sweep("set1.yaml").run.dataset == tmp_path / "data/set1", "relative to the copy"
    assert copy_recipe("mel-small", tmp_path / "mine.yaml").read_bytes() == RECIPES[0].read_bytes()
    with pytest.raises(ValueError, match=r"set1\.yaml already exists\. Choose another --out\."):
        copy_recipe("paper/set1.yaml")
    with pytest.raises(ValueError, match=r"Unknown recipe 'mel-smal'\. Did you mean mel-small\?"):
        copy_recipe("mel-smal")


def test_the_whole_study_is_there_for_both_encoders(experiments):
    assert sorted(PAPER) == sorted(STUDY)
    for experiment in experiments.values():
        assert {run.model.encoder for run in experiment.runs} == {ENCODERS[experiment.model]}


def test_recipes_have_the_languages_of_the_papers_sets(experiments):
    for experiment in experiments.values():
        dataset = experiment.config.run.dataset.name
        assert {lang for lang, _ in experiment.pairs} == {lang for lang, _ in SETS[dataset]}
        assert experiment.name.startswith(dataset)


def test_the_pairs_of_set_2_with_additional_data_are_the_printed_ones_with_two_rows_exchanged(experiments):
    exchanged = {"eng": "ita", "ita": "eng"}
    printed = {(exchanged.get(lang, lang), corpus) for lang, corpus in SETS["set2-extra"]}
    assert set(experiments["set2-extra", "mms"].pairs) == printed


def test_all_runs_share_what_the_paper_fixes(experiments):
    for experiment in experiments.values():
        assert experiment.config.scoring == "paper"
        for run in experiment.runs:
            assert (run.optimizer.learning_rate, run.optimizer.batches_per_step) == (1e-4, 16)
            assert run.training.best_model_by == "dev-loss"
            assert (run.model.head, run.model.freeze_encoder, run.model.lora) == ("transformer", False, None)
            assert (run.objective.reduction, run.data.group_by) == ("sum", ("lang",))


def test_batches_are_the_papers(experiments):
    without_matching = {"set5-no-length-matching", "set1-normalize-frames", "set1-normalize-labels"}
    for (name, _), experiment in experiments.items():
        for run in experiment.runs:
            if run.objective.name == "group-dro" or name in without_matching:
                assert (run.sampling.sampler, run.sampling.batch_size) == ("group-uniform", 4)
            else:
                duration = BATCH_DURATIONS.get(run.dataset.name, 50.0)
                assert run.sampler == "length-matched"
                assert run.sampling.batch_duration == (duration / 2 if name == "set5-half-duration" else duration)
            normalization = {"set1-normalize-frames": "frame", "set1-normalize-labels": "label"}.get(name, "none")
            assert run.objective.loss_normalization == normalization
            assert run.training.validate_every_batches == (4000 if "extra" in name else 1200)
            assert run.training.num_batches == 40 * run.training.validate_every_batches


def test_settings_are_searched_or_those_that_the_paper_selected(experiments):
    for (name, model), experiment in experiments.items():
        tried = [(run.objective.name, run.objective.step_size, run.objective.smoothing) for run in experiment.runs]
        is_search = name in BATCH_DURATIONS or "extra" in name or name.startswith(("scale18", "set1-normalize"))
        expected = GRID if is_search else [SELECTED[name.split("-")[0], model]]
        if name == "set5-no-smoothing":
            assert [setting[:2] for setting in tried] == [("ctc-dro-unsmoothed", expected[0][0])]
            continue
        of_ctc_dro = [setting[1:] for setting in tried if setting[0] == "ctc-dro"]
        assert sorted(of_ctc_dro) == sorted(expected * (4 if "seeds" in name else 1)), name
        assert sorted(setting[1] for setting in tried if setting[0] == "group-dro") in ([], [1e-4, 1e-3])


def test_the_main_experiments_are_as_many_models_as_the_paper_counts(experiments):
    main = [*BATCH_DURATIONS, "set1-extra", "set2-extra", "set5-no-length-matching", "set5-no-smoothing"]
    assert sum(len(experiments[name, model].runs) for name in main for model in ENCODERS) == 130


def test_four_seeds_give_eight_runs(experiments):
    expected = [(kind, seed) for kind in ("ctc-dro", "erm") for seed in range(4)]
    for name in ("set1-seeds", "set3-seeds"):
        for model in ENCODERS:
            assert sorted((run.objective.name, run.seed) for run in experiments[name, model].runs) == expected


def guide():
    """The page about the paper's study."""
    [page] = [text for text in PAGES.values() if "\n| `set1-normalize-frames` |" in text]
    return page


def test_the_guide_has_a_row_for_every_recipe_and_no_other(experiments):
    rows = dict(re.findall(r"^\| `([a-z0-9-]+)` \|.* (\d+) \|$", guide(), re.MULTILINE))
    assert sorted(rows) == sorted(STUDY)
    for name, num_runs in rows.items():
        assert [len(experiments[name, model].runs) for model in ENCODERS] == [int(num_runs)] * 2


def test_the_overrides_of_the_guide_change_a_recipe():
    differences = PAGES[ROOT / "docs/how-to/migrate-from-the-authors-code.md"]
    listed = [shlex.split(options) for options in re.findall("`(--set [^`]+)`", guide() + differences)]
    assert len(listed) > 3
    for words in listed:
        assert any(read_sweep(path, set_options(words)) != read_sweep(path) for path in PAPER.values()), words


@pytest.fixture(scope="module")
def corpora(tmp_path_factory, experiments):
    """All corpora of the study in the layout of ML-SUPERB: tones, three short utterances for training."""
    root = tmp_path_factory.mktemp("ml_superb")
    for lang, corpus in sorted({pair for experiment in experiments.values() for pair in experiment.pairs}):
        folder = {"googlei18n": "googlei18n_tts"}.get(corpus, corpus)
        spoken = [
            Spoken(split, lang, f"{folder}_{lang}_{split}{number}", f"Ah{lang[0]}, {lang[1:]}", 0.4 + 0.05 * number)
            for split in SPLITS
            for number in range(3 if split == "train" else 1)
        ]
        MLSuperb().write(root, spoken, corpus=folder)
    return root


@pytest.fixture(scope="module")
def prepared(corpora, experiments, tmp_path_factory):
    """The datasets of the study by name, prepared by the commands of the recipes."""
    out = tmp_path_factory.mktemp("data")
    commands = {experiment.config.run.dataset.name: experiment.prepare for experiment in experiments.values()}
    for name, words in commands.items():
        places = {option(words, "--out"): str(out / name), "/data/ml_superb": str(corpora)}
        app([places.get(word, word) for word in words], standalone_mode=False)
    return {name: out / name for name in commands}


def test_every_kind_of_run_takes_a_training_step(experiments, prepared, tmp_path):
    """One step per distinct sampler, objective, normalization and number of languages, with a tiny encoder."""
    encoder = tiny_encoders.write("wav2vec2", tmp_path / "encoder")
    kinds = {}
    for experiment in experiments.values():
        num_languages = len({lang for lang, _ in experiment.pairs})
        for run in experiment.runs:
            kind = (run.sampler, run.objective.name, run.objective.loss_normalization, num_languages)
            kinds.setdefault(kind, run)
    assert len(kinds) > 5
    for number, run in enumerate(kinds.values()):
        take_step(run, prepared[run.dataset.name], encoder, tmp_path / f"run{number}")


def take_step(config, dataset, encoder, folder):
    languages = Manifest.read(dataset / "train.jsonl").groups("lang").names
    values = config.model_dump(mode="json")
    values["dataset"], values["model"]["encoder"] = str(dataset), str(encoder)
    values["data"]["num_workers"] = 0
    if config.sampler == "length-matched":
        values["sampling"]["batch_duration"] = 0.9
    values["optimizer"]["batches_per_step"] = len(languages)  # a batch of every language
    values["training"]["trackers"] = []
    folder.mkdir()
    (folder / "small.yaml").write_text(yaml.safe_dump(values))
    run = set_up_run(read_config(folder / "small.yaml"), RunFolder(folder / "run"))
    before = {key: value.clone() for key, value in run.recognizer.state_dict().items()}
    record = train_step(run)

    assert sorted(record["weights"]) == sorted({lang for lang, _ in SETS[dataset.name]})
    assert math.isfinite(record["loss"])
    changed = {key.split(".")[0] for key, value in run.recognizer.state_dict().items() if not value.equal(before[key])}
    assert changed == {key.split(".")[0] for key in before}  # encoder and head
    has_all = None not in record["losses"].values()
    assert has_all or config.sampling.sampler == "group-uniform"
    moves = config.objective.name == "group-dro" or (config.objective.name != "erm" and has_all)
    assert (torch.tensor(list(record["weights"].values())).std() > 1e-7) == moves
