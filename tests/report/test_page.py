"""The page is complete, escapes text from data, and describes its data."""

import base64
import hashlib
import html.parser
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from run_folders import write_evaluation, write_run
from tones import write_dataset

import ctcdro
from ctcdro import Manifest
from ctcdro.decoding.evaluate import evaluate
from ctcdro.report.page import write_report
from ctcdro.report.read_runs import read_runs
from ctcdro.runs.config import parse_config
from ctcdro.scoring.transcripts import Prediction
from ctcdro.training.loop import train

HOSTILE = "<script>window.taken = true</script>"


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    return write_dataset(tmp_path_factory.mktemp("data") / "tones", num_train=3, num_dev=6)


@pytest.fixture(scope="module")
def sweep(tmp_path_factory, dataset):
    folder = tmp_path_factory.mktemp("sweep")
    for objective, share in (("erm", 0.3), ("group-dro", 0.2), ("ctc-dro", 0.1)):
        for seed in (0, 1):
            write_run(folder / "runs" / f"{objective}-{seed}", dataset, objective, seed, share)
    return folder


class Reader(html.parser.HTMLParser):
    """Text of the page, its scripts, and what it would load."""

    VOID = frozenset({"meta", "link", "br", "img", "input", "hr"})

    def __init__(self, text):
        super().__init__()
        self.open, self.text, self.ids, self.scripts, self.addresses, self.tags = [], [], [], [], [], []
        self.policy, self.handlers = "", []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        values = dict(attrs)
        self.ids += [values["id"]] if "id" in values else []
        self.handlers += [key for key in values if key.startswith("on")]
        self.policy += values["content"] if values.get("http-equiv") == "Content-Security-Policy" else ""
        self.addresses += [values[key] for key in ("src", "href") if key in values]
        if tag not in self.VOID:
            self.open.append(tag)
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "script":
            self.scripts[-1] += data
        elif self.open and self.open[-1] != "style":
            self.text.append(data)

    @property
    def shown(self):
        return " ".join(" ".join(self.text).split())


def read(path):
    return Reader(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def page(sweep, tmp_path_factory):
    out = tmp_path_factory.mktemp("page")
    write_report([sweep], out / "page.html", tables=out / "tables")
    return out


def test_the_page_has_every_part_and_loads_nothing(page):
    found = read(page / "page.html")
    for part in ("results", "by-language", "significance", "weights", "confusion", "worst", "lengths", "time"):
        assert part in found.ids
    assert "settings" in found.ids
    assert len(found.ids) == len(set(found.ids))
    assert found.open == []
    assert all(address.startswith(("data:", "#")) for address in found.addresses)
    assert [address for address in found.addresses if address.startswith("#") and address[1:] not in found.ids] == []


def test_the_security_policy_allows_the_scripts_of_the_page_and_no_other(page):
    found = read(page / "page.html")
    directives = dict(one.split(maxsplit=1) for one in found.policy.split("; "))
    assert directives["default-src"] == "'none'"
    [script] = found.scripts
    assert directives["script-src"] == f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
    assert "\r" not in script, "browsers hash scripts with other line ends"
    assert found.handlers == []


def test_figures_are_inline(page):
    found = read(page / "page.html")
    assert (
        found.tags.count("svg") == 1 + 4 + 3 + 1
    )  # CER, weights of the runs whose weights change, confusions, lengths
    assert (
        "Runs with constant weights, equal for all groups: Baseline (ERM), seed 0; Baseline (ERM), seed 1."
        in found.shown
    )
    assert (page / "page.html").stat().st_size < 1_000_000


def test_the_page_describes_its_data(page, sweep):
    scores = read_runs([sweep]).runs[0].scores
    shown = read(page / "page.html").shown
    assert "6 runs, evaluated on test" in shown
    assert f"2 languages, 12 utterances, {scores.together.characters.reference} characters" in shown
    assert "0123456789" in shown
    assert "2026-11-01" in shown
    assert "have only rough intervals: Barai (bbb), Ghotuo (aaa)" in shown
    assert "Synthetic speech" not in shown


def test_tables_are_written_to_files(page):
    stems = {path.stem for path in (page / "tables").iterdir()}
    assert {"results", "languages", "significance", "seeds", "time", "weights", "details"} <= stems
    assert {path.suffix for path in (page / "tables").iterdir()} == {".md", ".csv", ".tex"}


def test_the_same_runs_give_the_same_page(page, sweep, tmp_path):
    write_report([sweep], tmp_path / "page.html")
    assert (tmp_path / "page.html").read_bytes() == (page / "page.html").read_bytes()


def test_texts_names_and_ids_from_data_are_shown_and_not_run(tmp_path, dataset):
    folder = write_run(tmp_path / "<img src=x onerror=taken>", dataset, "ctc-dro")
    [run] = read_runs([folder.path]).runs
    hostile = [Prediction(HOSTILE, "<b>", HOSTILE, "</script><b>", HOSTILE.upper()), *run.predictions]
    write_evaluation(folder, hostile)
    about = json.loads(folder.run.read_text())
    folder.run.write_text(json.dumps(about | {"commit": "<u>0123", "machine": {"processor": HOSTILE}}))
    write_report([folder.path], tmp_path / "page.html", num_worst=20)
    found = read(tmp_path / "page.html")
    assert found.open == []
    assert HOSTILE in found.shown
    assert "<img src=x onerror=taken>" in found.shown
    assert "img" not in found.tags
    assert not any("window.taken" in script for script in found.scripts)


def test_one_run_makes_a_page_without_comparisons(tmp_path, sweep):
    write_report([sweep / "runs" / "erm-0"], tmp_path / "page.html", audio=False)
    found = read(tmp_path / "page.html")
    assert "significance" not in found.ids
    assert "audio" not in found.tags
    assert "1 run, evaluated on test" in found.shown
    assert "legend" not in found.shown
    assert "bold" not in found.shown


def test_a_page_says_which_runs_are_repetitions_and_which_have_only_empty_hypotheses(tmp_path, dataset, sweep):
    runs = [sweep / "runs" / "erm-0", write_run(tmp_path / "again", dataset, "erm", 0, 0.3).path]
    runs.append(write_run(tmp_path / "other", dataset, "erm", 0, 0.9).path)
    empty = write_run(tmp_path / "empty", dataset, "ctc-dro")
    [result] = read_runs([empty.path]).runs
    write_evaluation(empty, [Prediction(one.id, one.lang, one.text, None, "") for one in result.predictions])
    write_report([*runs, empty.path], tmp_path / "page.html")
    shown = read(tmp_path / "page.html").shown
    assert "again is excluded. erm-0 has the same configuration and seed, and the same predictions." in shown
    assert "other is excluded. erm-0 has the same configuration and seed, and different predictions" in shown
    assert "Every hypothesis is empty: CTC-DRO." in shown
    assert "2 runs, evaluated on test" in shown


def test_single_seeds_are_not_compared_over_runs(tmp_path, sweep):
    runs = [sweep / "runs" / "erm-0", sweep / "runs" / "ctc-dro-0"]
    write_report(runs, tmp_path / "page.html")
    assert "A comparison over runs requires at least two seeds" in read(tmp_path / "page.html").shown


def test_runs_of_other_languages_share_a_page(tmp_path, sweep):
    other = write_dataset(tmp_path / "other", languages=("aaa", "ccc"), num_train=2, num_dev=4)
    run = write_run(tmp_path / "run", other, "ctc-dro").path
    write_report([sweep, run], tmp_path / "page.html")
    found = read(tmp_path / "page.html")
    assert "other: 2 languages, 8 utterances" in found.shown
    assert {"cer", "cer-2", "lengths-tones", "lengths-other", "table-languages-other"} <= set(found.ids)


def check_files(folder):
    """Every figure and table has a separate anchor on the page, and separate files."""
    ids = read(folder / "page.html").ids
    assert len(ids) == len(set(ids))
    tables = {path.stem for path in (folder / "tables").iterdir()}
    assert {f"table-{name}" for name in tables} == {one for one in ids if one.startswith("table-")}
    assert {path.stem for path in (folder / "figures").iterdir()} <= set(ids)


def test_datasets_of_the_same_name_have_separate_anchors_and_files(tmp_path):
    runs = []
    for number, languages in enumerate([("aaa", "bbb"), ("aaa", "ccc")]):
        data = write_dataset(tmp_path / str(number) / "data", languages, num_train=2, num_dev=3)
        runs.append(write_run(tmp_path / f"run{number}", data).path)
    write_report(runs, tmp_path / "page.html", figures=tmp_path / "figures", tables=tmp_path / "tables")
    found = read(tmp_path / "page.html")
    assert {"lengths-data", "lengths-data-2", "table-languages-data", "table-languages-data-2"} <= set(found.ids)
    check_files(tmp_path)
    for folder in ("figures", "tables"):
        assert {path.stem for path in (tmp_path / folder).iterdir()} >= {"lengths-data", "lengths-data-2"}
    assert "ccc" in (tmp_path / "tables" / "lengths-data-2.md").read_text(encoding="utf-8")
    assert "ccc" in (tmp_path / "tables" / "languages-data-2.md").read_text(encoding="utf-8")


def test_a_dataset_under_two_profiles_has_two_tables(tmp_path, dataset):
    runs = [write_run(tmp_path / profile, dataset, profile=profile).path for profile in ("plain", "paper")]
    write_report(runs, tmp_path / "page.html", figures=tmp_path / "figures", tables=tmp_path / "tables")
    check_files(tmp_path)


def test_methods_of_similar_names_have_separate_files(tmp_path, dataset):
    """In names of files, `a_b` and `a-b` are the same."""
    runs = [
        write_run(tmp_path / name, dataset, overrides=[f"model.encoder={name}"]).path
        for name in ("some_model", "some-model")
    ]
    write_report(runs, tmp_path / "page.html", figures=tmp_path / "figures", tables=tmp_path / "tables")
    check_files(tmp_path)


def test_a_test_set_without_text_does_not_hide_the_worst_utterances_of_another(tmp_path, sweep):
    silent = write_run(tmp_path / "silent", write_dataset(tmp_path / "mute", num_train=2, num_dev=2))
    write_evaluation(silent, [Prediction(str(number), "aaa", "", "aaa", "x") for number in range(3)])
    runs = [silent.path, sweep / "runs" / "erm-0"]
    write_report(runs, tmp_path / "page.html", audio=False)
    found = read(tmp_path / "page.html")
    assert "worst" in found.ids
    assert "#worst" in found.addresses
    utterances = found.shown.partition("Utterances with the highest mean CER over all runs")[2].partition(
        "Durations of training"
    )[0]
    assert "tones" in utterances
    assert "mute" not in utterances


def test_synthetic_speech_is_said_to_be(tmp_path):
    data = write_dataset(tmp_path / "made", num_train=2, num_dev=2)
    made = [replace(one, corpus="synthetic") for one in Manifest.read(data / "train.jsonl")]
    Manifest(made).write(data / "train.jsonl")
    write_report([write_run(tmp_path / "run", data).path], tmp_path / "page.html")
    assert "Synthetic speech. A speech synthesizer generated this dataset: made." in read(tmp_path / "page.html").shown


def test_a_dataset_that_is_gone_leaves_the_rest(tmp_path):
    data = write_dataset(tmp_path / "data", num_train=2, num_dev=2)
    run = write_run(tmp_path / "run", data).path
    for path in data.glob("*.jsonl"):
        path.unlink()
    write_report([run], tmp_path / "page.html")
    found = read(tmp_path / "page.html")
    assert "lengths" not in found.ids
    assert "the dataset has been moved or changed" in found.shown


def test_a_page_that_cannot_be_made_leaves_none(tmp_path, sweep):
    with pytest.raises(ValueError, match="ctcdro evaluate"):
        write_report([sweep], tmp_path / "page.html", split="dev")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_run_of_the_training_loop_is_reported_by_the_command(one_thread, tmp_path):
    values = {
        "dataset": str(write_dataset(tmp_path / "tones", num_train=6, num_dev=3)),
        "model": {"encoder": "mel-small", "head": "linear"},
        "data": {"num_workers": 0},
        "sampling": {"batch_duration": 3.0},
        "optimizer": {"batches_per_step": 1},
        "training": {"num_batches": 4, "validate_every_batches": 4, "trackers": []},
    }
    folder = train(parse_config(values), tmp_path / "run")
    assert run_command("run", cwd=tmp_path).stderr.strip().endswith("Run `ctcdro evaluate run --split test`.")
    scores = evaluate(folder.path, "test").scores
    done = run_command("run", "--figures", "figures", "--tables", "tables", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["Report:", "page.html", "Figures:", "figures", "Tables:", "tables"]
    assert {path.suffix for path in (tmp_path / "figures").iterdir()} == {".png", ".pdf"}
    text = (tmp_path / "tables" / "results.csv").read_text()
    assert f"{100 * scores.mean():.6g}" in text
    assert "<audio" in (tmp_path / "page.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["nowhere"], "nowhere does not exist. Create it with 'ctcdro train'"),
        (["--baseline", "x"], "--baseline (`baseline` in Python) must be a run"),
        (["--out", "no/folder/page.html"], "the folder no/folder does not exist"),
    ],
)
def test_errors_have_one_line(sweep, tmp_path, arguments, told):
    runs = [] if arguments == ["nowhere"] else [str(sweep)]
    done = run_command(*runs, *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert told in done.stderr
    assert "Traceback" not in done.stderr


def run_command(*arguments, cwd):
    command = [sys.executable, "-m", "ctcdro", "report", "--out", "page.html", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, timeout=120)


def test_templates_are_part_of_the_package():
    folder = Path(ctcdro.__file__).parent / "report" / "templates"
    shared = {"macros.html.jinja", "page.css", "page.js"}
    assert {path.name for path in folder.iterdir()} == {*shared, "page.html.jinja", "groups.html.jinja", "groups.js"}
