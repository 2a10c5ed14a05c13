"""Figures show the numbers of the runs, on the page and in files, and interpret no text as a tag or a formula."""

import re
from dataclasses import replace

import numpy as np
import pytest
from run_folders import write_runs

from ctcdro.report.figures import (
    MAX_POINTS,
    cer_figure,
    confusion_figure,
    draw_lengths,
    lengths_figure,
    weights_figure,
    write_figures,
)
from ctcdro.report.read_runs import WeightHistory, read_runs
from ctcdro.report.study import ConfusionMatrix, make_study
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


def bars(figure):
    """The bars of each method, by label."""
    [axes] = figure.figure.axes
    return {container.get_label(): container for container in axes.containers if hasattr(container, "patches")}


def test_bars_of_single_runs_have_their_intervals(single, intervals):
    figure = cer_figure(single.methods, intervals, "cer", "x")
    assert list(bars(figure)) == ["Baseline (ERM)", "CTC-DRO"]
    assert [label.get_text() for label in figure.figure.axes[0].get_yticklabels()] == ["Barai (bbb)", "Ghotuo (aaa)"]
    container = bars(figure)["Baseline (ERM)"]
    expected = intervals["erm-0"].languages["bbb"]["cer"]
    assert container.patches[0].get_width() == pytest.approx(100 * expected.value)
    [lines] = container.errorbar.lines[2]
    assert lines.get_segments()[0][:, 0] == pytest.approx([100 * expected.low, 100 * expected.high])
    assert "95% intervals" in figure.description


def test_bars_of_several_seeds_are_means_with_a_dot_per_seed(study, intervals):
    figure = cer_figure(study.methods, intervals, "cer", "x")
    dots = figure.figure.axes[0].collections
    for method, container, points in zip(study.methods, bars(figure).values(), dots, strict=True):
        rates = np.array([[100 * run.scores.rates("cer")[name] for name in ("bbb", "aaa")] for run in method.runs])
        assert [patch.get_width() for patch in container] == pytest.approx(rates.mean(axis=0))
        assert points.get_offsets()[:, 0].tolist() == pytest.approx(rates.ravel())
        middle = [patch.get_y() + patch.get_height() / 2 for patch in container]
        assert points.get_offsets()[:, 1].tolist() == pytest.approx(middle * 2)  # dots lie on their bars
        assert container.errorbar is None
    assert "each dot is a seed" in figure.description


def test_a_single_method_has_no_legend(single, intervals):
    figure = cer_figure(single.methods[:1], intervals, "cer", "x")
    assert figure.figure.legends == []
    assert "legend" not in figure.description


def test_weights_are_those_of_the_run_thinned_with_their_ends(study):
    run = study.methods[1].first
    [_, line] = weights_figure(run, "x", "w", 1.0).figure.axes[0].lines
    assert line.get_label() == "Barai (bbb)"
    assert line.get_xdata().tolist() == run.weights.steps
    assert line.get_ydata().tolist() == run.weights.groups["bbb"]
    steps = list(range(1, 48_001))
    long = replace(run, weights=WeightHistory(steps, {"a": [step / 48_000 for step in steps]}))
    [line] = weights_figure(long, "x", "w", 1.0).figure.axes[0].lines
    assert len(line.get_xdata()) <= MAX_POINTS + 1
    assert (line.get_xdata()[0], line.get_xdata()[-1], line.get_ydata()[-1]) == (1, 48_000, 1.0)


def test_lines_and_bars_differ_without_color(study, intervals):
    lines = weights_figure(study.methods[1].first, "x", "w", 1.0).figure.axes[0].lines
    assert len({(line.get_linestyle(), line.get_marker()) for line in lines}) == len(lines) == 2
    hatches = [container[0].get_hatch() for container in bars(cer_figure(study.methods, intervals, "c", "x")).values()]
    assert len(set(hatches)) == len(hatches) == 2


def test_every_figure_is_described(study, intervals):
    figures = [
        weights_figure(study.methods[1].first, "CTC-DRO", "w", 1.0),
        cer_figure(study.methods, intervals, "c", "tones"),
        confusion_figure(study.methods[0].confusion(), "f", "ERM"),
        lengths_figure(study.runs[0].dataset.durations, "l", "tones"),
    ]
    assert "Barai (bbb) has the highest weight (0.65)" in figures[0].description
    assert re.search(r"Baseline \(ERM\) \d+\.\d \(Barai\)", figures[1].description)
    assert "of 32 utterances" in figures[2].description
    assert "means, in seconds: Ghotuo (aaa)" in figures[3].description


def test_figures_are_written_without_dates(study, tmp_path):
    figure = lengths_figure(study.runs[0].dataset.durations, "lengths", "tones")
    write_figures([figure], tmp_path / "figures")
    pdf, png = sorted(tmp_path.glob("figures/*"))
    assert png.read_bytes().startswith(b"\x89PNG")
    assert pdf.read_bytes().startswith(b"%PDF")
    assert b"CreationDate" not in pdf.read_bytes()


def test_svg_is_reproducible_takes_the_color_of_the_page_and_keeps_text(study):
    def svg(name):
        return lengths_figure({"<b>&$x$": [1.0, 2.0], "řeč": [3.0], "語": [0.5]}, name, "x").to_svg()

    assert svg("a") == svg("a")
    assert svg("a").startswith("<svg")
    for part in ("<metadata", "<!--", "<?xml", "#000000", "<b>"):
        assert part not in svg("a")
    for part in ("&lt;b&gt;&amp;$x$: 2", "řeč: 1", "語: 1", "currentColor"):
        assert part in svg("a")


@pytest.mark.parametrize(("name", "start"), [("a.png", b"\x89PNG"), ("a.svg", b"<?xml")])
def test_the_ending_of_a_file_specifies_its_format(tmp_path, name, start):
    draw_lengths({r"a$\frac$": [1.0, 2.0, 2.5], "nan": [0.5], "long": [12.0, 12.0]}, tmp_path / name)
    assert (tmp_path / name).read_bytes().startswith(start)


@pytest.mark.parametrize("durations", [{}, {"ces": []}])
def test_a_group_without_utterances_is_rejected(tmp_path, durations):
    with pytest.raises(ValueError, match="`durations` must have at least one group"):
        draw_lengths(durations, tmp_path / "a.png")


def test_confusions_have_a_column_for_every_recognized_language(study):
    matrix = study.methods[0].confusion()
    assert matrix.spoken == ["aaa", "bbb"]
    assert matrix.recognized[:2] == ["aaa", "bbb"]
    [shares] = confusion_figure(matrix, "f", "ERM").figure.axes[0].images
    assert shares.get_array().sum(axis=1).tolist() == pytest.approx([1.0, 1.0])
    right = sum(run.scores.confusion[lang].get(lang, 0) for run in study.methods[0].runs for lang in matrix.spoken)
    assert np.trace(matrix.counts) == right


def test_long_names_leave_room_for_the_confusions():
    for names in (["a" * 400, "kor"], ["W" * 40]):
        matrix = ConfusionMatrix(names, [*names, "none"], np.ones((len(names), len(names) + 1), dtype=np.int64))
        assert confusion_figure(matrix, "f", "ERM").to_svg()  # warnings of matplotlib are errors
