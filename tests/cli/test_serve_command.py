"""`ctcdro serve` and `ctcdro export --format space`. The page itself is tested in a browser."""

import contextlib
import sys
from types import SimpleNamespace

import pytest
from in_process import run
from served_runs import write_served_run
from tones import write_dataset


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("serve")
    return write_served_run(folder / "run", write_dataset(folder / "tones", num_train=2)).path


@pytest.fixture
def calls(monkeypatch):
    """The calls of a server that is stopped at once, in place of Gradio's."""
    calls = []

    @contextlib.contextmanager
    def serve(runs, **options):
        calls.append((runs, options))
        yield f"http://{options['host']}:{options['port']}/"

    page = SimpleNamespace(serve=serve, Limits=lambda *limits: limits, wait_until_stopped=lambda: None)
    monkeypatch.setitem(sys.modules, "ctcdro.serve.page", page)
    return calls


def test_the_address_is_printed_and_several_runs_are_served(trained, calls):
    done = run("serve", trained, trained)
    assert (done.returncode, done.stdout, done.stderr) == (0, "Page: http://127.0.0.1:7860/\n", "")
    [(runs, options)] = calls
    assert runs == [trained, trained]
    assert (options["limits"], options["num_examples"], options["device"]) == ((10.0, 100), 2, "auto")


def test_options_reach_the_server(trained, calls):
    limits = ["--max-minutes", "1.5", "--max-megabytes", "7", "--num-worst", "0"]
    done = run("serve", trained, "--host", "0.0.0.0", "--port", "8080", *limits, "--device", "cpu")
    assert done.stdout == "Page: http://0.0.0.0:8080/\n"
    options = calls[0][1]
    assert (options["limits"], options["num_examples"], options["device"]) == ((1.5, 7), 0, "cpu")


def test_a_missing_extra_is_named(trained, monkeypatch):
    monkeypatch.setitem(sys.modules, "gradio", None)
    monkeypatch.delitem(sys.modules, "ctcdro.serve.page", raising=False)
    done = run("serve", trained)
    assert done.returncode == 2
    assert "`ctcdro serve` needs the extra `serve`: pip install 'ctcdro[serve]'" in done.stderr


def test_a_space_is_exported(trained, tmp_path):
    done = run("export", trained, "--format", "space", "--out", tmp_path / "space")
    assert (done.returncode, done.stdout) == (0, f"Space: {tmp_path / 'space'}\n")
    assert {path.name for path in (tmp_path / "space").iterdir()} == {
        "README.md",
        "app.py",
        "model",
        "requirements.txt",
    }
