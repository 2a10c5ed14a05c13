"""The tables show the scores."""

from dataclasses import replace

import pytest
from run_folders import write_evaluation, write_run, write_runs
from tones import write_dataset

from ctcdro import Manifest, Utterance
from ctcdro.prepare.readers.ml_superb_sets import SETS
from ctcdro.report.read_runs import read_runs
from ctcdro.report.study import make_study, slugs
from ctcdro.report.tables import results
from ctcdro.report.tables.comparisons import compare_runs, compare_seeds, paper_tables, seeds_table, significance_table
from ctcdro.report.tables.results import confusion_table, details_table, language_tables, results_table, runs_table
from ctcdro.report.tables.training import differences_table, settings_table, time_table
from ctcdro.scoring.intervals import confidence_intervals
from ctcdro.scoring.transcripts import Prediction
from ctcdro.sweeps.config import SweepSetting
from ctcdro.sweeps.selection import read_row


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    return make_study(read_runs([write_runs(tmp_path_factory.mktemp("runs"))]).runs)


@pytest.fixture(scope="module")
def intervals(study):
    return {run.name: confidence_intervals(run.counts) for run in study.runs}


def column(table, name):
    place = [one.name for one in table.columns].index(name)
    return {row[0].value: row[place] for row in table.rows}


def texts(table, name):
    place = [one.name for one in table.columns].index(name)
    return {row[0]: row[place] for row in table.texts()}


def test_the_results_are_means_and_deviations_in_percent(study):
    table = results_table(study)
    found = study.methods[1].over_runs()
    cell = column(table, "worst CER")["CTC-DRO"]
    assert cell.value == pytest.approx(100 * found["worst_cer"].mean)
    assert cell.deviation == pytest.approx(100 * found["worst_cer"].deviation)
    assert cell.note == "Barai"
    assert texts(table, "step size")["Baseline (ERM)"] == "–"
    assert column(table, "smoothing")["CTC-DRO"].value == "0.1"
    assert column(table, "LID")["Baseline (ERM)"].value == pytest.approx(
        100 * study.methods[0].over_runs()["mean_lid"].mean
    )


def test_the_best_of_comparable_rows_is_marked_and_the_worst_language(study):
    best = column(results_table(study), "worst CER")
    assert best["CTC-DRO"].is_best
    assert not best["Baseline (ERM)"].is_best
    assert column(language_tables(study)[0], "Barai (bbb)")["Baseline (ERM)"].is_worst
    assert not column(language_tables(study)[0], "Ghotuo (aaa)")["Baseline (ERM)"].is_worst


def test_language_accuracy_is_the_mean_over_languages_under_every_profile(tmp_path):
    dataset = write_dataset(tmp_path / "tones", num_train=2, num_dev=5)
    run = write_run(tmp_path / "run", dataset, profile="paper")
    predictions = [replace(one, hyp_lang="aaa") for one in read_runs([run.path]).runs[0].predictions]
    write_evaluation(run, [*predictions, Prediction("more", "aaa", "b", "aaa", "b")], "paper")
    study = make_study(read_runs([run.path]).runs)
    assert study.runs[0].scores.summary()["overall_lid"] != pytest.approx(0.5)
    assert column(results_table(study), "LID")["Baseline (ERM)"].value == pytest.approx(50)
    assert read_row(run, SweepSetting("erm"), 0, "test").mean_lid == pytest.approx(0.5)  # of the sweep's table


def test_means_over_different_seeds_are_marked(study):
    fewer = make_study([run for run in study.runs if run.name != "ctc-dro-1"])
    table = results_table(fewer)
    assert texts(table, "seeds") == {"Baseline (ERM)": "2 (0, 1)", "CTC-DRO": "1 (0)"}
    assert "Methods have different seeds" in table.caption
    table = results_table(study)
    assert set(texts(table, "seeds").values()) == {"2"}
    assert "the same seeds" not in table.caption


def test_two_seeds_have_no_interval_and_seeds_that_are_not_shared_are_counted(study):
    compared = compare_seeds(study)
    one = compared[0]
    names = [column.name for column in seeds_table(compared).columns]
    row = dict(zip(names, seeds_table(compared).texts()[0], strict=True))
    assert row["seeds"] == "2"
    assert row["difference"].endswith(" (2 seeds: no interval)")
    assert (row["t"], row["p"]) == ("–", "–")
    assert "no useful interval" in seeds_table(compared).caption
    third = replace(one.against.first, name="erm-2")
    more = replace(one, against=replace(one.against, runs=[*one.against.runs, third]))
    assert seeds_table([more]).texts()[0][3] == "2 (of 2 and 3)"
    three = replace(more, seeds=[0, 1, 2], method=replace(one.method, runs=[*one.method.runs, third]))
    assert seeds_table([three]).texts()[0][3] == "3"
    assert seeds_table([three]).rows[0][4].interval is not None
    assert "no useful interval" not in seeds_table([three]).caption


def test_settings_beyond_the_tuned_ones_are_named_next_to_the_results(tmp_path):
    dataset = write_dataset(tmp_path / "tones", num_train=2, num_dev=4)
    changes = ["objective.signal=loss_per_character", "objective.warmup_batches=600"]
    runs = [
        write_run(tmp_path / "erm", dataset),
        write_run(tmp_path / "paper", dataset, "ctc-dro"),
        write_run(tmp_path / "late", dataset, "ctc-dro", overrides=changes),
        write_run(tmp_path / "named", dataset, "ctc-dro", overrides=["label=Ours", "sampling.batch_duration=6"]),
    ]
    table = results_table(make_study(read_runs([run.path for run in runs]).runs))
    assert texts(table, "other differences from the baseline") == {
        "Baseline (ERM)": "",
        "CTC-DRO, warmup batches 0": "",
        "CTC-DRO, signal loss_per_character, warmup batches 600": "signal loss_per_character, warmup batches 600",
        "Ours": "batch duration 6",
    }


def test_one_method_has_no_sentence_on_bold_figures(study):
    one = make_study([run for run in study.runs if run.config.objective.name == "erm"])
    assert "bold" not in results_table(one).caption + language_tables(one)[0].caption
    assert "bold" in results_table(study).caption
    assert "bold" in language_tables(study)[0].caption


def test_languages_that_share_the_worst_rate_are_all_marked(tmp_path):
    dataset = write_dataset(tmp_path / "tones", num_train=2, num_dev=4)
    run = write_run(tmp_path / "run", dataset, share_wrong=0.0)
    study = make_study(read_runs([run.path]).runs)
    assert column(results_table(study), "worst CER")["Baseline (ERM)"].note == "Ghotuo, Barai"
    assert all(
        column(language_tables(study)[0], name)["Baseline (ERM)"].is_worst for name in ("Ghotuo (aaa)", "Barai (bbb)")
    )


def test_captions_mention_bold_numbers_only_if_there_are_any(study, tmp_path):
    dataset = write_dataset(tmp_path / "tones", num_train=2, num_dev=4)
    tied = [write_run(tmp_path / name, dataset, name, share_wrong=0.0).path for name in ("erm", "ctc-dro")]
    for runs, is_mentioned in ((study.runs, True), (study.runs[:1], False), (read_runs(tied).runs, False)):
        selected = make_study(runs)
        tables = [results_table(selected), *language_tables(selected)]
        assert ["bold" in table.caption for table in tables] == [is_mentioned] * 2


def test_details_hold_every_run_and_language_with_counts(study, intervals):
    table = details_table(study, intervals)
    assert len(table.rows) == 4 * 2
    first = study.runs[0].scores.languages["aaa"]
    assert [cell.value for cell in table.rows[0][1:5]] == [
        "Ghotuo (aaa)",
        first.num_utterances,
        first.characters.reference,
        pytest.approx(100 * first.cer),
    ]


def test_runs_are_shown_with_date_commit_and_intervals(study, intervals):
    row = runs_table(study, intervals).rows[0]
    found = intervals[study.runs[0].name].summary["worst_cer"]
    assert row[1].interval == (100 * found.low, 100 * found.high)
    assert [cell.value for cell in row[4:]] == ["2026-11-01 10:00", "0123456789", "erm-0"]


def test_significance_and_seeds_hold_what_was_compared(study):
    comparisons = compare_runs(study)
    table = significance_table(study, comparisons)
    worst = comparisons[0].differences.summary["worst_cer"]
    first = dict(zip([column.name for column in table.columns], table.rows[0], strict=True))
    assert (first["measure"].value, first["run rate"].note) == ("worst CER", "Barai")
    assert first["run rate"].value == pytest.approx(100 * worst.second)
    assert first["baseline rate"].value == pytest.approx(100 * worst.first)
    assert first["difference"].value == pytest.approx(100 * worst.value)
    assert first["p"].value == worst.p_value
    measures = ["worst CER", "mean CER", "best CER", "LID", "mean CER, over languages"]
    assert [row[2].value for row in table.rows] == measures * len(comparisons)
    over_seeds = seeds_table(compare_seeds(study))
    assert {cell.value for cell in column(over_seeds, "seeds").values()} == {2}


def test_the_pace_is_that_of_the_log(study):
    row = time_table(study).rows[0]
    assert [cell.value for cell in row[1:5]] == [3, 1.5, 0.05, 2.0]


def test_differences_and_shared_settings_hold_every_key_once(study):
    differing, shared = differences_table(study), settings_table(study)
    names = [one.name for one in differing.columns[1:]]
    assert names == ["seed", "objective.name", "objective.step_size", "objective.smoothing"]
    assert "optimizer.learning_rate" in [row[0].value for row in shared.rows]
    assert not set(names) & {row[0].value for row in shared.rows}


def test_confusions_of_all_runs_are_added_up(study):
    table = confusion_table(study.methods[0].confusion(), "confusion-erm", "Baseline (ERM)")
    total = sum(cell.value for row in table.rows for cell in row[1:])
    assert total == sum(run.scores.together.num_utterances for run in study.methods[0].runs)


def test_many_languages_are_rows(study, monkeypatch):
    monkeypatch.setattr(results, "MAX_LANGUAGE_COLUMNS", 1)
    [table] = language_tables(study)
    assert [row[0].value for row in table.rows] == ["Ghotuo (aaa)", "Barai (bbb)", "mean CER", "LID ↑"]
    assert [one.name for one in table.columns[1:]] == ["Baseline (ERM)", "CTC-DRO"]


def test_runs_on_a_set_of_the_paper_are_shown_next_to_its_results(tmp_path):
    (tmp_path / "set5").mkdir()
    utterances = [
        Utterance("a.wav", 1.0, "ahoj", lang, id=f"{lang}{corpus}{number}", corpus=corpus)
        for lang, corpus in SETS["set5"]
        for number in range(2)
    ]
    for split in ("train", "test"):
        Manifest(utterances).write(tmp_path / "set5" / f"{split}.jsonl")
    overrides = ["model.encoder=facebook/wav2vec2-xls-r-300m"]
    run = write_run(tmp_path / "run", tmp_path / "set5", "ctc-dro", profile="paper", overrides=overrides)
    [table] = paper_tables(make_study(read_runs([run.path]).runs))
    assert table.name == "paper-set5"
    shown = table.texts()
    assert [row[:2] for row in shown] == [
        ["Baseline (ERM)", "the paper"],
        ["Group DRO", "the paper"],
        ["CTC-DRO", "these runs"],
        ["CTC-DRO", "the paper"],
    ]
    theirs = [row[1:9] for row in shown if row[1] == "the paper"]
    assert theirs[0] == ["the paper", "XLS-R", "–", "–", "114.8 (Japanese)", "29.9", "89.0", "4.8"]
    assert theirs[2] == ["the paper", "XLS-R", "0.0001", "0.1", "71.5 (Japanese)", "23.8", "91.0", "5.7"]
    assert "scoring profile paper." in table.caption


def test_names_of_files_have_letters_and_digits_only():
    assert slugs(["CTC-DRO, step size 0.001", "data"]) == ["ctc-dro-step-size-0-001", "data"]


@pytest.mark.parametrize("texts", [["Data", "data", "data"], ["data", "data", "data-2"], ["data-2", "data", "data"]])
def test_places_of_the_same_name_are_numbered(texts):
    assert len(set(slugs(texts))) == 3
    assert all(one.startswith("data") for one in slugs(texts))


def test_other_data_are_not_compared_with_the_paper(study):
    assert paper_tables(study) == []
