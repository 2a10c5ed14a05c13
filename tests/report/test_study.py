"""Runs belong to methods, methods have names and baselines, and differences are those of `significance`."""

import pytest
from run_folders import write_run
from tones import write_dataset

from ctcdro.report.read_runs import read_runs
from ctcdro.report.study import make_study
from ctcdro.report.tables.comparisons import compare_runs, compare_seeds
from ctcdro.scoring.comparisons import compare
from ctcdro.scoring.seeds import paired_t_test


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    return write_dataset(tmp_path_factory.mktemp("data") / "tones", num_train=2, num_dev=8)


@pytest.fixture(scope="module")
def runs(tmp_path_factory, dataset):
    folder = tmp_path_factory.mktemp("runs")
    for objective, share in (("ctc-dro", 0.1), ("erm", 0.3), ("group-dro", 0.25)):
        for seed in (1, 0, 2):
            write_run(folder / "runs" / f"{objective}-{seed}", dataset, objective, seed, share + 0.02 * seed)
    return read_runs([folder]).runs


def test_runs_that_differ_in_the_seed_are_of_one_method(runs):
    study = make_study(runs)
    assert [method.name for method in study.methods] == ["Baseline (ERM)", "Group DRO", "CTC-DRO"]
    assert [[run.config.seed for run in method.runs] for method in study.methods] == [[0, 1, 2]] * 3
    assert study.labels["ctc-dro-1"] == "CTC-DRO, seed 1"


def test_methods_of_one_objective_are_called_by_what_differs(tmp_path, dataset):
    folders = [
        write_run(tmp_path / str(number), dataset, "ctc-dro", overrides=overrides)
        for number, overrides in enumerate(
            [
                ["objective.step_size=1e-3"],
                ["objective.step_size=1e-4"],
                ["objective.step_size=1e-4", "sampling.batch_duration=20"],
            ]
        )
    ]
    study = make_study(read_runs([folder.path for folder in folders]).runs)
    assert [method.name for method in study.methods] == [
        "CTC-DRO, step size 0.001, batch duration 50",
        "CTC-DRO, step size 0.0001, batch duration 50",
        "CTC-DRO, step size 0.0001, batch duration 20",
    ]


def test_unused_settings_do_not_distinguish_methods(tmp_path, dataset):
    folders = [
        write_run(
            tmp_path / str(seed),
            dataset,
            "erm",
            seed,
            overrides=[f"objective.step_size=1e-{seed}", f"data.num_workers={seed}"],
        )
        for seed in (3, 4)
    ]
    [method] = make_study(read_runs([folder.path for folder in folders]).runs).methods
    assert len(method.runs) == 2
    assert method.setting("step_size") is None


def test_runs_of_the_same_configuration_and_seed_are_counted_once(tmp_path, dataset):
    folders = [write_run(tmp_path / name, dataset, seed=seed).path for name, seed in (("a", 0), ("b", 1), ("c", 0))]
    folders.append(write_run(tmp_path / "d", dataset, seed=1, share_wrong=0.4).path)  # of the same settings, but worse
    study = make_study(read_runs(folders).runs)
    [method] = study.methods
    assert [run.name for run in method.runs] == ["a", "b"]
    assert method.over_runs() == make_study(read_runs(folders[:2]).runs).methods[0].over_runs()
    assert [(run.name, counted.name) for run, counted in study.repetitions] == [("c", "a"), ("d", "b")]
    assert make_study(read_runs(folders).runs, baseline="c").baselines == {}


def test_methods_with_other_seeds_than_the_rest_are_known(runs):
    study = make_study([run for run in runs if run.name != "ctc-dro-2"])
    assert [method.seeds for method in study.methods] == [[0, 1, 2], [0, 1, 2], [0, 1]]
    assert all(map(study.has_unequal_seeds, study.methods))
    assert not any(map(make_study(runs).has_unequal_seeds, make_study(runs).methods))


def test_runs_are_compared_with_the_baseline_of_their_seed_as_significance_does(runs):
    study = make_study(runs)
    found = {one.run.name: one for one in compare_runs(study)}
    by_name = {run.name: run for run in runs}
    assert set(found) == {f"{name}-{seed}" for name in ("group-dro", "ctc-dro") for seed in range(3)}
    assert found["ctc-dro-2"].against.name == "erm-2"
    assert found["ctc-dro-2"].differences == compare(by_name["erm-2"].counts, by_name["ctc-dro-2"].counts)


def test_methods_are_compared_over_seeds_by_a_paired_t_test(runs):
    found = {(one.method.name, one.figure): one for one in compare_seeds(make_study(runs))}
    scores = {run.name: run.scores.summary()["worst_cer"] for run in runs}
    ours, theirs = ([scores[f"{name}-{seed}"] for seed in range(3)] for name in ("erm", "ctc-dro"))
    assert found["CTC-DRO", "worst_cer"].test == paired_t_test(ours, theirs)
    assert found["CTC-DRO", "worst_cer"].seeds == [0, 1, 2]
    assert ("CTC-DRO", "mean_lid") in found


def test_a_single_shared_seed_makes_no_t_test(runs):
    few = [run for run in runs if run.config.seed == 0 or run.config.objective.name == "erm"]
    assert compare_seeds(make_study(few)) == []


@pytest.mark.parametrize("wanted", ["group-dro", "group-dro-1"])
def test_the_baseline_can_be_an_objective_or_a_run(runs, wanted):
    study = make_study(runs, wanted)
    assert {name: method.name for name, method in study.baselines.items()} == {
        "Baseline (ERM)": "Group DRO",
        "CTC-DRO": "Group DRO",
    }


def test_the_baseline_can_be_a_folder(runs):
    assert set(make_study(runs, str(runs[0].path)).baselines) == {"Baseline (ERM)", "Group DRO"}


def test_an_unknown_baseline_is_rejected_with_the_choices(runs):
    with pytest.raises(ValueError, match=r"`baseline` in Python\) must be a run \(.*erm-0.*\) or .*\(ctc-dro, erm, g"):
        make_study(runs, "adam")


def test_without_erm_the_first_method_is_the_baseline(runs):
    study = make_study([run for run in runs if run.config.objective.name != "erm"])
    assert {name: method.name for name, method in study.baselines.items()} == {"CTC-DRO": "Group DRO"}


def test_runs_on_other_test_data_are_not_compared(runs, tmp_path):
    other = write_dataset(tmp_path / "other", languages=("aaa", "ccc"), num_train=2, num_dev=3)
    more = read_runs([write_run(tmp_path / "run", other, "ctc-dro").path]).runs
    study = make_study([*runs, *more])
    assert len(study.methods) == 4
    names = [method.name for method in study.methods if method.name.endswith("other")]
    assert names == ["CTC-DRO, other"]
    assert names[0] not in study.baselines
    objectives = [[method.objective for method in own] for own in study.test_sets]
    assert objectives == [["erm", "group-dro", "ctc-dro"], ["ctc-dro"]]


def test_means_and_deviations_are_over_runs(runs):
    method = make_study(runs).methods[0]
    rates = [run.scores.rates("cer")["bbb"] for run in method.runs]
    found = method.cer["bbb"]
    assert found.mean == pytest.approx(sum(rates) / 3)
    assert found.deviation == pytest.approx((sum((rate - found.mean) ** 2 for rate in rates) / 2) ** 0.5)
