"""Figures show the numbers of the runs, on the page and in files, and take no text for a tag or a formula."""

from dataclasses import replace

import numpy as np
import pytest
from run_folders import write_runs

from ctcdro.report import matplotlib_figures as drawings
from ctcdro.report import plotly_figures as figures
from ctcdro.report.plot_data import cer_bars, confusion_matrix, thin_out
from ctcdro.report.read_runs import WeightHistory, read_runs
from ctcdro.report.study import make_study
from ctcdro.scoring.intervals import confidence_intervals


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    return make_study(read_runs([write_runs(tmp_path_factory.mktemp("runs"))]).runs)


@pytest.fixture(scope="module")
def intervals(study):
    return {run.name: confidence_intervals(run.counts) for run in study.runs}


@pytest.fixture(scope="module")
def single(study):
    return make_study([run for run in study.runs if run.config.seed == 0])


def test_bars_of_single_runs_reach_from_one_end_of_the_interval_to_the_other(single, intervals):
    bars = cer_bars(intervals, single.methods)
    assert [own.label for own in bars] == ["ERM", "CTC-DRO"]
    assert bars[0].languages == ["bbb", "aaa"]  # the worst first
    found = intervals["erm-0"].languages["bbb"]["cer"]
    assert bars[0].values[0] == pytest.approx(100 * found.value)
    assert bars[0].values[0] - bars[0].below[0] == pytest.approx(100 * found.low)
    assert bars[0].values[0] + bars[0].above[0] == pytest.approx(100 * found.high)
    traces = figures.cer_figure(bars, "c", "x").spec["data"]
    assert [trace["type"] for trace in traces] == ["bar", "bar"]
    assert "95 % intervals" in figures.cer_figure(bars, "c", "x").description


def test_bars_of_several_seeds_are_means_with_a_dot_for_each_seed(study, intervals):
    bars = cer_bars(intervals, study.methods)
    for method, own in zip(study.methods, bars, strict=True):
        for place, language in enumerate(own.languages):
            rates = [100 * run.scores.rates("cer")[language] for run in method.runs]
            assert own.seeds[place] == pytest.approx(rates)
            assert own.values[place] == pytest.approx(np.mean(rates))
    figure = figures.cer_figure(bars, "c", "x")
    dots = [trace for trace in figure.spec["data"] if trace["type"] == "scatter"]
    assert [len(trace["x"]) for trace in dots] == [4, 4]
    assert [trace["offsetgroup"] for trace in figure.spec["data"]] == ["0", "0", "1", "1"]  # dots lie on their bars
    assert not any(trace.get("error_x") for trace in figure.spec["data"])
    assert "each dot is a seed" in figure.description


def test_a_single_method_has_no_legend(single, intervals):
    figure = figures.cer_figure(cer_bars(intervals, single.methods[:1]), "c", "x")
    assert figure.spec["layout"]["showlegend"] is False
    assert "legend" not in figure.description


def test_long_runs_are_thinned_to_what_can_be_seen_with_their_ends():
    weights = WeightHistory(list(range(1, 48_001)), {"a": [step / 48_000 for step in range(1, 48_001)]})
    found = thin_out(weights)
    assert len(found.steps) <= 501
    assert (found.steps[0], found.steps[-1]) == (1, 48_000)
    assert found.groups["a"][-1] == 1.0
    assert thin_out(WeightHistory([], {})) == WeightHistory([], {})


def test_confusions_have_a_column_for_whatever_was_named(study):
    found = confusion_matrix(study.methods[0])
    assert found.spoken == ["aaa", "bbb"]
    assert found.named[:2] == ["aaa", "bbb"]
    np.testing.assert_allclose(found.shares.sum(axis=1), 1.0)


def test_lines_and_bars_differ_without_color(study, intervals):
    spec = figures.weights_figure(study.methods[1].first, "x", "w", 1.0).spec
    assert len({(trace["line"]["dash"], trace["marker"]["symbol"]) for trace in spec["data"]}) == len(spec["data"]) == 2
    bars = figures.cer_figure(cer_bars(intervals, study.methods), "c", "x").spec["data"]
    patterns = [trace["marker"]["pattern"]["shape"] for trace in bars if trace["type"] == "bar"]
    assert len(set(patterns)) == len(patterns) == 2


def test_weights_on_the_page_are_those_of_the_run(study):
    run = study.methods[1].first
    [_, last] = figures.weights_figure(run, "x", "w", 1.0).spec["data"]
    assert last["name"] == "bbb"
    assert last["x"] == run.weights.steps
    assert last["y"] == pytest.approx(run.weights.groups["bbb"], abs=1e-4)


def test_names_are_escaped_for_plotly(study, intervals):
    bars = cer_bars(intervals, study.methods)
    hostile = [replace(own, label="<b>x</b>", languages=["<i>", "b"]) for own in bars]
    trace = figures.cer_figure(hostile, "c", "x").spec["data"][0]
    assert trace["name"] == "&lt;b&gt;x&lt;/b&gt;"
    assert trace["y"][0] == "&lt;i&gt;"


def test_every_figure_is_described(study, intervals):
    made = [
        figures.weights_figure(study.methods[1].first, "CTC-DRO", "w", 1.0),
        figures.cer_figure(cer_bars(intervals, study.methods), "c", "tones"),
        figures.confusion_figure(confusion_matrix(study.methods[0]), "f", "ERM"),
        figures.lengths_figure(study.runs[0].dataset, "l", "tones"),
    ]
    assert "bbb has the highest weight, 0.65" in made[0].description
    assert "ERM: bbb" in made[1].description
    assert "of 32 utterances" in made[2].description
    assert "means, in seconds: aaa" in made[3].description


def test_figures_are_written_as_png_and_pdf(study, intervals, tmp_path):
    written = drawings.write_figures(study, intervals, tmp_path / "a")
    assert sorted(path.name for path in written if path.suffix == ".pdf") == [
        "cer.pdf",
        "confusion-ctc-dro.pdf",
        "confusion-erm.pdf",
        "lengths-tones.pdf",
        "weights.pdf",
    ]
    for path in written:
        assert path.read_bytes().startswith(b"%PDF" if path.suffix == ".pdf" else b"\x89PNG")
    assert not any(b"CreationDate" in path.read_bytes() for path in written)  # the same runs give the same bytes


def test_weights_of_all_runs_are_within_their_panels(study):
    first = study.methods[1].first
    groups = {name: [2 * weight for weight in own] for name, own in first.weights.groups.items()}
    higher = replace(first, weights=WeightHistory(first.weights.steps, groups))
    panels = drawings.weights_figure([first, higher], ["a", "b"]).axes
    for panel in panels:
        bottom, top = panel.get_ylim()
        assert bottom == 0.0
        assert all(max(line.get_ydata()) <= top for line in panel.lines)


def test_names_that_look_like_formulas_are_drawn(study, tmp_path):
    run = study.methods[1].first
    drawings.weights_figure([run], [r"a$\frac$"]).savefig(tmp_path / "a.svg")
    assert r"a$\frac$" in (tmp_path / "a.svg").read_text(encoding="utf-8")
