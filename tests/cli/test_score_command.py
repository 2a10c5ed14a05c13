"""`ctcdro score`, run as users run it."""

import json

import pytest
from typer.testing import CliRunner

from ctcdro.cli import console
from ctcdro.cli.main import app
from ctcdro.cli.score import print_scores
from ctcdro.scoring.intervals import confidence_intervals
from ctcdro.scoring.scores import Scores, count
from ctcdro.scoring.transcripts import Prediction, write_predictions

REFERENCE = "a1 [ces] dobrý den\na2 [ces] ahoj\nb1 [cmn] 你好\n"
FIRST = "[ces] dobry den (a1)\n[slk] ahoj (a2)\n[cmn] 你 (b1)\n"
SECOND = '{"id": "b1", "text": "你好", "lang": "cmn"}\n{"id": "a1", "text": "dobrý den", "lang": "ces"}\n'


@pytest.fixture(autouse=True)
def wide(monkeypatch):
    monkeypatch.setattr(console.results, "_width", 200)


@pytest.fixture
def folder(tmp_path):
    for name, content in (("text", REFERENCE), ("first.trn", FIRST), ("second.jsonl", SECOND)):
        (tmp_path / name).write_text(content, encoding="utf-8")
    return tmp_path


def run(*arguments):
    return CliRunner().invoke(app, ["score", *map(str, arguments)])


def rows(shown):
    """The cells of each line."""
    return [line.split() for line in shown.splitlines()]


def test_a_system_is_shown_by_language_and_over_languages(folder):
    done = run(folder / "text", folder / "first.trn")
    assert done.exit_code == 0, done.output
    found = rows(done.stdout)
    assert ["Czech", "(ces)", "2", "7.7"] in [row[:4] for row in found]
    one_utterance = ["1", "50.0", "(0.0", "to", "148.0)", "100.0", "100.0"]
    assert ["Mandarin", "Chinese", "(cmn)", *one_utterance] in found
    assert ["worst", "CER:", "Mandarin", "Chinese", "(cmn)", "50.0"] in [row[:6] for row in found]
    assert any(row[:2] == ["mean", "28.8"] for row in found)
    assert ["spread", "29.9", "47.1", "35.4"] in found
    assert any(row[:4] == ["all", "utterances", "3", "13.3"] for row in found)
    assert "intervals are only rough: Czech (ces), Mandarin Chinese (cmn)" in done.stdout
    assert "minus" not in done.stdout


def shown(capsys, records):
    counts = count(records)
    print_scores(counts.scores(), confidence_intervals(counts))
    return capsys.readouterr().out


def test_languages_that_share_the_worst_rate_are_all_named(capsys):
    records = [Prediction(one, one, "ano", one, "an") for one in ("ces", "slk")]
    tied = shown(capsys, [*records, Prediction("pol", "pol", "tak", "pol", "tak")])
    assert "worst CER: Czech (ces), Slovak (slk)" in tied
    many = shown(capsys, [Prediction(str(n), str(n), "ano", str(n), "an") for n in range(4)])
    assert "worst CER: 4 languages tied" in many


def test_empty_hypotheses_are_reported(capsys):
    records = [Prediction(str(n), "ces", "ano ne", None, "") for n in range(3)]
    assert "Every hypothesis is empty" in shown(capsys, records)
    assert "Every hypothesis is empty" not in shown(capsys, [*records, Prediction("3", "ces", "ano", "ces", "a")])


def test_two_systems_are_compared(folder):
    done = run(folder / "text", folder / "first.trn", folder / "second.jsonl", "--on-missing", "empty")
    assert done.exit_code == 0, done.output
    assert ["CER", "50.0", "0.0", "-50.0"] in [row[-8:-4] for row in rows(done.stdout)]
    assert f"{folder / 'second.jsonl'} minus {folder / 'first.trn'}" in done.stdout
    assert "Paired t-test of the CER over 2 languages: -13.5" in done.stdout


def test_json_of_one_system_is_its_scores(folder):
    out = folder / "scores.json"
    done = run(folder / "text", folder / "first.trn", "--json", "--out", out)
    record = json.loads(done.stdout)
    assert record == json.loads(out.read_text(encoding="utf-8"))
    assert Scores.from_record(record).worst() == ("cmn", 0.5)
    assert record["intervals"]["confidence"] == 0.95
    assert record["intervals"]["languages"]["cmn"]["cer"]["value"] == 0.5


def test_json_of_several_systems_has_all_and_the_comparisons(folder):
    files = [folder / "first.trn", folder / "second.jsonl"]
    record = json.loads(run(folder / "text", *files, "--on-missing", "empty", "--json").stdout)
    assert list(record["systems"]) == [str(path) for path in files]
    (comparison,) = record["comparisons"].values()
    assert comparison["summary"]["worst_cer"]["second"] == pytest.approx(4 / 13)
    assert comparison["t_test_over_languages"]["degrees"] == 1


@pytest.mark.parametrize(("scoring", "cer"), [("plain", 1 / 13), ("ml-superb2", 1 / 18), ("paper", 1 / 15)])
def test_scoring_rules_differ(folder, scoring, cer):
    record = json.loads(run(folder / "text", folder / "first.trn", "--scoring", scoring, "--json").stdout)
    assert record["profile"] == scoring
    assert record["languages"]["ces"]["cer"] == pytest.approx(cer)


def test_predictions_are_reference_and_hypothesis_in_one(tmp_path):
    write_predictions(tmp_path / "test.jsonl", [Prediction("a", "ces", "ahoj", None, "ahoi")])
    done = run(tmp_path / "test.jsonl", tmp_path / "test.jsonl", "-o", tmp_path / "scores.json")
    assert "No hypothesis has a language, so LID is 0." in done.stdout
    assert f"Scores: {tmp_path / 'scores.json'}" in done.stdout
    assert json.loads((tmp_path / "scores.json").read_text())["languages"]["ces"]["cer"] == 0.25


def test_a_single_language_has_no_spread_and_no_t_test(tmp_path):
    (tmp_path / "ref").write_text("a ahoj\nb ahoj\n")
    (tmp_path / "hyp").write_text("a aho\nb ahoj\n")
    done = run(tmp_path / "ref", tmp_path / "hyp", tmp_path / "ref", "--language", "ces")
    assert done.exit_code == 0, done.output
    assert ["spread", "–", "–", "–"] in rows(done.stdout)
    assert "t-test" not in done.stdout


def test_the_worst_fifteen_are_shown_of_more(tmp_path):
    (tmp_path / "ref").write_text("".join(f"u{n} [l{n}] {'a' * 20}\n" for n in range(20)))
    (tmp_path / "hyp").write_text("".join(f"u{n} {'a' * (20 - n)}\n" for n in range(20)))
    found = rows(run(tmp_path / "ref", tmp_path / "hyp").stdout)
    assert any(row[:3] == ["worst", "15", "60.0"] for row in found)


def test_what_is_wrong_names_file_and_line(folder):
    done = run(folder / "text", folder / "second.jsonl")
    assert isinstance(done.exception, ValueError)
    assert str(done.exception).startswith(f"{folder / 'text'}:2: id 'a2' has no hypothesis.")


def test_the_same_file_twice_differs_by_nothing(folder):
    (folder / "copy.trn").write_text(FIRST, encoding="utf-8")
    record = json.loads(run(folder / "text", folder / "first.trn", folder / "copy.trn", "--json").stdout)
    (comparison,) = record["comparisons"].values()
    assert {found["value"] for found in comparison["summary"].values()} == {0.0}
