"""Bars on a terminal."""

import io
import re

from rich.console import Console

from ctcdro.cli import console
from ctcdro.cli.run_progress import TrainingProgress
from ctcdro.runs.config import Config


def test_a_narrow_terminal_cuts_the_figures_and_not_the_remaining_time(monkeypatch):
    screen = io.StringIO()
    terminal = Console(file=screen, width=80, force_terminal=True, color_system=None)
    monkeypatch.setattr(console, "messages", terminal)
    monkeypatch.setattr(console, "shows_bars", lambda: True)
    config = Config.model_validate({"dataset": "data", "training": {"num_batches": 480_000}})
    with TrainingProgress(config) as progress:
        for step in (1, 2):
            record = {"step": step, "seconds": step, "audio_seconds": 50.0, "loss": 123.4, "weights": {"por": 0.5}}
            progress(record)
    assert re.search(r"2/30000 [\d:-]{7} loss 123\.40, 50 s of audio/s, largest …", screen.getvalue())
