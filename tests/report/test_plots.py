"""Figures are written, in the format of their names."""

import pytest

from ctcdro.report.plots import draw_lengths


@pytest.mark.parametrize(("name", "start"), [("a.png", b"\x89PNG"), ("a.svg", b"<?xml"), ("a.pdf", b"%PDF")])
def test_lengths_are_drawn(tmp_path, name, start):
    draw_lengths({"ces": [1.0, 2.0, 2.5], "nan": [0.5], "ron": [12.0, 12.0]}, tmp_path / name)
    assert (tmp_path / name).read_bytes().startswith(start)


def test_an_svg_names_the_groups_shortest_first(tmp_path):
    draw_lengths({"long": [12.0], "short": [0.5, 0.7]}, tmp_path / "a.svg")
    text = (tmp_path / "a.svg").read_text()
    assert "long (1)" in text
    assert "short (2)" in text
    assert "0.6 ± 0.1 s" in text


def test_names_that_look_like_formulas_are_drawn_as_they_are(tmp_path):
    draw_lengths({r"a$\frac$": [1.0]}, tmp_path / "a.svg")
    assert r"a$\frac$ (1)" in (tmp_path / "a.svg").read_text()


@pytest.mark.parametrize("durations", [{}, {"ces": []}])
def test_nothing_cannot_be_drawn(tmp_path, durations):
    with pytest.raises(ValueError, match="`durations` must have a group"):
        draw_lengths(durations, tmp_path / "a.png")
