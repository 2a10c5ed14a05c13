"""Writes a folder for Hugging Face Spaces: the page of `ctcdro serve` for one model."""

from __future__ import annotations

import json
import re
import shutil

from .. import __version__
from ..models.saving import CONFIG, VOCABULARY, WEIGHTS, read_model_config
from ..report.model_card import encoder_name, model_card
from ..runs.folder import RunFolder
from ..storage.atomic import atomic_folder, atomic_write
from ..storage.paths import PathLike, is_empty

GRADIO_VERSION = "6.31.0"
"""The version that this package is tested with."""
PYTHON_VERSION = "3.11"

APP = '''"""A page to try the model in the folder `model`."""

import os
from pathlib import Path

from ctcdro.serve.page import serve, wait_until_stopped

folder = Path(__file__).parent / "model"
with serve([folder], host="0.0.0.0", port=int(os.environ.get("GRADIO_SERVER_PORT", "7860"))) as address:
    print(f"Page: {address}", flush=True)
    wait_until_stopped()
'''

REQUIREMENTS = f"""--extra-index-url https://download.pytorch.org/whl/cpu
ctcdro[serve,media]=={__version__}
"""

# `license` is a required decision of the owner: it depends on the encoder and the training data.
HEADER = f"""---
title: Speech recognition
emoji: 🎙️
colorFrom: blue
colorTo: green
sdk: gradio
sdk_version: {GRADIO_VERSION}
python_version: "{PYTHON_VERSION}"
app_file: app.py
pinned: false
license: unknown
---
"""


def write_space(run: RunFolder, folder: PathLike) -> None:
    """Writes app.py, requirements.txt, README.md with the model card, and the model, atomically.

    Raises:
        ValueError: if the run has no model, or the folder is not empty.
    """
    model = run.require_model()
    if not is_empty(folder):
        raise ValueError(f"{folder} is not empty. Choose another --out (`folder` in Python).")
    config = read_model_config(model)
    # The path of a local checkpoint is private, and not needed to load the model.
    config["settings"]["encoder"] = encoder_name(config["settings"]["encoder"])
    texts = {
        "app.py": APP,
        "requirements.txt": REQUIREMENTS,
        "README.md": HEADER + _without_header(model_card(run)),
        f"model/{CONFIG}": json.dumps(config, ensure_ascii=False, indent=2),
    }
    with atomic_folder(folder) as unfinished:
        (unfinished / "model").mkdir()
        for name in (WEIGHTS, VOCABULARY):
            shutil.copyfile(model / name, unfinished / "model" / name)
        for name, text in texts.items():
            with atomic_write(unfinished / name) as file:
                file.write(text)


def _without_header(card: str) -> str:
    return re.sub(r"\A---\n.*?\n---\n", "", card, flags=re.DOTALL)
