"""A small sweep with a run that fails and is repeated, and the rule of selection."""

import json
import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from run_folders import write_run
from tones import write_dataset
from typer.testing import CliRunner

from ctcdro.cli.main import app
from ctcdro.cli.sweep_results import describe_ties, result_table
from ctcdro.runs.folder import RunFolder
from ctcdro.scoring.intervals import Interval
from ctcdro.scoring.scores import score
from ctcdro.scoring.transcripts import Prediction
from ctcdro.storage.json_files import write_json
from ctcdro.storage.locks import lock_folder
from ctcdro.sweeps.config import SweepSetting, parse_sweep, read_sweep
from ctcdro.sweeps.selection import Row, SettingResult, read_counts, read_row, select, selection_record
from ctcdro.sweeps.submission import JobOptions
from ctcdro.sweeps.sweep import SweepFolder, SweepResult, claim_folder, sweep
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
        "settings": [{"objective": "erm"}, {"objective": "ctc-dro", "step_size": 1e-2, "smoothing": [0.1, 0.5]}],
    }


def command(folder, *options):
    arguments = ["sweep", folder / "sweep-of.yaml", "--out", folder / "sweep", "--threads", "1", *options]
    return CliRunner().invoke(app, list(map(str, arguments)))


def marks(folder):
    """Modification times of the files of runs."""
    return {path: path.stat().st_mtime_ns for path in (folder / "sweep" / "runs").rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def story(tmp_path_factory):
    """A sweep with an invalid run; the same command without it; once more; and with another setting."""
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
    first = json.loads((folder / "sweep" / "selected.json").read_text())
    more = {"objective": "ctc-dro", "step_size": 0.01, "signal": "loss_per_character", "label": "per character"}
    longer = {**values(dataset), "settings": [more, *values(dataset)["settings"]]}
    (folder / "sweep-of.yaml").write_text(yaml.safe_dump(longer))
    extended, after_extended = command(folder), marks(folder)
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
    assert "Training: 3 jobs, of which 2 are already finished" in story.whole.stderr
    kept = {path: mark for path, mark in story.after_broken.items() if {NAMES[0], NAMES[2]} & {*path.parts}}
    assert kept.items() <= story.after_whole.items()
    assert story.again.stdout == story.whole.stdout
    assert story.after_again == story.after_whole


def test_phases_and_runs_are_logged(story):
    log = story.whole.stderr.splitlines()
    assert f"{NAMES[1]} started" in log
    assert any(re.fullmatch(rf"{NAMES[1]}: dev: worst CER .*%.*, mean CER .*% \(3 of 3\)", line) for line in log)
    assert "Decoding test: 2 jobs" in log
    jobs = [path.read_text() for path in (story.folder / "sweep" / "logs" / NAMES[1]).glob("*_log.out")]
    assert any("validation 1: dev loss" in job for job in jobs)


def test_is_scored_for_what_was_selected_only(story):
    selected = [one for one in story.first["settings"] if one["selected"]]
    assert [one["objective"] for one in selected] == ["erm", "ctc-dro"]
    tested = {path.parents[1].name for path in story.after_whole if path.match("scores/test.json")}
    assert tested == {Path(run).name for one in selected for run in one["runs"]}
    [erm, *tried] = story.first["settings"]
    assert [one["values"]["smoothing"] for one in tried] == [0.1, 0.5]
    for one in tried:
        assert one["gain"] == erm["worst_cer"] - one["worst_cer"]
    assert [one["difference"] for one in tried].count(None) == 1, "the one with the lowest worst CER"
    assert f"CTC-DRO: {story.folder / 'sweep' / selected[1]['best_run']}\n" in story.whole.stdout


def test_the_table_has_the_test_scores(story):
    rows = json.loads((story.folder / "sweep" / "table.json").read_text())
    assert [row["method"] for row in rows] == ["per character", "Baseline (ERM)", "CTC-DRO"]
    for row in rows:
        record = json.loads((story.folder / "sweep" / row["run"] / "scores" / "test.json").read_text())
        assert (row["worst_cer"], row["worst_language"]) == (record["summary"]["worst_cer"], record["worst_language"])
        assert (row["mean_cer"], row["mean_lid"]) == (record["summary"]["mean_cer"], record["summary"]["mean_lid"])
        assert row["seconds"] > 0
    assert any(row["worst_cer"] < 1 for row in rows), "the runs have learned something"
    assert f"Table: {story.folder / 'sweep' / 'table.json'}" in story.whole.stdout


def test_an_extended_sweep_trains_only_what_is_new(story):
    assert story.extended.exit_code == 0, story.extended.stderr
    assert "Training: 4 jobs, of which 3 are already finished" in story.extended.stderr
    assert "Decoding test: 3 jobs, of which 2 are already finished" in story.extended.stderr
    assert story.after_again.items() <= story.after_extended.items()
    new = {path.relative_to(story.folder).parts[2] for path in story.after_extended.keys() - story.after_again.keys()}
    assert new == {"ctc-dro-0.01-0.1-signal=loss_per_character-seed0"}
    assert read_sweep(story.folder / "sweep" / "sweep.yaml") == read_sweep(story.folder / "sweep-of.yaml")


def test_runs_of_two_processes_train_together_and_are_scored_by_the_first(story, tmp_path):
    overrides = ["settings=[{objective: erm}]", "optimizer.batches_per_step=2", "training.num_batches=8"]
    options = JobOptions(cpu=True, num_jobs=1, num_threads=1, processes_per_node=2)
    result = sweep(parse_sweep(values(story.dataset), overrides), tmp_path / "sweep", options)
    assert not result.failures, result.failures
    [row] = result.rows
    run = RunFolder(tmp_path / "sweep" / row.run)
    assert json.loads(run.run.read_text())["num_processes"] == 2
    assert {path.stem for path in run.path.glob("scores/*")} == {"dev", "test"}


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
    right = parse_sweep(values(dataset), ["run.optimizer.warmup_fraction=0.2"])
    return SimpleNamespace(folder=folder, run=run, values=values(dataset), right=right)


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


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["seeds=[1]"], r"seeds: \[0\] → \[1\]"),
        (
            ["settings=[{objective: erm}]"],
            r"settings were removed or changed \(ctc-dro-0\.01-0\.1, ctc-dro-0\.01-0\.5\)",
        ),
        (["seeds=[0, 1]", "scoring=paper"], r"the configuration changed \(scoring: plain → paper\)"),
    ],
)
def test_a_sweep_that_has_begun_may_only_grow(mistaken, overrides, message):
    mistaken.run.model.mkdir()
    with pytest.raises(ValueError, match=message):
        claim_folder(parse_sweep(mistaken.values, overrides), mistaken.folder)
    claim_folder(parse_sweep(mistaken.values, ["seeds=[1, 0]"]), mistaken.folder)
    assert read_sweep(mistaken.folder.config).seeds == (1, 0)


def ctc_dro(smoothing, label=None):
    return SweepSetting("ctc-dro", {"step_size": 1e-3, "smoothing": smoothing}, label)


def selected(*results, reach=0.0):
    """The names of the selected among (setting, worst CER, mean CER), with intervals of this reach."""
    by_name = {result[0].name: result[1] for result in results}

    def differ(first, second):
        value = by_name[second.name] - by_name[first.name]
        return Interval(value, value - reach, value + reach)

    return select([SettingResult(*result) for result in results], differ)


def names(selections):
    return [selection.selected.setting.name for selection in selections]


ERM = SweepSetting("erm")


def test_the_largest_gain_of_the_worst_language_is_selected():
    results = [(ctc_dro(0.1), 0.7, 0.1), (ERM, 0.8, 0.4), (ctc_dro(0.5), 0.6, 0.5)]
    assert names(selected(*results)) == ["ctc-dro-0.001-0.5", "erm"]


def test_the_mean_decides_among_settings_within_the_interval():
    results = [(ctc_dro(0.1), 0.7, 0.1), (ctc_dro(0.5), 0.60, 0.5), (ctc_dro(1.0), 0.62, 0.3)]
    [selection] = selected(*results, reach=0.05)
    assert names([selection]) == ["ctc-dro-0.001-1"]
    assert (selection.lowest.setting.name, selection.tied) == ("ctc-dro-0.001-0.5", ["ctc-dro-0.001-1"])
    record = selection_record([SettingResult(*result) for result in results], [selection])
    assert [one["tied"] for one in record] == [False, True, True]
    assert record[2]["difference"] == {
        "value": pytest.approx(0.02),
        "low": pytest.approx(-0.03),
        "high": pytest.approx(0.07),
    }
    assert describe_ties(selection).startswith("* CTC-DRO: 1 of 2 other settings cannot be distinguished")


def test_of_equal_settings_the_first_is_selected():
    results = [(ctc_dro(0.1), 0.7, 0.3), (ctc_dro(0.5), 0.7, 0.2), (ctc_dro(1.0), 0.7, 0.2)]
    assert names(selected(*results)) == ["ctc-dro-0.001-0.5"]


def test_methods_with_different_labels_are_selected_separately():
    results = [(ctc_dro(0.1), 0.5, 0.4), (ctc_dro(0.5, "late"), 0.7, 0.3), (ctc_dro(1, "late"), 0.6, 0.3)]
    assert names(selected(*results)) == ["ctc-dro-0.001-0.1", "ctc-dro-0.001-1"]


def test_edits_of_several_seeds_are_added_up_per_utterance(tmp_path):
    dataset = write_dataset(tmp_path / "tones", num_train=2, num_dev=8)
    runs = [write_run(tmp_path / f"run{seed}", dataset, seed=seed, split="dev") for seed in (0, 1)]
    total = read_counts(runs, "dev", "plain").scores()
    single = [read_counts([run], "dev", "plain").scores() for run in runs]
    for language, rate in total.rates("cer").items():
        assert rate == pytest.approx(sum(scores.rates("cer")[language] for scores in single) / 2)


def test_scores_without_text_are_reported_with_their_file(tmp_path):
    run = RunFolder(tmp_path)
    write_json(run.scores("dev"), score([Prediction("a", "aaa", "", "aaa", "")]).to_record())
    with pytest.raises(ValueError, match=r"dev\.json: no utterance has a reference text"):
        read_row(run, ERM, 0, "dev")


def test_rows_of_several_seeds_are_averaged():
    config = parse_sweep(
        {"run": {"dataset": "a"}, "settings": [{"objective": "ctc-dro", "step_size": 1e-3, "smoothing": 0.5}]}
    )
    [setting] = config.grid()
    rows = [Row(setting, "runs/a", seed, 0.5 + seed / 10, "cmn", 0.3, 0.9, 1.0) for seed in (0, 1)]
    table = result_table(SweepResult(config, SweepFolder("sweep"), rows, [], []))
    assert table.texts() == [
        ["CTC-DRO", "0.001", "0.5", "55.0 ± 7.1", "Mandarin Chinese (cmn)", "30.0 ± 0.0", "90.0 ± 0.0"]
    ]
