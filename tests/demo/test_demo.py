"""A tiny demonstration: stopped, resumed, shown again."""

import json
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from ctcdro.cli.main import app
from ctcdro.demo.demo import demo, demo_sweep
from ctcdro.runs.config import read_config

OPTIONS = ["--minutes", "0.15:0.03:0.03", "--steps", "4"]


def command(folder):
    return [sys.executable, "-m", "ctcdro", "demo", "--out", str(folder), *OPTIONS]


def run(folder):
    return CliRunner().invoke(app, command(folder)[3:])


def modification_times(folder):
    """Modification times of the page and of all files of the corpus and the runs that are expensive to write."""
    paths = [folder / "report.html", *folder.rglob("*.wav"), *folder.rglob("*.safetensors"), *folder.rglob("log.jsonl")]
    return {path: path.stat().st_mtime_ns for path in paths}


@pytest.fixture(scope="module")
def story(tmp_path_factory):
    """The demo, stopped during synthesis, then run twice more with the same command."""
    folder = tmp_path_factory.mktemp("demo") / "out"
    with subprocess.Popen(command(folder), stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < deadline and not any(folder.rglob("*.wav")):
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        stopped = SimpleNamespace(stderr=process.communicate()[1], returncode=process.returncode)
    num_files = len(list(folder.rglob("*.wav")))
    whole = run(folder)
    times = modification_times(folder)
    again = run(folder)
    later_times = modification_times(folder)
    return SimpleNamespace(**locals())


@pytest.mark.slow
def test_it_can_be_stopped_and_resumed(story):
    assert story.stopped.returncode == 130
    assert "Run the same command again to resume" in story.stopped.stderr
    assert 0 < story.num_files < len(list(story.folder.rglob("*.wav")))
    assert story.whole.exit_code == 0, story.whole.stderr


@pytest.mark.slow
def test_it_leaves_runs_a_table_and_a_page(story):
    assert {path.name for path in (story.folder / "runs").iterdir()} == {
        f"{setting.name}-seed0" for setting in demo_sweep("corpus").grid()
    }
    rows = json.loads((story.folder / "table.json").read_text())
    assert [row["objective"] for row in rows] == ["erm", "group-dro", "ctc-dro", "error-weighted"]
    keys = "method objective values run seed worst_cer worst_language mean_cer mean_lid seconds"
    assert all(list(row) == keys.split() for row in rows)
    assert {row["worst_language"] for row in rows} <= {"ces", "cmn", "kor", "pol", "ron", "spa"}
    assert "synthetic" in (story.folder / "report.html").read_text(encoding="utf-8").lower()


@pytest.mark.slow
def test_it_prints_the_table_and_that_the_speech_is_synthetic(story):
    for shown in (
        "Baseline (ERM)",
        "Group DRO",
        "CTC-DRO",
        "Error-weighted",
        "worst CER",
        "mean CER",
        "LID",
        "The speech is synthetic",
    ):
        assert shown in story.whole.stdout
    assert f"Report: {story.folder / 'report.html'}" in story.whole.stdout


@pytest.mark.slow
def test_a_finished_one_is_only_shown_again(story):
    assert story.again.stdout == story.whole.stdout
    assert story.later_times == story.times


@pytest.mark.slow
def test_the_corpus_of_a_finished_one_is_not_planned_again(story, monkeypatch):
    monkeypatch.setattr("ctcdro.demo.demo.make_corpus", None)
    result = demo(story.folder, specs=specs_of(story.folder), num_steps=4)
    assert [row.setting.objective for row in result.rows] == ["erm", "group-dro", "ctc-dro", "error-weighted"]


@pytest.mark.slow
def test_other_options_need_another_folder(story):
    with pytest.raises(ValueError, match=r"seeds: \[0\] → \[1\]"):
        demo(story.folder, seed=1, specs=specs_of(story.folder), num_steps=4)
    with pytest.raises(
        ValueError, match=r"corpus already contains a corpus built with other options\. Choose another --out\.$"
    ):
        demo(story.folder, num_steps=4)


def test_a_corpus_of_unknown_origin_is_rejected(tmp_path):
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "train.jsonl").touch()
    with pytest.raises(
        ValueError, match=r"corpus already contains a corpus built with other options\. Choose another --out\.$"
    ):
        demo(tmp_path, num_steps=4)


def specs_of(folder):
    from ctcdro.cli.speech_specs import parse_speech_specs
    from ctcdro.synthetic.spec import DEMO_SPECS

    specs = parse_speech_specs(DEMO_SPECS, minutes=[OPTIONS[1]])
    assert json.loads((folder / "corpus" / "dataset.json").read_text())["recipes"].keys() == specs.keys()
    return specs


@pytest.mark.slow
def test_the_runs_differ_in_their_objective_only_and_group_dro_in_its_batches(story):
    configs = [read_config(path) for path in (story.folder / "runs").glob("*/config.yaml")]
    erm = next(config for config in configs if config.objective.name == "erm")
    assert sorted(config.objective.name for config in configs) == ["ctc-dro", "erm", "error-weighted", "group-dro"]
    for config in configs:
        own = config.sampling if config.objective.name == "group-dro" else erm.sampling
        assert config == erm.model_copy(update={"objective": config.objective, "sampling": own})
