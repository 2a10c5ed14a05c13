"""The page, with Gradio, and the server.

Models are used by one request at a time; others wait in a queue and see their position. The page needs no network:
telemetry, share links, fonts of other servers and Gradio's API for programs are off.
"""

from __future__ import annotations

import html
import os
import signal
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ..runtime.extras import extra
from ..runtime.progress import Track, untracked
from ..storage.paths import PathLike

with extra("serve", "The page"):
    os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")
    import gradio
    import numpy as np
    from starlette.middleware import Middleware

    from ..speech.audio import SAMPLE_RATE
    from ..speech.language_names import language_name
    from .examples import Example, find_examples
    from .recognition import Recognition, ServedModel, load_models, recognize
    from .request_guard import RequestGuard
    from .results import read_asset, render_problem, render_results
    from .uploads import UploadError, read_upload

ANY_LANGUAGE = ""
MAX_WAITING = 32
MAX_REFERENCE = 10_000
CACHE_SECONDS = 3600
PROGRESS = gradio.Progress()  # Gradio finds it among the defaults of a function


@dataclass(frozen=True)
class Limits:
    """Limits of a recording."""

    max_minutes: float = 10.0
    max_megabytes: int = 100


def build_page(models: Sequence[ServedModel], examples: Sequence[Example] = (), limits: Limits | None = None) -> Any:
    """The page, a `gradio.Blocks` that is not launched."""
    limits = limits or Limits()
    languages = sorted({code for model in models for code in model.languages}, key=language_name)

    def transcribe(path: str | None, language: str, reference: str | None, progress: Any = PROGRESS) -> Iterator[str]:
        if path is None:
            yield render_problem("Record something or choose a file first.")
            return
        results: list[Recognition] = []
        try:
            samples = read_upload(path, 60 * limits.max_minutes)
            progress((0, len(models)), desc="Transcribing", unit="models")
            for result in recognize(models, samples, language or None, reference or ""):
                results.append(result)
                progress((len(results), len(models)), desc="Transcribing", unit="models")
                yield render_results(results, reference or "")
        except UploadError as error:
            yield render_problem(str(error))

    def open_example(number: int) -> tuple[Any, str]:
        example = examples[number]
        try:
            samples = example.read()
        except UploadError as error:  # Gradio shows messages as HTML
            raise gradio.Error(html.escape(str(error)), print_exception=False) from None
        return (SAMPLE_RATE, np.int16(32767 * np.clip(samples, -1.0, 1.0))), example.utterance.text

    with gradio.Blocks(title="Speech recognition", analytics_enabled=False, delete_cache=(60, CACHE_SECONDS)) as page:
        gradio.Markdown(f"# Speech recognition in {len(languages)} languages")
        with gradio.Row(elem_id="layout"):
            with gradio.Column(elem_id="input"):
                audio = gradio.Audio(
                    label=f"Recording, at most {limits.max_minutes:g} minutes and {limits.max_megabytes} MB",
                    sources=["microphone", "upload"],
                    type="filepath",
                    editable=False,
                    buttons=[],
                    elem_id="recording",
                    waveform_options=gradio.WaveformOptions(show_recording_waveform=False),
                )
                language = gradio.Dropdown(
                    [("Identify the language", ANY_LANGUAGE), *((language_name(code), code) for code in languages)],
                    value=ANY_LANGUAGE,
                    label="Language",
                )
                reference = gradio.Textbox(
                    label="Reference (optional)",
                    info="The words that were said, to compute the CER.",
                    max_length=MAX_REFERENCE,
                )
                button = gradio.Button("Transcribe", variant="primary")
            with gradio.Column(elem_id="output"):
                results = gradio.HTML(elem_id="results", min_height=120)
            if examples:
                with gradio.Column(elem_id="worst"):
                    chosen = _list_examples(examples)
        settings: dict[str, Any] = {"api_visibility": "private", "concurrency_limit": 1, "concurrency_id": "models"}
        inputs = [audio, language, reference]
        button.click(transcribe, inputs, results, **settings)
        audio.clear(fn=None, js="() => ['', '']", outputs=[results, reference])
        if examples:
            opened = chosen.click(open_example, chosen, [audio, reference], api_visibility="private")
            opened.success(transcribe, inputs, results, **settings)
    page.queue(max_size=MAX_WAITING, api_open=False, default_concurrency_limit=1)
    return page


def _list_examples(examples: Sequence[Example]) -> Any:
    rows = [[language_name(one.utterance.lang), f"{100 * one.cer:.0f}%", one.utterance.text] for one in examples]
    return gradio.Dataset(
        label="Worst utterances of the development set",
        components=[gradio.Textbox(visible=False) for _ in range(3)],
        headers=["language", "CER", "reference"],
        samples=rows,
        type="index",
        elem_id="examples",
    )


@contextmanager
def serve(
    runs: Sequence[PathLike],
    *,
    host: str = "127.0.0.1",
    port: int = 7860,
    limits: Limits | None = None,
    num_examples: int = 2,
    device: str = "auto",
    track: Track = untracked,
) -> Iterator[str]:
    """Serves the page while the block runs, and yields its address. Recordings are removed at the end.

    Args:
        runs: folders of finished runs, or of saved recognizers.
        host: the address to listen on. By default, only this machine can open the page.
        port: the port to listen on.
        limits: limits of a recording.
        num_examples: worst utterances of the development set to offer, per language.
        device: "cpu", "cuda", "cuda:1", or "auto" for a GPU if there is one.

    Raises:
        ValueError: if a run has no valid model, or the port is in use.
    """
    limits = limits or Limits()
    examples = find_examples(runs, num_examples)
    models = load_models(runs, device, track)
    with tempfile.TemporaryDirectory(prefix="recordings-") as folder:
        os.environ["GRADIO_TEMP_DIR"] = folder  # read when components are created, and for each request
        page = build_page(models, examples, limits)
        fonts = {"font": ["system-ui", "sans-serif"], "font_mono": ["ui-monospace", "monospace"]}
        try:
            _, address, _ = page.launch(
                server_name=host,
                server_port=port,
                max_file_size=limits.max_megabytes * 2**20,
                prevent_thread_lock=True,
                quiet=True,
                inbrowser=False,
                share=False,
                ssr_mode=False,
                pwa=False,
                mcp_server=False,
                enable_monitoring=False,
                footer_links=[],
                app_kwargs={
                    "middleware": [Middleware(RequestGuard, folder=folder, host=host)],
                    "docs_url": None,
                    "redoc_url": None,
                },
                theme=gradio.themes.Default(**fonts),
                css=read_asset("page.css"),
                js=read_asset("page.js"),
            )
        except OSError as error:
            raise ValueError(
                f"Cannot listen on {host}:{port}. The port is in use, or the address is not one of this machine. "
                "Choose another --port or --host."
            ) from error
        try:
            yield address
        finally:
            page.close(verbose=False)
            del os.environ["GRADIO_TEMP_DIR"]


def wait_until_stopped() -> None:
    """Returns after Ctrl-C or SIGTERM."""

    def interrupt(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        pass
    finally:
        signal.signal(signal.SIGTERM, before)
