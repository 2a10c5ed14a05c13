"""The page of `ctcdro serve` in a real browser: `make test-browser`.

Needs Chromium, and the packages playwright and gradio; screenshots are written to build/screenshots.
"""

import json
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest
import soundfile
from hostile_runs import STRINGS
from run_folders import write_evaluation
from served_runs import write_served_run
from tones import spoken, write_dataset

from ctcdro.report.read_runs import read_runs
from ctcdro.runs.folder import RunFolder
from ctcdro.scoring.transcripts import Prediction

pytestmark = pytest.mark.browser

SCREENSHOTS = Path(__file__).parents[2] / "build" / "screenshots"
SAMPLES = spoken("abcdefghabcdefgh", np.random.default_rng(0))
MARKED = "[...document.querySelectorAll('.transcript')].map((one) => one.querySelectorAll('.word.spoken').length)"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two runs, one of which has references that try to be executed; and recordings."""
    folder = tmp_path_factory.mktemp("serve")
    dataset = write_dataset(folder / "tones", num_train=2, num_dev=len(STRINGS))
    for number, name in enumerate(("erm", "ctc-dro <img src=x onerror=window.taken=1>")):
        run = write_served_run(folder / name, dataset, seed=number)
        [result] = read_runs([run.path], "dev").runs
        predictions = [
            Prediction(one.id, one.lang, string, one.lang, string[::-1])
            for one, string in zip(result.predictions, 2 * STRINGS, strict=True)
        ]
        write_evaluation(run, predictions, split="dev")
    lines = [json.loads(line) for line in (dataset / "dev.jsonl").read_text().splitlines()]
    for line, string in zip(lines, 2 * STRINGS, strict=True):
        line["text"] = string
    (dataset / "dev.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    uploads = folder / "uploads"
    uploads.mkdir()
    soundfile.write(uploads / "a.wav", SAMPLES, 16_000)
    soundfile.write(uploads / "<img src=x onerror=window.taken=2>.wav", SAMPLES, 16_000)
    soundfile.write(uploads / "hour.flac", np.zeros(3600 * 16_000, dtype=np.int16), 16_000)
    soundfile.write(uploads / "channels.wav", np.tile(SAMPLES[:16_000, None], 1_000), 16_000)
    soundfile.write(uploads / "nan.wav", np.full(16_000, np.nan, dtype=np.float32), 16_000, subtype="FLOAT")
    (uploads / "text.wav").write_text("not audio\n" * 100)
    (uploads / "large.wav").write_bytes(bytes(60_000_000))
    return folder


@pytest.fixture(scope="module")
def server(folder):
    """The address of the command, running."""
    runs = sorted(str(path.parent) for path in folder.glob("*/config.yaml"))
    with started(["-m", "ctcdro", "serve", *runs, "--max-minutes", "2", "--max-megabytes", "50"]) as address:
        yield address


class started:  # noqa: N801
    """A Python command that prints the address of a page, while the block runs."""

    def __init__(self, command, **environment):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.command = [sys.executable, *map(str, command)]
        if "app.py" not in str(command[0]):
            self.command += ["--port", str(self.port)]
        self.environment = environment | {"GRADIO_SERVER_PORT": str(self.port)}

    def __enter__(self):
        import os

        self.process = subprocess.Popen(
            self.command, stdout=subprocess.PIPE, text=True, env={**os.environ, **self.environment}
        )
        line = self.process.stdout.readline()
        assert line.startswith("Page: http://"), line
        return f"http://127.0.0.1:{self.port}"

    def __exit__(self, *_):
        self.process.terminate()
        self.process.stdout.close()
        assert self.process.wait(30) == 0


class Visitor:
    """A browser window with the page, whose requests and dialogs are recorded."""

    def __init__(self, browser, address, **options):
        self.context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        self.page = self.context.new_page()
        self.requests, self.faults = [], []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.goto(address)
        self.page.wait_for_selector("#recording button")

    def upload(self, path):
        self.page.get_by_role("button", name="Upload file").first.click()
        self.page.locator("#recording input[type=file]").set_input_files(path)
        self.page.wait_for_selector("#recording audio", state="attached")

    def transcribe(self):
        self.page.get_by_role("button", name="Transcribe").click()

    def results(self):
        """The texts of both models."""
        self.page.wait_for_function("document.querySelectorAll('.result figure').length === 2", timeout=60_000)
        return [" ".join(one.inner_text().split()) for one in self.page.locator(".transcript").all()]

    def problem(self):
        return self.page.locator("#results [role=alert]").inner_text()


@pytest.fixture
def visitor(browser, server):
    visitor = Visitor(browser, server)
    yield visitor
    assert visitor.page.evaluate("window.taken") is None
    assert visitor.faults == []
    visitor.context.close()


def expected_texts(folder):
    from ctcdro.decoding.transcribe import Transcriber

    runs = sorted(path.parent for path in folder.glob("*/config.yaml"))
    [samples] = [soundfile.read(folder / "uploads" / "a.wav", dtype="float32")[0]]
    return [Transcriber(RunFolder(run).model).samples(samples).text for run in runs]


def test_an_uploaded_file_is_transcribed_by_both_models(visitor, folder, server):
    visitor.upload(folder / "uploads" / "a.wav")
    visitor.transcribe()
    assert visitor.results() == expected_texts(folder)
    page = visitor.page
    assert page.locator(".result h3").all_inner_texts() == ["ctc-dro <img src=x onerror=window.taken=1>", "erm"]
    assert page.locator(".languages meter").count() == 4
    assert page.locator(".posteriorgram svg image").count() == 2
    assert [url for url in visitor.requests if not url.startswith((server, "data:", "blob:"))] == []
    shown = page.locator("body").inner_text()
    assert not any(secret in shown for secret in (str(folder), "recordings-", "site-packages"))


def test_words_are_marked_while_the_recording_plays_and_a_click_on_a_word_plays_it(visitor, folder):
    visitor.upload(folder / "uploads" / "a.wav")
    visitor.transcribe()
    visitor.results()
    page = visitor.page
    page.locator("#recording audio").evaluate("audio => { audio.muted = true; return audio.play(); }")
    page.wait_for_function(f"{MARKED}.every((number) => number === 1)")
    page.locator("#recording audio").evaluate("audio => audio.pause()")
    word = page.locator(".transcript").first.locator(".word").last
    word.click()
    start = float(word.get_attribute("data-start"))
    page.wait_for_function(f"document.querySelector('#recording audio').currentTime >= {start}")


def test_a_chosen_language_excludes_the_others(visitor, folder):
    visitor.upload(folder / "uploads" / "a.wav")
    visitor.page.get_by_label("Language").click()
    visitor.page.get_by_role("option", name="Barai (bbb)").click()
    visitor.transcribe()
    assert not any(set(text) & set("abcd") for text in visitor.results())


def test_a_click_on_a_worst_utterance_recognizes_it(visitor):
    rows = visitor.page.locator("#worst tbody tr")
    assert rows.count() == 4
    text = rows.first.locator("td").last.inner_text()
    rows.first.click()
    visitor.results()
    assert visitor.page.locator("#results .reference").inner_text() == f"Reference: {text}"
    assert visitor.page.locator(".cer").count() == 2


HOSTILE = {
    "text.wav": "The recording cannot be transcribed: not audio",
    "nan.wav": "The recording cannot be transcribed: the sample at 0.000 s is NaN or infinite.",
    "hour.flac": "The recording is longer than 2 minutes, the limit of this page. Choose a shorter one.",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_explained_in_one_line(visitor, folder, name):
    visitor.upload(folder / "uploads" / name)
    visitor.transcribe()
    problem = visitor.problem()
    assert problem.startswith(HOSTILE[name])
    assert "\n" not in problem
    assert str(folder) not in problem


def test_hostile_names_and_a_thousand_channels_are_transcribed(visitor, folder):
    for name in ("<img src=x onerror=window.taken=2>.wav", "channels.wav"):
        visitor.page.reload()
        visitor.page.wait_for_selector("#recording button")
        visitor.upload(folder / "uploads" / name)
        visitor.transcribe()
        assert all(visitor.results())


def test_a_file_above_the_limit_of_size_is_not_uploaded(visitor, folder):
    visitor.page.get_by_role("button", name="Upload file").first.click()
    visitor.page.locator("#recording input[type=file]").set_input_files(folder / "uploads" / "large.wav")
    visitor.page.get_by_text("exceed the maximum allowed size of 50").wait_for()


def test_without_a_recording_the_page_asks_for_one(visitor):
    visitor.transcribe()
    assert visitor.problem() == "Record something or choose a file first."


def test_two_visitors_at_once_both_get_their_results(browser, server, folder):
    visitors = [Visitor(browser, server) for _ in range(2)]
    for visitor in visitors:
        visitor.upload(folder / "uploads" / "a.wav")
    for visitor in visitors:
        visitor.transcribe()
    assert [visitor.results() for visitor in visitors] == [expected_texts(folder)] * 2
    for visitor in visitors:
        visitor.context.close()


def test_the_microphone_is_transcribed(server, folder):
    """Chromium plays a file instead of a microphone."""
    import shutil

    from playwright.sync_api import sync_playwright

    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    options = ["--use-fake-ui-for-media-stream", "--use-fake-device-for-media-stream"]
    options.append(f"--use-file-for-fake-audio-capture={folder / 'uploads' / 'a.wav'}")
    # The driver of the other tests runs in this thread, and there can be only one.
    code = f"""
from playwright.sync_api import sync_playwright
with sync_playwright() as driver:
    browser = driver.chromium.launch(executable_path={program!r}, args={options!r})
    page = browser.new_context(permissions=["microphone"]).new_page()
    page.goto({server!r})
    page.get_by_role("button", name="Record", exact=True).click()
    page.wait_for_timeout(2500)
    page.get_by_role("button", name="Stop", exact=True).click()
    page.wait_for_selector("#recording audio[src]", state="attached")
    page.get_by_role("button", name="Transcribe").click()
    page.wait_for_function("document.querySelectorAll('.result figure').length === 2", timeout=60_000)
    print(page.locator(".word").count())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 4
    assert sync_playwright


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 420])
def test_nothing_is_wider_than_the_screen(browser, server, folder, width, scheme):
    visitor = Visitor(browser, server, viewport={"width": width, "height": 800}, color_scheme=scheme)
    visitor.upload(folder / "uploads" / "a.wav")
    visitor.transcribe()
    visitor.results()
    assert visitor.page.evaluate("document.documentElement.scrollWidth") <= width
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    visitor.page.screenshot(path=SCREENSHOTS / f"serve-{width}-{scheme}.png", full_page=True)
    visitor.context.close()


def answer(address, body=None, **headers):
    """Status and text of the answer to a request."""
    request = urllib.request.Request(address, body, headers)
    try:
        with urllib.request.urlopen(request, timeout=10) as response:
            return response.status, response.read().decode(errors="replace")
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode(errors="replace")


def test_no_file_of_the_server_can_be_requested(server, folder):
    secret = folder / "erm" / "config.yaml"
    for path in (str(secret), "/etc/passwd", f"/tmp/../{secret}", "../../../../etc/passwd", "https://example.org/"):
        for route in ("file=", "gradio_api/file=", "gradio_api/file/", "gradio_api/proxy="):
            for encoded in (quote(path), quote(quote(path)), quote(path, safe="")):
                assert answer(f"{server}/{route}{encoded}") == (404, "Not available.\n")


def test_no_file_of_the_server_can_be_the_input(server, folder):
    for path in (str(folder / "uploads" / "a.wav"), "/etc/passwd", "http://127.0.0.1:1/a.wav"):
        file = {"path": path, "meta": {"_type": "gradio.FileData"}}
        body = json.dumps({"data": [file, "", ""], "fn_index": 0, "session_hash": "a"}).encode()
        headers = {"Content-Type": "application/json"}
        assert answer(f"{server}/gradio_api/queue/join", body, **headers) == (400, "Not available.\n")


def test_the_page_and_its_configuration_contain_no_path_and_no_other_server(server, folder):
    for path in ("/", "/config"):
        status, text = answer(server + path)
        assert status == 200
        assert not any(secret in text for secret in (str(folder), "site-packages", "fonts.googleapis", "cdnjs"))
    assert answer(f"{server}/gradio_api/info")[1] == '{"named_endpoints":{},"unnamed_endpoints":{}}'
    assert answer(server, Host="evil.example") == (404, "Not available.\n")


def test_a_space_serves_its_page(browser, folder):
    from ctcdro.serve.space import write_space

    write_space(RunFolder(folder / "erm"), folder / "space")
    with started([folder / "space" / "app.py"]) as address:
        visitor = Visitor(browser, address)
        assert visitor.page.locator("h1").inner_text() == "Speech recognition in 2 languages"
        visitor.context.close()
