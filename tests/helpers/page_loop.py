"""Runs the training loop on a page of the documentation, with a small model and random data; needs torch only."""

import re
from pathlib import Path
from typing import Any

import torch

LANGUAGES = ["ces", "cmn", "ces", "cmn"]


def run_first_loop(page: Path) -> None:
    """Runs the first Python code on a page for two epochs in the working directory. The model must have learned."""
    names = loop_parts()
    model = names["model"]
    before = model.weight.detach().clone()
    code = re.search(r"^```python\n(.*?)^```$", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)[1]
    exec(code, names)
    assert not torch.equal(model.weight, before)


def loop_parts() -> dict[str, Any]:
    """What the loop uses but does not define, by name; its manifest is written to the working directory."""
    torch.manual_seed(0)
    lines = [f'{{"audio_filepath": "a.wav", "duration": 40, "text": "", "lang": "{lang}"}}' for lang in LANGUAGES]
    Path("train.jsonl").write_text("\n".join(lines), encoding="utf-8")
    model = torch.nn.Linear(8, 5)
    parts = {"dataset": [LANGUAGES.index(one) for one in LANGUAGES], "collate": _collate, "num_epochs": 2}
    return {**parts, "model": model, "optimizer": torch.optim.SGD(model.parameters(), lr=0.1)}


def _collate(groups):
    numbers = torch.full((len(groups),), 12), torch.full((len(groups),), 3)
    return torch.randn(12, len(groups), 8), torch.ones(len(groups), 3).long(), *numbers, torch.tensor(groups)
