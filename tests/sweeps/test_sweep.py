"""A small sweep with a run that fails and is repeated, and the rule of selection."""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from tones import write_dataset
from typer.testing import CliRunner

from ctcdro.cli.main import app
from ctcdro.cli.sweep import rows_table
from ctcdro.runs.folder import RunFolder
from ctcdro.scoring.scores import score
from ctcdro.scoring.transcripts import Prediction
from ctcdro.speech.language_names import language_name
from ctcdro.storage.json_files import write_json
from ctcdro.storage.locks import lock_folder
from ctcdro.sweeps.config import SweepSetting, parse_sweep, read_sweep
from ctcdro.sweeps.selection import Row, SettingResult, read_row, select
from ctcdro.sweeps.sweep import SweepFolder, claim_folder, sweep
from ctcdro.training.checkpoint_files import Checkpoint, save_checkpoint

NAMES = ("erm-seed0", "ctc-dro-0.01-0.1-seed0", "ctc-dro-0.01-0.5-seed0")


def values(dataset):
    """Three runs, just long enough to recognize some of the tones."""
    return {
        "run": {
            "dataset": str(dataset),
            "model": {"encoder": "mel-small", "head": "linear", "spec_augment": False},
            "data": {"num_workers": 0},
            "sampling": {"batch_duration": 4.0},
            "optimizer": {"learning_rate": 4e-3, "max_grad_norm": None, "batches_per_step": 1, "warmup_fraction": 0.1},
            "training": {"num_batches": 70, "validate_every_batches": 70, "trackers": []},
        },
        "objectives": ["erm", "ctc-dro"],
        "step_sizes": [1e-2],
        "smoothings": [0.1, 0.5],
    }


def command(folder):
    arguments = ["sweep", folder / "sweep-of.yaml", "--out", folder / "sweep", "--threads", "1"]
    return CliRunner().invoke(app, list(map(str, arguments)))


def marks(folder):
    """Modification times of the files of runs."""
    return {path: path.stat().st_mtime_ns for path in (folder / "sweep" / "runs").rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def story(tmp_path_factory):
    """A sweep with an invalid run; the same command without it; and once more."""
    folder = tmp_path_factory.mktemp("story")
    dataset = write_dataset(folder / "data")
    (folder / "sweep-of.yaml").write_text(yaml.safe_dump(values(dataset)))
    bad = folder / "sweep" / "runs" / NAMES[1]
    bad.mkdir(parents=True)
    read_sweep(folder / "sweep-of.yaml").run.model_copy(update={"seed": 99}).write(bad / "config.yaml")
    save_checkpoint(RunFolder(bad).checkpoints, Checkpoint(1, {}, {}))
    broken, after_broken = command(folder), marks(folder)
    had_selected = (folder / "sweep" / "selected.json").exists()
    shutil.rmtree(bad)
    whole, after_whole = command(folder), marks(folder)
    again, after_again = command(folder), marks(folder)
    return SimpleNamespace(**locals())


def test_a_run_that_fails_is_named_with_its_log_and_the_others_continue(story):
    assert story.broken.exit_code == 1
    assert f"{NAMES[1]} failed:" in story.broken.stderr
    assert "seed: 99 → 0" in story.broken.stderr
    log = next(line.split("Log: ")[1] for line in story.broken.stderr.splitlines() if "Log: " in line)
    assert "seed: 99 → 0" in Path(log).read_text()
    assert "Run the same command again to retry; finished runs are kept" in story.broken.stderr
    for name in (NAMES[0], NAMES[2]):
        assert RunFolder(story.folder / "sweep" / "runs" / name).is_finished
    assert not story.had_selected, "nothing is chosen before all runs are finished"


def test_the_same_command_does_what_is_missing_and_nothing_else(story):
    assert story.whole.exit_code == 0, story.whole.stderr
    assert "2 of 3 are already finished" in story.whole.stderr
    kept = {path: mark for path, mark in story.after_broken.items() if {NAMES[0], NAMES[2]} & {*path.parts}}
    assert kept.items() <= story.after_whole.items()
    assert story.again.stdout == story.whole.stdout
    assert story.after_again == story.after_whole


def test_is_scored_for_what_was_chosen_only(story):
    selected = json.loads((story.folder / "sweep" / "selected.json").read_text())
    chosen = [one for one in selected["settings"] if one["chosen"]]
    assert [one["objective"] for one in chosen] == ["erm", "ctc-dro"]
    tested = {path.parents[1].name for path in (story.folder / "sweep" / "runs").glob("*/scores/test.json")}
    assert tested == {"erm-seed0", f"ctc-dro-0.01-{chosen[1]['smoothing']}-seed0"}
    tried = {one["smoothing"]: one for one in selected["settings"]}
    other = tried[{0.1: 0.5, 0.5: 0.1}[chosen[1]["smoothing"]]]
    assert (chosen[1]["worst_cer"], chosen[1]["mean_cer"]) <= (other["worst_cer"], other["mean_cer"])
    assert chosen[1]["gain"] == tried[None]["worst_cer"] - chosen[1]["worst_cer"]


def test_the_table_has_the_test_scores(story):
    rows = json.loads((story.folder / "sweep" / "table.json").read_text())
    assert [row["objective"] for row in rows] == ["erm", "ctc-dro"]
    for row, name in zip(rows, ("erm", f"ctc-dro-0.01-{rows[1]['smoothing']}"), strict=True):
        record = json.loads((story.folder / "sweep" / "runs" / f"{name}-seed0" / "scores" / "test.json").read_text())
        assert (row["worst_cer"], row["worst_language"]) == (record["summary"]["worst_cer"], record["worst_language"])
        assert (row["mean_cer"], row["mean_lid"]) == (record["summary"]["mean_cer"], record["summary"]["mean_lid"])
        assert row["seconds"] > 0
        shown = [f"{100 * row['worst_cer']:.1f}", *language_name(row["worst_language"]).split()]
        assert " ".join(shown) in " ".join(story.whole.stdout.split())
    assert any(row["worst_cer"] < 1 for row in rows), "the runs have learned something"
    assert "Baseline (ERM)" in story.whole.stdout
    assert f"Table: {story.folder / 'sweep' / 'table.json'}" in story.whole.stdout


def test_a_sweep_of_another_configuration_is_not_resumed(story):
    config = read_sweep(story.folder / "sweep-of.yaml", ["run.training.num_batches=140"])
    with pytest.raises(ValueError, match=r"run\.training\.num_batches: 70 → 140"):
        sweep(config, story.folder / "sweep")


@pytest.fixture
def mistaken(tmp_path):
    """The folder of a sweep with a mistake, in which nothing has been trained, and the sweep without it."""
    dataset = write_dataset(tmp_path / "data", num_train=1, num_dev=1)
    folder = SweepFolder(tmp_path / "sweep")
    config = parse_sweep(values(dataset))
    folder.path.mkdir()
    claim_folder(config, folder)
    run = folder.run(config.grid()[0], seed=0)
    run.path.mkdir(parents=True)
    config.run.write(run.config)
    return SimpleNamespace(
        folder=folder, run=run, right=parse_sweep(values(dataset), ["run.optimizer.warmup_fraction=0.2"])
    )


def test_a_sweep_that_has_trained_nothing_yet_may_be_corrected(mistaken):
    claim_folder(mistaken.right, mistaken.folder)
    assert read_sweep(mistaken.folder.config) == mistaken.right


def test_a_file_of_the_user_is_never_replaced(mistaken):
    written = "# my sweep\n" + mistaken.right.to_yaml()
    mistaken.folder.config.write_text(written)
    with pytest.raises(ValueError, match=r"sweep\.yaml was not written by a sweep .* Choose another --out"):
        claim_folder(mistaken.right, mistaken.folder)
    assert mistaken.folder.config.read_text() == written


def test_a_sweep_with_a_checkpoint_or_a_model_may_not(mistaken):
    checkpoints = mistaken.run.checkpoints
    save_checkpoint(checkpoints, Checkpoint(1, {}, {}))
    with pytest.raises(ValueError, match=r"run\.optimizer\.warmup_fraction: 0\.1 → 0\.2"):
        claim_folder(mistaken.right, mistaken.folder)
    shutil.rmtree(checkpoints)
    mistaken.run.model.mkdir()
    with pytest.raises(ValueError, match=r"run\.optimizer\.warmup_fraction: 0\.1 → 0\.2"):
        claim_folder(mistaken.right, mistaken.folder)


def test_a_sweep_whose_runs_are_at_work_may_not(mistaken):
    refused = pytest.raises(ValueError, match=r"run\.optimizer\.warmup_fraction: 0\.1 → 0\.2")
    with lock_folder(mistaken.folder.logs / mistaken.run.path.name), refused:
        claim_folder(mistaken.right, mistaken.folder)
    claim_folder(mistaken.right, mistaken.folder)


def test_a_dataset_without_test_is_refused_at_once(story, tmp_path):
    shutil.copy(story.dataset / "train.jsonl", tmp_path)
    with pytest.raises(ValueError, match=r"run\.dataset: .* has no dev\.jsonl"):
        sweep(parse_sweep(values(tmp_path)), tmp_path / "sweep")


def ctc_dro(smoothing):
    return SweepSetting(objective="ctc-dro", step_size=1e-3, smoothing=smoothing)


def selected(*results):
    """The names of the selected among (setting, worst CER, mean CER)."""
    return [result.setting.name for result in select([SettingResult(*result) for result in results])]


ERM = SweepSetting(objective="erm")


def test_the_largest_gain_of_the_worst_language_is_selected():
    results = [(ctc_dro(0.1), 0.7, 0.1), (ERM, 0.8, 0.4), (ctc_dro(0.5), 0.6, 0.5)]
    assert selected(*results) == ["ctc-dro-0.001-0.5", "erm"]


def test_of_equal_gains_the_lower_mean_is_selected_then_the_first():
    results = [(ctc_dro(0.1), 0.7, 0.3), (ctc_dro(0.5), 0.7, 0.2), (ctc_dro(1.0), 0.7, 0.2)]
    assert selected(*results) == ["ctc-dro-0.001-0.5"]


def test_a_setting_is_selected_even_if_it_is_worse_than_the_baseline():
    assert selected((ERM, 0.5, 0.4), (ctc_dro(0.1), 0.7, 0.3)) == ["erm", "ctc-dro-0.001-0.1"]


def test_scores_without_text_are_reported_with_their_file(tmp_path):
    run = RunFolder(tmp_path)
    write_json(run.scores("dev"), score([Prediction("a", "aaa", "", "aaa", "")]).to_record())
    with pytest.raises(ValueError, match=r"dev\.json: no utterance has a reference text"):
        read_row(run, SweepSetting(objective="erm"), 0, "dev")


def test_rows_of_several_seeds_are_averaged():
    rows = [Row(ctc_dro(0.5), seed, 0.5 + seed / 10, "cmn", 0.3, 0.9, 1.0) for seed in (0, 1)]
    assert rows_table(rows).texts() == [
        ["CTC-DRO", "0.001", "0.5", "55.0 ± 7.1", "Mandarin Chinese (cmn)", "30.0 ± 0.0", "90.0 ± 0.0"]
    ]
